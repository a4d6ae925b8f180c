package http3

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/message"
	"sluice/internal/reactor"
	"sluice/internal/testkit"
)

// patience ends tests that would otherwise hang; none takes so long.
const patience = 60 * time.Second

// site serves the connections of a socket: each request is answered by a task. It is
// the server's doorman, and the owner of all connections.
type site struct {
	t      testing.TB
	loop   *reactor.Loop
	server *Server
	addr   *net.UDPAddr
	trust  *tls.Config

	events  [EventCount]atomic.Uint64
	failed  atomic.Uint64
	conns   atomic.Int64
	welcome atomic.Bool
	serve   func(*Stream) // a task
}

func config() *Config {
	return &Config{
		Streams: 10, Head: 4096, Line: 1000, Fields: 50, Window: 64 << 10, Widest: 128 << 10,
		Handshake: patience, Handshakes: 100, Header: patience, Idle: patience, Parting: time.Millisecond,
	}
}

// newSite listens on loopback until the test ends.
func newSite(t testing.TB, cfg *Config, serve func(*Stream)) *site {
	t.Helper()
	l, err := reactor.New(reactor.Options{})
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	t.Cleanup(l.Close)
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	st := &site{t: t, loop: l, addr: socket.LocalAddr().(*net.UDPAddr), serve: serve}
	st.welcome.Store(true)
	cert := certificate(t)
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	st.trust = &tls.Config{RootCAs: pool, ServerName: "localhost", NextProtos: []string{"h3"}}
	if st.server, err = Listen(socket, Identity{Place: 3}, cfg, l, st, func() bool { return !st.welcome.Load() }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.server.Close)
	return st
}

func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (st *site) Connected(*Conn) Owner        { st.conns.Add(1); return st }
func (st *site) Failed(netip.AddrPort, error) { st.failed.Add(1) }
func (st *site) Happened(e Event, n uint64)   { st.events[e].Add(n) }
func (st *site) Ended()                       { st.conns.Add(-1) }
func (st *site) Accept(s *Stream)             { st.loop.Go(&answering{st, s}) }

type answering struct {
	st *site
	s  *Stream
}

func (a *answering) Run() { a.st.serve(a.s) }

// dial opens a connection.
func (st *site) dial() (*quic.Conn, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	c, err := quic.DialAddr(ctx, st.addr.String(), st.trust, &quic.Config{HandshakeIdleTimeout: patience})
	if err == nil {
		st.t.Cleanup(func() { c.CloseWithError(0x100, "") })
	}
	return c, err
}

func (st *site) connect() *quic.Conn {
	st.t.Helper()
	c, err := st.dial()
	if err != nil {
		st.t.Fatal(err)
	}
	return c
}

// head is HEADERS of a request with these fields besides the usual ones.
func head(method string, fields ...string) string {
	fs := message.Fields{}
	for _, f := range append([]string{":method: " + method, ":scheme: https", ":authority: a", ":path: /"}, fields...) {
		name, value, _ := strings.Cut(f, ": ")
		fs = append(fs, message.Field{Name: []byte(name), Value: []byte(value)})
	}
	return string(appendTrailers(nil, fs))
}

func data(text string) string { return string(appendFrame(nil, frameData, len(text))) + text }

// send opens a stream, sends all of text, and tells what comes: the answer, or how the
// stream or the connection ended.
func send(t testing.TB, c *quic.Conn, text string) string {
	t.Helper()
	s, err := c.OpenStreamSync(t.Context())
	if err != nil {
		return ending(err)
	}
	s.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(s, text); err != nil {
		return ending(err)
	}
	s.Close()
	return heard(t, s)
}

// heard reads an answer to its end.
func heard(t testing.TB, s *quic.Stream) string {
	t.Helper()
	from, text := newSource(s), ""
	for {
		h, err := from.frame()
		if err == io.EOF {
			return strings.TrimSpace(text)
		}
		var b []byte
		if err == nil {
			b, err = from.whole(int(h.length))
		}
		if err != nil {
			return strings.TrimSpace(text + ending(err))
		}
		if h.kind == frameHeaders {
			text += strings.TrimSuffix(plain(t.(*testing.T), b), ";") + " "
		} else if len(b) < 100 {
			text += string(b) + " "
		} else {
			text += fmt.Sprint(len(b), " ")
		}
	}
}

