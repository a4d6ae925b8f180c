package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// Limits of a connection of HTTP/3.
const (
	h3BufferBytes = 16 << 10 // what a read takes of an answer
	h3BlockBytes  = 64 << 10 // fields of an answer
	h3StreamBytes = 16 << 20 // window of a stream
	h3WholeBytes  = 64 << 20 // window of a connection
	h3IdleAtLeast = time.Minute
)

// Types of frames and of one-way streams (RFC 9114, sections 7.2 and 6.2).
const (
	h3Data, h3Headers, h3CancelPush, h3Settings = 0x0, 0x1, 0x3, 0x4
	h3PushPromise, h3GoAway, h3MaxPushID        = 0x5, 0x7, 0xd

	h3Control, h3Push, h3Encoder, h3Decoder = 0x0, 0x1, 0x2, 0x3
)

// h3 is a connection of HTTP/3 (RFC 9114). Each request is a stream of QUIC's own,
// which the goroutine that asks writes and reads.
type h3 struct {
	client *Client
	conn   *quic.Conn
	unbar  func() bool

	mu      sync.Mutex // guards what follows
	err     error      // why the connection ended; nil: it has not
	leaving error      // why it takes no more requests; nil: it does
	refused uint64     // the first stream that the server does not work on; of leaving
	live    map[*h3Exchange]bool
	calm    bool // the connection ended while nothing was under way on it
	spare   []*h3Exchange
}

// openH3 makes a connection of HTTP/3.
func (c *Client) openH3(r *Request, a *Answer) (session, error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.ConnectTimeout)
	defer cancel()
	config := &quic.Config{
		HandshakeIdleTimeout:           c.opts.ConnectTimeout,
		MaxIdleTimeout:                 max(h3IdleAtLeast, 2*c.opts.Timeout),
		InitialStreamReceiveWindow:     h3StreamBytes,
		MaxStreamReceiveWindow:         h3StreamBytes,
		InitialConnectionReceiveWindow: h3WholeBytes,
		MaxConnectionReceiveWindow:     h3WholeBytes,
		MaxIncomingStreams:             -1, // servers open none (section 6.1)
	}
	conn, err := quic.DialAddr(ctx, r.Address, c.configFor(r), config)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, dialH3Error(err)
	}
	a.Connects++
	a.Connect += time.Since(begin)
	a.shookHands(conn.ConnectionState().TLS, time.Since(begin))
	return newH3(c, conn)
}

// dialH3Error tells failures of TLS, which QUIC has as codes of its own, from others.
func dialH3Error(err error) error {
	var transport *quic.TransportError
	var alert tls.AlertError
	var unknown *tls.CertificateVerificationError
	if errors.As(err, &transport) && transport.ErrorCode.IsCryptoError() || errors.As(err, &alert) || errors.As(err, &unknown) {
		return &handshakeError{err}
	}
	return h3Error(err)
}

// newH3 begins the protocol. Our settings are empty, so QPACK has no table, and every
// block of fields stands for itself.
func newH3(c *Client, conn *quic.Conn) (session, error) {
	s := &h3{client: c, conn: conn, live: map[*h3Exchange]bool{}}
	c.opts.Open.up()
	s.mu.Lock()
	s.unbar = context.AfterFunc(c.ctx, s.halt)
	s.mu.Unlock()
	control, err := conn.OpenUniStream()
	if err == nil {
		_, err = control.Write([]byte{h3Control, h3Settings, 0})
	}
	c.shared.running.Go(s.accept)
	if err != nil {
		s.end(err)
		return nil, h3Error(err)
	}
	return s, nil
}

func (s *h3) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && s.leaving == nil && s.conn.Context().Err() == nil
}

func (s *h3) endedCalmly() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calm || s.err == nil && s.leaving != nil
}

