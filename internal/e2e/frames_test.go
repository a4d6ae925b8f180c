package e2e

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/testkit"
)

// frames is a server's end of a connection of HTTP/2 without TLS, frame by frame: what
// no ready server does.
type frames struct {
	*http2.Framer
	conn   net.Conn
	number int // of the connection, from 1
	block  bytes.Buffer
	write  *hpack.Encoder
}

// serveFrames serves each connection by a script, in a goroutine of its own, until the
// test ends; it returns the URL. A connection ends with its script.
func serveFrames(t *testing.T, script func(*frames)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, conn)
			number := len(conns)
			mu.Unlock()
			running.Go(func() { serveConn(conn, number, script) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, conn := range conns {
			conn.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return "h2://" + ln.Addr().String()
}

func serveConn(conn net.Conn, number int, script func(*frames)) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := &frames{Framer: http2.NewFramer(conn, conn), conn: conn, number: number}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.write = hpack.NewEncoder(&f.block)
	script(f)
}

// next is the next frame of a request; SETTINGS are acknowledged. nil: the connection
// has ended.
func (f *frames) next() http2.Frame {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return nil
		}
		if s, is := frame.(*http2.SettingsFrame); is && !s.IsAck() {
			f.WriteSettingsAck()
		}
		if frame.Header().StreamID != 0 && frame.Header().Type != http2.FrameWindowUpdate {
			return frame
		}
	}
}

// head sends a head of name, value, name, value …
func (f *frames) head(stream uint32, last bool, fields ...string) {
	f.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		f.write.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: f.block.Bytes(), EndHeaders: true, EndStream: last})
}

// answer sends a whole answer.
func (f *frames) answer(stream uint32, content string) {
	f.head(stream, false, ":status", "200")
	f.WriteData(stream, true, []byte(content))
}

// plainFrames answers each request by its method.
func plainFrames(f *frames) {
	f.WriteSettings()
	for frame := f.next(); frame != nil; frame = f.next() {
		if head, is := frame.(*http2.MetaHeadersFrame); is {
			f.answer(head.StreamID, head.PseudoValue("method"))
		}
	}
}

// webSocketFrames takes extended CONNECT, which it says late, and sends back what comes.
func webSocketFrames(f *frames) {
	f.WriteSettings(http2.Setting{ID: http2.SettingEnableConnectProtocol, Val: 1})
	for frame := f.next(); frame != nil; frame = f.next() {
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			asked := []string{frame.PseudoValue("method"), frame.PseudoValue("protocol"), frame.PseudoValue("path"), frame.PseudoValue("authority"), "key:"}
			for _, field := range frame.Fields {
				if field.Name == "sec-websocket-key" || field.Name == "upgrade" || field.Name == "connection" {
					asked = append(asked, field.Value)
				}
			}
			if frame.StreamEnded() {
				asked = append(asked, "and ended")
			}
			f.head(frame.StreamID, false, ":status", "200", "x-asked", strings.Join(asked, " "))
		case *http2.DataFrame:
			f.WriteData(frame.StreamID, frame.StreamEnded(), frame.Data())
		}
	}
}