// ending names how a stream or a connection ended.
func ending(err error) string {
	var stream *quic.StreamError
	var conn *quic.ApplicationError
	switch {
	case errors.As(err, &conn) && conn.Remote:
		return "closed: " + Code(conn.ErrorCode).String()
	case errors.As(err, &stream) && stream.Remote:
		return "reset: " + Code(stream.ErrorCode).String()
	}
	return err.Error()
}

// echo answers with what it was sent, and its trailers.
func echo(s *Stream) {
	var r message.Request
	s.Request(&r)
	var content []byte
	p := make([]byte, 1000)
	for {
		n, err := s.Read(p)
		content = append(content, p[:n]...)
		if err == io.EOF {
			break
		} else if err != nil {
			s.Reset()
			return
		}
	}
	s.Respond(&message.Response{Status: 200, ContentLength: -1}, false)
	s.Write(fmt.Appendf(nil, "%s %s %d %s", r.MethodName, r.Target, r.Body, content))
	s.End(s.Trailers())
	s.Close()
}

// What a client sends on a stream, and what becomes of that: each kind of fault has its
// code, and ends the stream or the connection as RFC 9114 says.
func TestRequests(t *testing.T) {
	get := head("GET")
	for _, tc := range []struct{ name, sent, want string }{
		{"a request", get, ":status=200 GET / 0"},
		{"content", head("POST") + data("abc") + data("") + data("de"), ":status=200 POST / 3 abcde"},
		{"known length", head("POST", "content-length: 3") + data("abc"), ":status=200 POST / 1 abc"},
		{"trailers", head("POST") + data("abc") + string(appendTrailers(nil, message.Fields{{Name: []byte("check"), Value: []byte("1")}})), ":status=200 POST / 3 abc check=1"},
		{"frames of unknown types", "\x21\x03abc" + get + "\x40\x21\x00", ":status=200 GET / 3"},
		{"a long frame of an unknown type", "\x21\x54\x00" + strings.Repeat("x", 5<<10) + get, ":status=200 GET / 0"},
		{"empty frames of unknown types", strings.Repeat("\x21\x00", 20_000) + get, "closed: H3_EXCESSIVE_LOAD"},
		{"and behind the head", head("POST") + strings.Repeat("\x21\x00", 20_000), "closed: H3_EXCESSIVE_LOAD"},
		{"and behind trailers", head("POST") + string(appendTrailers(nil, nil)) + strings.Repeat("\x21\x00", 20_000), "closed: H3_EXCESSIVE_LOAD"},
		{"empty content", head("POST") + strings.Repeat("\x00\x00", 20_000), "closed: H3_EXCESSIVE_LOAD"},
		{"an endless frame of an unknown type", "\x21\x9f\xff\xff\xff", "closed: H3_EXCESSIVE_LOAD"},
		{"PUSH_PROMISE", head("GET") + "\x05\x01\x00", "closed: H3_FRAME_UNEXPECTED"},
		{"CANCEL_PUSH", "\x03\x01\x00", "closed: H3_FRAME_UNEXPECTED"},
		{"an entry of a dynamic table", "\x01\x03\x00\x00\x80", "closed: QPACK_DECOMPRESSION_FAILED"},
		{"a section that would wait", "\x01\x03\x02\x00\x80", "closed: QPACK_DECOMPRESSION_FAILED"},
		{"trailers that would wait", head("POST") + "\x01\x03\x02\x00\x80", "closed: QPACK_DECOMPRESSION_FAILED"},
		{"less than declared", head("POST", "content-length: 4") + data("abc"), "reset: H3_MESSAGE_ERROR"},
		{"more than declared", head("POST", "content-length: 2") + data("abc"), "reset: H3_MESSAGE_ERROR"},
		{"less, with trailers", head("POST", "content-length: 4") + data("abc") + string(appendTrailers(nil, nil)), "reset: H3_MESSAGE_ERROR"},
		{"a pseudo-field in trailers", head("POST") + string(appendTrailers(nil, message.Fields{{Name: []byte(":path"), Value: []byte("/")}})), "reset: H3_MESSAGE_ERROR"},
		{"a field of connections", head("GET", "connection: close"), "reset: H3_MESSAGE_ERROR"},
		{"two authorities", head("GET", "host: b"), "reset: H3_MESSAGE_ERROR"},
		{"a method twice", head("GET", ":method: PUT"), "reset: H3_MESSAGE_ERROR"},
		{"a long head", head("GET", "long: "+strings.Repeat("x", 4096)), ":status=431;content-length=0"},
		{"a head that is not kept", head("GET", "long: "+strings.Repeat("x", 3*4096)), ":status=431;content-length=0"},
		{"a head beyond all", head("GET", "long: "+strings.Repeat("x", 4*4096)), "reset: H3_EXCESSIVE_LOAD"},
		{"a long target", head("GET"[:0] + "GET" + strings.Repeat("X", 1000)), ":status=414;content-length=0"},
		{"nothing", "", "reset: H3_REQUEST_INCOMPLETE"},
		{"nothing known", "\x21\x00", "reset: H3_REQUEST_INCOMPLETE"},
		{"DATA first", data("abc"), "closed: H3_FRAME_UNEXPECTED"},
		{"SETTINGS on a request", "\x04\x00", "closed: H3_FRAME_UNEXPECTED"},
		{"a frame of HTTP/2", head("POST") + "\x06\x00", "closed: H3_FRAME_UNEXPECTED"},
		{"DATA behind trailers", head("POST") + string(appendTrailers(nil, nil)) + data("a"), "closed: H3_FRAME_UNEXPECTED"},
		{"a cut head", get[:len(get)-1], "closed: H3_FRAME_ERROR"},
		{"cut content", head("POST") + data("abc")[:4], "closed: H3_FRAME_ERROR"},
		{"bad QPACK", "\x01\x04\xff\xff\xff\xff", "closed: QPACK_DECOMPRESSION_FAILED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			st := newSite(t, config(), echo)
			if got := send(t, st.connect(), tc.sent); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// The streams that carry no request: what may come on them, and what ends the connection.
func TestCriticalStreams(t *testing.T) {
	const good = ":status=200 GET / 0"
	for _, tc := range []struct {
		name string
		sent []string // each on a stream of its own
		end  bool     // and the stream's end
		want string
	}{
		{"all three", []string{"\x00\x04\x00\x07\x01\x00\x0d\x01\x05\x0d\x01\x05\x21\x00", "\x02\x20", "\x03\x40\x7f\x01"}, false, good},
		{"an unknown stream", []string{"\x21abc"}, false, good},
		{"a push", []string{"\x01\x00"}, false, "closed: H3_STREAM_CREATION_ERROR"},
		{"two of a kind", []string{"\x02", "\x02"}, false, "closed: H3_STREAM_CREATION_ERROR"},
		{"no SETTINGS", []string{"\x00\x07\x01\x00"}, false, "closed: H3_MISSING_SETTINGS"},
		{"SETTINGS twice", []string{"\x00\x04\x00\x04\x00"}, false, "closed: H3_FRAME_UNEXPECTED"},
		{"a setting twice", []string{"\x00\x04\x04\x06\x01\x06\x01"}, false, "closed: H3_SETTINGS_ERROR"},
		{"a setting of HTTP/2", []string{"\x00\x04\x02\x02\x01"}, false, "closed: H3_SETTINGS_ERROR"},
		{"a cut setting", []string{"\x00\x04\x01\x06"}, false, "closed: H3_FRAME_ERROR"},
		{"DATA", []string{"\x00\x04\x00\x00\x00"}, false, "closed: H3_FRAME_UNEXPECTED"},
		{"MAX_PUSH_ID lowered", []string{"\x00\x04\x00\x0d\x01\x05\x0d\x01\x04"}, false, "closed: H3_ID_ERROR"},
		{"CANCEL_PUSH of nothing", []string{"\x00\x04\x00\x03\x01\x00"}, false, "closed: H3_ID_ERROR"},
		{"a long GOAWAY", []string{"\x00\x04\x00\x07\x02\x00\x00"}, false, "closed: H3_FRAME_ERROR"},
		{"an entry for the table", []string{"\x02\x41a\x01b"}, false, "closed: QPACK_ENCODER_STREAM_ERROR"},
		{"an acknowledgement", []string{"\x03\x80"}, false, "closed: QPACK_DECODER_STREAM_ERROR"},
		{"GOAWAY raised", []string{"\x00\x04\x00\x07\x01\x05\x07\x01\x06"}, false, "closed: H3_ID_ERROR"},
		{"GOAWAY lowered", []string{"\x00\x04\x00\x07\x01\x06\x07\x01\x05"}, false, good},
		{"MAX_PUSH_ID again and again", []string{"\x00\x04\x00" + strings.Repeat("\x0d\x01\x05", 20_000)}, false, "closed: H3_EXCESSIVE_LOAD"},
		{"GOAWAY again and again", []string{"\x00\x04\x00" + strings.Repeat("\x07\x01\x05", 20_000)}, false, "closed: H3_EXCESSIVE_LOAD"},
		{"unknown frames without end", []string{"\x00\x04\x00" + strings.Repeat("\x21\x00", 20_000)}, false, "closed: H3_EXCESSIVE_LOAD"},
		{"PRIORITY_UPDATE without end", []string{"\x00\x04\x00" + strings.Repeat("\x80\x0f\x07\x00\x04\x00u=1", 5000)}, false, "closed: H3_EXCESSIVE_LOAD"},
		{"settings without end", []string{"\x00\x04\x54\x00"}, false, "closed: H3_EXCESSIVE_LOAD"},
		{"a table without room, again and again", []string{"\x02" + strings.Repeat("\x20", 20_000)}, false, "closed: H3_EXCESSIVE_LOAD"},
		{"a table with room", []string{"\x02\x3f\xe1\x1f"}, false, "closed: QPACK_ENCODER_STREAM_ERROR"},
		{"a copy of an entry", []string{"\x02\x00"}, false, "closed: QPACK_ENCODER_STREAM_ERROR"},
		{"streams given up without end", []string{"\x03" + strings.Repeat("\x40", 20_000)}, false, "closed: H3_EXCESSIVE_LOAD"},
		{"a number without end", []string{"\x03\x7f" + strings.Repeat("\x80", 20)}, false, "closed: QPACK_DECODER_STREAM_ERROR"},
		{"a count of nothing", []string{"\x03\x00"}, false, "closed: QPACK_DECODER_STREAM_ERROR"},
		{"the control stream's end", []string{"\x00\x04\x00"}, true, "closed: H3_CLOSED_CRITICAL_STREAM"},
		{"the encoder's end", []string{"\x02"}, true, "closed: H3_CLOSED_CRITICAL_STREAM"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			st := newSite(t, config(), echo)
			c := st.connect()
			for _, text := range tc.sent {
				s, err := c.OpenUniStream()
				if err != nil {
					t.Fatal(err)
				}
				io.WriteString(s, text)
				if tc.end {
					s.Close()
				}
			}
			if tc.want != good {
				select {
				case <-c.Context().Done():
				case <-time.After(patience):
					t.Fatal("the connection goes on")
				}
			}
			if got := send(t, c, head("GET")); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if tc.want == "closed: "+ExcessiveLoad.String() {
				testkit.Eventually(t, "it is counted", func() bool { return st.events[Loads].Load() == 1 })
			}
		})
	}
}

// stands reports whether the goroutine waits for room.
func (b *inbox) stands() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// More content than was declared is refused when it comes, not at its end.
func TestTooMuchContent(t *testing.T) {
	read := make(chan int, 1)
	st := newSite(t, config(), func(s *Stream) {
		total, p := 0, make([]byte, 100)
		for {
			n, err := s.Read(p)
			if total += n; err != nil {
				read <- total
				s.Close()
				return
			}
		}
	})
	s, err := st.connect().OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(patience))
	io.WriteString(s, head("POST", "content-length: 2")+data("abc"))
	if got := heard(t, s); got != "reset: H3_MESSAGE_ERROR" {
		t.Error(got)
	}
	if n := <-read; n > 2 {
		t.Errorf("%d bytes were given to the loop", n)
	}
}

// Much content both ways is under way in bounded queues, and comes whole.
func TestLargeContent(t *testing.T) {
	const size = 3 << 20
	st := newSite(t, config(), func(s *Stream) {
		for pause := s.c.server.exec.NewSignal(); !s.in.stands(); { // the goroutine has no more room
			pause.Wait(time.Millisecond)
		}
		p, total := make([]byte, 16<<10), 0
		for {
			n, err := s.Read(p)
			if total += n; err != nil {
				break
			}
		}
		s.Respond(&message.Response{Status: 200, ContentLength: int64(total)}, false)
		for sent := 0; sent < total; sent += len(p) {
			if _, err := s.Write(p); err != nil {
				t.Error(err)
			}
			if n := s.out.size(); n > outboxRoom+maxFrameHead*16 {
				t.Errorf("%d bytes wait to be sent", n)
			}
		}
		s.End(nil)
		s.Close()
	})
	c := st.connect()
	for range 2 {
		s, err := c.OpenStreamSync(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			io.WriteString(s, head("POST")+data(strings.Repeat("x", size)))
			s.Close()
		}()
		total, from := int64(0), newSource(s)
		for {
			h, err := from.frame()
			if err == io.EOF {
				break
			}
			if err == nil {
				err = from.skip(h.length)
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.kind == frameData {
				total += h.length
			}
		}
		if total != size {
			t.Errorf("%d bytes came back of %d", total, size)
		}
	}
}

// job is a function as a Job.
type job func()

func (j job) Run() { j() }

// A client that gives up is told to who waits: by OnHangup, Watch, and from Write.
func TestReset(t *testing.T) {
	told := make(chan string, 10)
	st := newSite(t, config(), func(s *Stream) {
		s.OnHangup(job(func() { told <- "hangup" }))
		s.Watch(job(func() { told <- "watch" }))
		s.Respond(&message.Response{Status: 200, ContentLength: -1}, false)
		for {
			if _, err := s.Write(make([]byte, 10_000)); err != nil {
				told <- err.Error()
				s.Close()
				return
			}
		}
	})
	c := st.connect()
	s, err := c.OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, head("GET"))
	s.Close()
	if _, err := s.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	s.CancelRead(quic.StreamErrorCode(RequestCancelled))
	all := map[string]bool{}
	for range 3 {
		select {
		case text := <-told:
			all[text] = true
		case <-time.After(patience):
			t.Fatalf("only %v was told", all)
		}
	}
	if !all["hangup"] || !all["watch"] || !all["the peer has reset the stream: H3_REQUEST_CANCELLED"] {
		t.Errorf("told: %v", all)
	}
}

// Deadlines end waits on the loop, with and without a task.
func TestDeadlines(t *testing.T) {
	told := make(chan string, 1)
	st := newSite(t, config(), func(s *Stream) {
		s.SetReadTimeout(time.Millisecond)
		text := fmt.Sprint(s.Await())
		s.SetReadTimeout(time.Millisecond)
		s.Idle(job(func() {
			told <- text + ", then without a task"
			s.Reset()
		}))
	})
	s, err := st.connect().OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, head("POST"))
	select {
	case text := <-told:
		if text != "i/o timeout, then without a task" {
			t.Error(text)
		}
	case <-time.After(patience):
		t.Fatal("nothing was told")
	}
	if got := heard(t, s); got != "reset: H3_INTERNAL_ERROR" {
		t.Error(got)
	}
}

