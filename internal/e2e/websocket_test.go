package e2e

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/testkit"
)

// webSocketEcho is a server that accepts WebSockets (RFC 6455 4.2.2) and sends back
// what comes, until it ends.
func webSocketEcho(p *testkit.Peer) {
	webSocketAccept(p)
	p.Send(p.Read(5))
	p.AwaitEnd()
}

// webSocketAccept takes an upgrade.
func webSocketAccept(p *testkit.Peer) {
	m := p.Head()
	p.Send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		webSocketProof(m.Get("Sec-WebSocket-Key")) + "\r\n\r\n")
}

// webSocketProof is the answer to a client's key.
func webSocketProof(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// framer is a client's end of a connection of HTTP/2 without TLS.
type framer struct {
	*http2.Framer
	t     *testing.T
	wire  io.Writer
	block bytes.Buffer
	write *hpack.Encoder
}

func dialHTTP2(t *testing.T, address string) *framer {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return frameOn(t, conn)
}

// frameOn begins to speak HTTP/2 on a connection.
func frameOn(t *testing.T, conn net.Conn) *framer {
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	io.WriteString(conn, http2.ClientPreface)
	return speakOn(t, conn)
}

// speakOn goes on after the preface.
func speakOn(t *testing.T, conn net.Conn) *framer {
	f := &framer{Framer: http2.NewFramer(conn, conn), t: t, wire: conn}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.write = hpack.NewEncoder(&f.block)
	f.WriteSettings()
	return f
}

// ask sends a head of name, value, name, value …
func (f *framer) ask(stream uint32, fields ...string) {
	f.send(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true}, fields...)
}

// send sends a frame of HEADERS with fields.
func (f *framer) send(head http2.HeadersFrameParam, fields ...string) {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.write.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	head.BlockFragment = f.block.Bytes()
	if err := f.WriteHeaders(head); err != nil {
		f.t.Fatal(err)
	}
}

// next is the next frame that is not about the connection.
func (f *framer) next() http2.Frame {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			f.t.Fatal(err)
		}
		if frame.Header().StreamID != 0 && frame.Header().Type != http2.FrameWindowUpdate {
			return frame
		}
	}
}

// A WebSocket asked for over HTTP/2 (RFC 8441) reaches a server that knows those of
// HTTP/1.1 alone; what it sends without having switched is no tunnel.
func TestWebSocketOverHTTP2(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script func(*testkit.Peer)
		status string
	}{
		"accepted":       {webSocketEcho, "200"},
		"declined":       {testkit.Answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"), "403"},
		"no switch":      {testkit.Answering(ok), "502"},
		"another's key":  {testkit.Answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: HSmrc0sMlYUkAGmm5OPpG2HaGWk=\r\n\r\n"), "502"},
		"other protocol": {testkit.Answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), "502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, c.script)
			s := start(t, farm(b.URL()))
			f := dialHTTP2(t, s.web())
			f.ask(1, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "x.example", "sec-websocket-version", "13")
			head, isHead := f.next().(*http2.MetaHeadersFrame)
			if !isHead || head.PseudoValue("status") != c.status {
				t.Fatalf("answered by %v, want %s", head, c.status)
			}
			asked := b.Request(t, 0)
			if asked.Method() != "GET" || asked.Target() != "/chat" || asked.Get("Upgrade") != "websocket" || asked.Get("Host") != "x.example" {
				t.Errorf("the server was asked %s %v", asked.Start, asked.Fields)
			}
			if c.status != "200" {
				return
			}
			for _, field := range head.Fields {
				if strings.HasPrefix(field.Name, "sec-websocket-accept") || field.Name == "upgrade" {
					t.Errorf("the client sees %v", field)
				}
			}
			f.WriteData(1, false, []byte("hello"))
			if data, is := f.next().(*http2.DataFrame); !is || string(data.Data()) != "hello" {
				t.Errorf("the echo is %v", data)
			}
			f.WriteData(1, true, nil)
			if data, is := f.next().(*http2.DataFrame); !is || !data.StreamEnded() {
				t.Errorf("the end is %v", data)
			}
		})
	}
}

// A server of HTTP/2 that takes extended CONNECT (RFC 8441) serves the WebSockets of
// clients of both versions; one that does not is passed over, or is a 502.
func TestWebSocketToHTTP2(t *testing.T) {
	t.Parallel()
	with, without := serveFrames(t, webSocketFrames), serveFrames(t, plainFrames)
	for name, c := range map[string]struct {
		servers []string
		status  string
	}{
		"taken": {[]string{with}, "101"}, "not taken": {[]string{without}, "502"}, "by another": {[]string{without, with}, "101"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, farmOf(c.servers), jsonLog)
			for range 2 { // whichever server is next
				byHTTP1(t, s, c.status)
				byHTTP2(t, s, strings.Replace(c.status, "101", "200", 1))
			}
			if c.status == "502" {
				if line := s.logged(4)[0]; line.Reason != "bad_response" || !strings.Contains(line.Error, "SETTINGS_ENABLE_CONNECT_PROTOCOL") {
					t.Errorf("the log says %+v", line)
				}
			}
		})
	}
}

// byHTTP1 asks for a WebSocket by Upgrade, with the key of RFC 6455 1.3.
func byHTTP1(t *testing.T, s *sluice, status string) {
	t.Helper()
	client := s.dial()
	defer client.Close()
	client.Send(testkit.Request("GET", "/chat", "Connection: Upgrade", "Upgrade: websocket",
		"Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
	if status != "101" {
		if m := client.Respond("GET"); m.Get("Upgrade") != "" || strconv.Itoa(m.Status()) != status || !strings.Contains(string(m.Body), "over HTTP/2") {
			t.Errorf("answered %s: %s", m.Start, m.Body)
		}
		return
	}
	m := client.ReadHead()
	if m.Status() != 101 || m.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || m.Get("Upgrade") != "websocket" || m.Get("X-Asked") != "CONNECT websocket /chat test key:" {
		t.Errorf("answered %s %v", m.Start, m.Fields)
	}
	client.Send("hello")
	if got := client.ReadSome(5); got != "hello" {
		t.Errorf("the echo is %q", got)
	}
}

// byHTTP2 asks for one by extended CONNECT.
func byHTTP2(t *testing.T, s *sluice, status string) {
	t.Helper()
	f := dialHTTP2(t, s.web())
	f.ask(1, ":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/chat", ":authority", "x.example", "sec-websocket-version", "13")
	head, isHead := f.next().(*http2.MetaHeadersFrame)
	if !isHead || head.PseudoValue("status") != status {
		t.Fatalf("answered by %v, want %s", head, status)
	}
	if status != "200" {
		return
	}
	f.WriteData(1, false, []byte("hello"))
	if data, is := f.next().(*http2.DataFrame); !is || string(data.Data()) != "hello" {
		t.Errorf("the echo is %v", data)
	}
}
