package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/testkit"
)

// switching is a server that takes every upgrade to WebSocket and sends back what comes,
// byte by byte: frames, or what looks like none. It ends when the client does.
func switching(p *testkit.Peer) {
	webSocketAccept(p)
	p.Echo()
}

// socket is a client's end of a WebSocket of HTTP/1.1.
type socket struct {
	net.Conn
	in   *bufio.Reader
	head string // of the answer
}

// openSocket asks for one on a connection.
func openSocket(t *testing.T, conn net.Conn) *socket {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(conn, testkit.Request("GET", "/chat", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
	s := &socket{Conn: conn, in: bufio.NewReader(conn)}
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		b, err := s.in.ReadByte()
		if err != nil {
			t.Fatalf("%v behind %q", err, head.String())
		}
		head.WriteByte(b)
	}
	if !strings.HasPrefix(head.String(), "HTTP/1.1 101 ") || !strings.Contains(head.String(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") {
		t.Fatalf("the upgrade is answered by %q", head.String())
	}
	s.head = head.String()
	return s
}

// says sends a text, whose echo must come.
func (s *socket) says(t *testing.T, text string) {
	t.Helper()
	io.WriteString(s, text)
	got := make([]byte, len(text))
	if _, err := io.ReadFull(s.in, got); err != nil || string(got) != text {
		t.Fatalf("said %q, heard %q, %v", text, got, err)
	}
}

// What a WebSocket carries is the business of its two ends: all bytes, in pieces of any size,
// come as they were sent, with TLS and without, by HTTP/1.1 and by HTTP/2.
func TestWebSocketBytes(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, switching)
	m := startMixed(t, farm(b.URL()))
	content := noise(2 << 20)
	for name, open := range map[string]func(*testing.T) io.ReadWriter{
		"ws":            func(t *testing.T) io.ReadWriter { return openSocket(t, plain(t, m.web())) },
		"wss":           func(t *testing.T) io.ReadWriter { return openSocket(t, m.agreed(t, "http/1.1")) },
		"ws by HTTP/2":  func(t *testing.T) io.ReadWriter { return streamSocket(t, plain(t, m.web())) },
		"wss by HTTP/2": func(t *testing.T) io.ReadWriter { return streamSocket(t, m.agreed(t, "h2")) },
	} {
		t.Run(name, func(t *testing.T) {
			conn, r := open(t), rand.New(rand.NewPCG(1, 2))
			var sender sync.WaitGroup
			sender.Go(func() {
				for rest := content; len(rest) > 0; {
					n := min(len(rest), 1+r.IntN(1<<r.IntN(18)))
					if _, err := conn.Write(rest[:n]); err != nil {
						t.Error(err)
						return
					}
					rest = rest[n:]
				}
			})
			got := make([]byte, len(content))
			n, err := io.ReadFull(reading(conn), got)
			sender.Wait()
			if err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes came, %v; are they the same: %v", n, err, bytes.Equal(got, content))
			}
		})
	}
}