// Drain: the client is told, its requests end well, later ones are refused, and the
// connection ends with H3_NO_ERROR.
func TestDrain(t *testing.T) {
	goOn, begun := make(chan struct{}), make(chan struct{}, 1)
	st := newSite(t, config(), func(s *Stream) {
		begun <- struct{}{}
		go func() {
			<-goOn
			s.submit(func() { s.Respond(&message.Response{Status: 204, ContentLength: -1}, true); s.Close() })
		}()
	})
	c := st.connect()
	result := make(chan string, 1)
	go func() { result <- send(t, c, head("GET")) }()
	<-begun
	st.server.Drain()
	if control, err := c.AcceptUniStream(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		from := newSource(control)
		from.varint()
		var ids []uint64
		for range 3 {
			h, _ := from.frame()
			b, _ := from.whole(int(h.length))
			if h.kind == frameGoAway {
				id, _ := readVarint(b)
				ids = append(ids, id)
			}
		}
		if fmt.Sprint(ids) != fmt.Sprint([]uint64{maxVarint - 3, 4}) {
			t.Errorf("GOAWAY names %v", ids)
		}
	}
	if got := send(t, c, head("GET")); got != "reset: H3_REQUEST_REJECTED" {
		t.Errorf("a late request: %s", got)
	}
	if _, err := st.dial(); err == nil || !strings.Contains(err.Error(), "CONNECTION_REFUSED") {
		t.Errorf("a new connection: %v", err)
	}
	close(goOn)
	if got := <-result; got != ":status=204" {
		t.Errorf("the request under way: %s", got)
	}
	<-c.Context().Done()
	if got := ending(context.Cause(c.Context())); got != "closed: H3_NO_ERROR" {
		t.Error(got)
	}
}

