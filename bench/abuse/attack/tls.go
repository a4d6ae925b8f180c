package attack

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"time"
)

// hello is a ClientHello that is sent again and again: what it asks of the server is a
// key exchange and a signature, and the attacker does nothing for it.
var hello = sync.OnceValue(func() []byte {
	taken := &recorder{}
	tls.Client(taken, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).Handshake() // fails once it has spoken
	return taken.bytes
})

// recorder is a connection on which nothing comes, and that keeps what is sent.
type recorder struct{ bytes []byte }

func (r *recorder) Write(b []byte) (int, error) {
	r.bytes = append(r.bytes, b...)
	return len(b), nil
}

func (r *recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (r *recorder) Close() error                     { return nil }
func (r *recorder) LocalAddr() net.Addr              { return nil }
func (r *recorder) RemoteAddr() net.Addr             { return nil }
func (r *recorder) SetDeadline(time.Time) error      { return nil }
func (r *recorder) SetReadDeadline(time.Time) error  { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// handshakes begins a handshake, and goes when the server has done its part.
func handshakes(ctx context.Context, h *hand) {
	conn := h.greet(ctx)
	if conn == nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		h.ended(ctx, endOf(err))
		return
	}
	h.tally.Strikes++
}

// halfOpen begins one, and waits.
func halfOpen(ctx context.Context, h *hand) {
	conn := h.greet(ctx)
	if conn == nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	h.tally.Strikes++
	toTheEnd(ctx, h, conn)
}

// greet opens a connection and sends the ClientHello.
func (h *hand) greet(ctx context.Context) net.Conn {
	conn := h.dial(ctx, h.target.Secure)
	if conn == nil {
		return nil
	}
	if _, err := conn.Write(hello()); err != nil {
		conn.Close()
		h.ended(ctx, endOf(err))
		return nil
	}
	return conn
}