// agreed is a connection to the listener tls on which a protocol was agreed upon.
func (m *mixed) agreed(t *testing.T, protocol string) net.Conn {
	t.Helper()
	conn, err := m.secure("tls", protocol)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// reading is where what comes on a WebSocket is read.
func reading(conn io.ReadWriter) io.Reader {
	if s, is := conn.(*socket); is {
		return s.in
	}
	return conn
}

// stream is a WebSocket on a stream of HTTP/2 (RFC 8441).
type stream struct {
	*framer
	mu     sync.Mutex
	room   *sync.Cond // guarded by mu: told of windows
	window [2]int     // of the connection and of the stream; guarded by mu
	came   []byte     // not read yet
	head   *http2.MetaHeadersFrame
}

// streamSocket asks for one on a connection.
func streamSocket(t *testing.T, conn net.Conn) *stream {
	s := &stream{framer: frameOn(t, conn), window: [2]int{65535, 65535}}
	s.room = sync.NewCond(&s.mu)
	s.WriteSettingsAck()
	s.ask(1, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/chat", ":authority", "localhost", "sec-websocket-version", "13")
	if got := s.settled(); got != "200" {
		t.Fatalf("a WebSocket on a stream is answered by %s", got)
	}
	return s
}

// settled is outcome, with the windows that are told meanwhile.
func (s *stream) settled() string {
	for {
		frame, err := s.ReadFrame()
		if err != nil {
			return err.Error()
		}
		s.note(frame)
		if head, is := frame.(*http2.MetaHeadersFrame); is {
			s.head = head
			return head.PseudoValue("status")
		}
	}
}

// note takes what a frame says of windows, and answers a ping.
func (s *stream) note(frame http2.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch frame := frame.(type) {
	case *http2.SettingsFrame:
		if size, is := frame.Value(http2.SettingInitialWindowSize); is {
			s.window[1] += int(size) - 65535
		}
	case *http2.PingFrame:
		if !frame.IsAck() {
			s.WritePing(true, frame.Data)
		}
	case *http2.WindowUpdateFrame:
		s.window[min(frame.StreamID, 1)] += int(frame.Increment)
	}
	s.room.Broadcast()
}

// Write sends as windows allow.
func (s *stream) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		s.mu.Lock()
		for min(s.window[0], s.window[1]) == 0 {
			s.room.Wait()
		}
		m := min(len(p)-n, s.window[0], s.window[1], 16<<10)
		s.window[0], s.window[1] = s.window[0]-m, s.window[1]-m
		err = s.WriteData(1, false, p[n:n+m])
		s.mu.Unlock()
		n += m
	}
	return n, err
}

// Read takes content, and opens the windows again.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.came) == 0 {
		frame, err := s.ReadFrame()
		if err != nil {
			return 0, err
		}
		s.note(frame)
		if data, is := frame.(*http2.DataFrame); is && len(data.Data()) > 0 {
			s.came = append(s.came, data.Data()...)
			s.mu.Lock()
			s.WriteWindowUpdate(0, data.Length)
			s.WriteWindowUpdate(1, data.Length)
			s.mu.Unlock()
		}
	}
	n := copy(p, s.came)
	s.came = s.came[n:]
	return n, nil
}

// A WebSocket goes on over reloads, also with the server that it has when that is not asked
// any more, and while Sluice drains; the death of its worker ends it, and it alone: the next
// one is served.
func TestWebSocketLives(t *testing.T) {
	t.Parallel()
	before, now := testkit.Serve(t, switching), testkit.Serve(t, switching)
	s := start(t, farm(before.URL()), "timeouts: {drain: 1m}", "workers: {per: machine}")
	old := openSocket(t, plain(t, s.web()))
	old.says(t, "before")
	s.configure(farm(now.URL()), "timeouts: {drain: 1m}", "workers: {per: machine}", fmt.Sprintf("listeners: [{name: web, address: %q}]", s.web()))
	s.reload()
	old.says(t, "after the reload")
	next := openSocket(t, plain(t, s.web()))
	next.says(t, "a new one")
	if len(before.Heard()) != 1 || len(now.Heard()) != 1 {
		t.Errorf("the servers were asked %d and %d times", len(before.Heard()), len(now.Heard()))
	}
	old.says(t, "beside a new one")

	pid := s.workers()[0]
	syscall.Kill(pid, syscall.SIGKILL)
	for _, dead := range []*socket{old, next} {
		if rest, _ := io.ReadAll(dead.in); len(rest) > 0 {
			t.Errorf("the worker's death is preceded by %q", rest)
		}
	}
	testkit.Eventually(t, "another worker serves", func() bool { st := s.status(); return st.Ready && st.Workers[0].PID != pid })
	last := openSocket(t, plain(t, s.web()))
	last.says(t, "after a death")

	s.Signal(syscall.SIGTERM)
	s.Stderr.Await(t, "drain")
	last.says(t, "while draining")
	last.Close()
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