// A server that is retiring may serve again: its connections end all the same, and new
// ones begin. Once it has ended it may not.
func TestRevive(t *testing.T) {
	goOn, begun := make(chan struct{}), make(chan struct{}, 10)
	st := newSite(t, config(), func(s *Stream) {
		begun <- struct{}{}
		go func() {
			<-goOn
			s.submit(func() { s.Respond(&message.Response{Status: 204, ContentLength: -1}, true); s.Close() })
		}()
	})
	old := st.connect()
	result := make(chan string, 1)
	go func() { result <- send(t, old, head("GET")) }()
	<-begun
	over := make(chan struct{})
	st.server.Retire(patience, func() { close(over) })
	if _, err := st.dial(); err == nil || !strings.Contains(err.Error(), "CONNECTION_REFUSED") {
		t.Errorf("a new connection meanwhile: %v", err)
	}
	if !st.server.Revive() {
		t.Fatal("it cannot serve again")
	}
	close(goOn)
	if got := <-result; got != ":status=204" {
		t.Errorf("the request under way: %s", got)
	}
	<-old.Context().Done()
	if got := send(t, st.connect(), head("GET")); got != ":status=204" {
		t.Errorf("a new connection: %s", got)
	}
	select {
	case <-over:
		t.Fatal("it ends though it serves again")
	default:
	}
	st.server.Retire(patience, func() { close(over) })
	<-over
	if st.server.Revive() {
		t.Error("it has ended, and may serve again")
	}
}