// end closes the connection.
func (s *h3) end(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err, s.calm = err, len(s.live) == 0
	s.mu.Unlock()
	s.unbar()
	s.conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

// halt is the end of the run.
func (s *h3) halt() { s.end(s.client.ctx.Err()) }

// accept takes the server's one-way streams until the connection ends. It is a
// goroutine of the connection, and each of the streams is another.
func (s *h3) accept() {
	for {
		in, err := s.conn.AcceptUniStream(s.conn.Context())
		if err != nil {
			s.end(err)
			s.client.opts.Open.down()
			return
		}
		s.client.shared.running.Go(func() { s.take(in) })
	}
}

// take reads a one-way stream of the server. An error ends the connection.
func (s *h3) take(in *quic.ReceiveStream) {
	r := quicvarint.NewReader(in)
	kind, err := quicvarint.Read(r)
	if err != nil {
		return
	}
	switch kind {
	case h3Control:
		if err := s.takeControl(r); err != nil && s.conn.Context().Err() == nil {
			s.end(err)
		}
	case h3Push:
		s.end(badResponse("it pushes, which we had not allowed"))
	case h3Encoder, h3Decoder:
		io.Copy(io.Discard, in) // of tables that we do not have
	default:
		in.CancelRead(quic.StreamErrorCode(http3.ErrCodeStreamCreationError))
	}
}

// takeControl reads what the server says about the connection (section 7.2).
func (s *h3) takeControl(r quicvarint.Reader) error {
	for first := true; ; first = false {
		kind, payload, err := readH3Frame(r)
		switch {
		case err != nil:
			return err
		case first != (kind == h3Settings):
			return badResponse("its control stream does not begin with settings, or has them twice")
		case kind == h3Data || kind == h3Headers || kind == h3PushPromise || kind == h3MaxPushID:
			return badResponse("a frame of requests is on its control stream")
		case kind == h3GoAway:
			id, n, err := quicvarint.Parse(payload)
			if err != nil || n != len(payload) {
				return badResponse("its GOAWAY is no number")
			}
			s.takeGoAway(id)
		}
	}
}

// readH3Frame reads a frame of a control stream.
func readH3Frame(r quicvarint.Reader) (kind uint64, payload []byte, err error) {
	if kind, err = quicvarint.Read(r); err != nil {
		return 0, nil, err
	}
	length, err := quicvarint.Read(r)
	if err != nil {
		return 0, nil, err
	}
	if length > h3BufferBytes {
		return 0, nil, badResponse("a frame of its control stream is longer than 16 KiB")
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(r, payload)
	return kind, payload, err
}

// takeGoAway drops the exchanges that the server does not work on (section 5.2).
func (s *h3) takeGoAway(id uint64) {
	s.mu.Lock()
	s.leaving, s.refused = goneAway{http3.ErrCodeNoError}, id
	for x := range s.live {
		s.drop(x)
	}
	idle := len(s.live) == 0
	s.mu.Unlock()
	if idle {
		s.end(s.leaving)
	}
}

// drop wakes an exchange that the server does not work on. The caller holds mu.
func (s *h3) drop(x *h3Exchange) {
	if s.refuses(x) && x.stream != nil {
		x.cancel()
	}
}

// refuses reports whether the server does not work on an exchange. The caller holds
// mu.
func (s *h3) refuses(x *h3Exchange) bool {
	return s.leaving != nil && (x.stream == nil || uint64(x.stream.StreamID()) >= s.refused)
}

// h3Error is an error of quic-go in the client's words.
func h3Error(err error) error {
	var stream *quic.StreamError
	var app *quic.ApplicationError
	var stateless *quic.StatelessResetError
	switch {
	case errors.As(err, &stream) && stream.Remote:
		return streamReset{http3.ErrCode(stream.ErrorCode)}
	case errors.As(err, &app) && app.Remote && app.ErrorCode == quic.ApplicationErrorCode(http3.ErrCodeNoError):
		return fmt.Errorf("%w: %w", io.EOF, err)
	case errors.As(err, &app) && app.Remote:
		return goneAway{http3.ErrCode(app.ErrorCode)}
	case errors.As(err, &stateless):
		return fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return err
}