// Connections are refused when they are unwelcome, or when as many handshakes as may be
// are in progress; from a sixteenth of these addresses are verified first.
func TestHandshakes(t *testing.T) {
	cfg := config()
	cfg.Handshakes = 32
	st := newSite(t, cfg, echo)
	for _, verified := range []bool{false, true} {
		st.server.shaking.Add(1) // with it 1, and 2
		if got := send(t, st.connect(), head("GET")); got != ":status=200 GET / 0" {
			t.Error(got)
		}
		if n := st.server.events[Retried].Load() + st.events[Retried].Load(); (n > 0) != verified {
			t.Errorf("%d addresses were verified with %d handshakes of %d", n, st.server.shaking.Load(), cfg.Handshakes)
		}
	}
	st.server.shaking.Add(30)
	if _, err := st.dial(); err == nil || !strings.Contains(err.Error(), "CONNECTION_REFUSED") {
		t.Errorf("a handshake too many: %v", err)
	}
	st.server.shaking.Add(-32)
	st.welcome.Store(false)
	if _, err := st.dial(); err == nil || !strings.Contains(err.Error(), "CONNECTION_REFUSED") {
		t.Errorf("an unwelcome connection: %v", err)
	}
	st.welcome.Store(true)
	if got := send(t, st.connect(), head("GET")); got != ":status=200 GET / 0" {
		t.Error(got)
	}
	for late := time.Now().Add(patience); st.server.shaking.Load() != 0; runtime.Gosched() { // what a client has sent twice may be on its way
		if time.Now().After(late) {
			t.Fatalf("%d handshakes are in progress", st.server.shaking.Load())
		}
	}
}

// A request may be given up before the loop has heard of it, or in the same packet.
func TestGivenUpAtOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16)) // its goroutines overtake each other
	cfg := config()
	cfg.Streams = 100
	st := newSite(t, cfg, echo)
	var clients sync.WaitGroup
	for range 8 {
		c := st.connect()
		clients.Go(func() {
			for range 900 {
				s, err := c.OpenStreamSync(t.Context())
				if err != nil {
					t.Error(ending(err))
					return
				}
				s.CancelRead(0x10c)
				io.WriteString(s, head("GET"))
				s.Close()
			}
			if got := send(t, c, head("GET")); got != ":status=200 GET / 0" {
				t.Error(got)
			}
		})
	}
	clients.Wait()
}

// A client that resets request upon request is sent away.
func TestRapidReset(t *testing.T) {
	st := newSite(t, config(), func(s *Stream) { s.OnHangup(job(func() { s.Close() })) })
	c := st.connect()
	for range 4000 {
		s, err := c.OpenStreamSync(t.Context())
		if err != nil {
			break
		}
		io.WriteString(s, head("GET"))
		s.CancelWrite(quic.StreamErrorCode(RequestCancelled))
		s.CancelRead(quic.StreamErrorCode(RequestCancelled))
	}
	select {
	case <-c.Context().Done():
	case <-time.After(patience):
		t.Fatal("the connection goes on")
	}
	if got := ending(context.Cause(c.Context())); got != "closed: H3_EXCESSIVE_LOAD" {
		t.Error(got)
	}
}
