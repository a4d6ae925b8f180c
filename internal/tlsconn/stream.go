package tlsconn

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"sluice/internal/reactor"
)

// Stream is a connection over TLS. It is a reactor.Stream once Handshake has
// returned nil. Loop only; as on every Stream one task reads and one writes.
type Stream struct {
	sock  socket
	tls   *tls.Conn
	waits bool // sock is no loop's: tasks are goroutines, and a read waits

	// Touched by who reads.
	block   *block // borrowed; its bytes r to w are unread
	r, w    int
	aside   []byte          // unread, while there is no block
	given   int             // bytes of the present record that crypto/tls has not taken yet
	lent    *[rawBytes]byte // crypto/tls's buffer for records, while it is one of ours
	shaking bool            // the handshake is under way: feed may wait
	filled  bool            // the last read filled its buffer: there may be more plaintext
	has     bool            // first has been read and not been delivered
	first   [1]byte
	end     error // of all reads, once all that came before was delivered

	broken  error       // of reads from now on: it was closed, or aborted
	job     reactor.Job // of Idle
	resting bool        // job waits
	done    bool        // Close or Linger has been called
}

const (
	// flushBytes is how much of a Write is encrypted before it is sent: what a slow
	// peer has us hold.
	flushBytes = 64 << 10
	// mostAnswers is how many bytes of what the peer has asked for (KeyUpdate, RFC
	// 8446 4.6.3) may wait for it to read.
	mostAnswers = 16 << 10
)

// errDeaf: the peer asks for answers and does not read them.
var errDeaf = errors.New("tls: the peer takes none of the answers that it asks for")

// Server makes the server's side of a TLS connection.
func Server(conn reactor.Stream, config *tls.Config) *Stream {
	s := &Stream{}
	s.sock, s.waits = over(conn)
	s.tls = tls.Server((*feed)(s), config)
	return s
}

// Client makes the client's side.
func Client(conn reactor.Stream, config *tls.Config) *Stream {
	s := &Stream{}
	s.sock, s.waits = over(conn)
	s.tls = tls.Client((*feed)(s), config)
	return s
}

// ConnectionState tells what the handshake has settled. It copies: it is not for
// every request.
func (s *Stream) ConnectionState() tls.ConnectionState { return s.tls.ConnectionState() }

// Read implements net.Conn.
func (s *Stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if s.broken != nil {
			return 0, s.broken
		}
		n, err := s.take(p)
		if n > 0 || err != errMore {
			return n, err
		}
		s.release()
		if err := s.sock.Await(); err != nil {
			return 0, err
		}
	}
}

// take delivers what is here, without waiting: all whole records that fit.
func (s *Stream) take(p []byte) (n int, err error) {
	if s.has {
		s.has, p[0] = false, s.first[0]
		n = 1
	}
	for n < len(p) && s.end == nil {
		if !s.filled && !s.whole() {
			if n > 0 {
				return n, nil
			}
			if err := s.more(); err != nil {
				return 0, err
			}
			continue
		}
		m, _ := s.decrypt(p[n:])
		n += m
	}
	if n > 0 {
		return n, nil
	}
	return 0, s.end
}

// more gets more bytes from the socket. An error is errMore, or ends all reads.
func (s *Stream) more() error {
	switch {
	case s.end != nil:
		return s.end
	case !s.sock.Ready():
		return errMore
	}
	return s.pull()
}

// decrypt has crypto/tls read from the records that are whole. It returns nothing
// and no error if they had no content; an error ends all reads.
func (s *Stream) decrypt(p []byte) (int, error) {
	if !s.filled {
		s.lend(recordBytes(s.unread()))
	}
	n, err := s.tls.Read(p)
	s.filled = n == len(p)
	s.release()
	if s.sock.Pending() > 0 {
		if s.sock.Push(); s.sock.Pending() > mostAnswers {
			err = errDeaf
		}
	}
	if err == nil || err == errMore {
		return n, nil
	}
	return n, s.ended(err)
}

// ended makes an error what all reads end with, save one that passes.
func (s *Stream) ended(err error) error {
	var passing net.Error
	switch {
	case err == reactor.ErrWait, err == errMore:
		return errMore
	case s.end != nil:
		return s.end
	case s.waits && errors.As(err, &passing) && passing.Timeout():
		return err
	}
	s.end = err
	return err
}

// look reports whether a Read would not wait, and takes the first byte of what it
// would deliver: only then that is certain, since a record may be without content.
// An error is one that passes.
func (s *Stream) look() (ready bool, err error) {
	for !s.has && s.end == nil && s.broken == nil {
		if s.filled || s.whole() {
			n, _ := s.decrypt(s.first[:])
			s.has = n == 1
			continue
		}
		switch err := s.more(); {
		case err == errMore:
			return false, nil
		case err != s.end:
			return false, err
		}
	}
	return true, nil
}

// Await implements reactor.Stream.
func (s *Stream) Await() error {
	for {
		if ready, err := s.look(); ready || err != nil {
			return err
		}
		s.release()
		if err := s.sock.Await(); err != nil {
			return err
		}
	}
}

// Ready implements reactor.Stream.
func (s *Stream) Ready() bool {
	if s.waits {
		return s.sock.Ready()
	}
	ready, _ := s.look()
	return ready
}

// Ended reports that the peer sends no more.
func (s *Stream) Ended() bool { return s.end != nil || s.broken != nil || s.sock.Ended() }

// Write implements net.Conn. It returns when the kernel has taken all.
func (s *Stream) Write(p []byte) (n int, err error) {
	for {
		m, err := s.tls.Write(p[n:min(n+flushBytes, len(p))])
		if err == nil {
			err = s.sock.Flush()
		}
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// CloseWrite says that nothing more is sent (close_notify, RFC 8446 6.1); reading goes
// on.
func (s *Stream) CloseWrite() error {
	if err := s.tls.CloseWrite(); err != nil {
		return err
	}
	return s.sock.Flush()
}

// Close implements net.Conn: it says close_notify, if that goes at once, and closes.
func (s *Stream) Close() error {
	s.bye()
	return s.sock.Close()
}

// Linger implements reactor.Stream.
func (s *Stream) Linger(d time.Duration) {
	s.bye()
	s.sock.Linger(d)
}

// bye says that nothing more is sent (RFC 8446 6.1), as far as that goes at once,
// and ends reads.
func (s *Stream) bye() {
	if s.done {
		return
	}
	s.done = true
	s.tls.CloseWrite() // fails before the handshake's end, when there is nothing to say
	s.sock.Push()
	s.stop(net.ErrClosed)
}

// stop ends reads with err and gives buffers back.
func (s *Stream) stop(err error) {
	if !s.waits && s.broken == nil { // else whoever reads is another goroutine, and hears it from sock
		s.broken = err
		s.r, s.aside = s.w, nil
		s.release()
		s.trim(keptBytes)
	}
}

// Reset closes the connection in a way that the peer takes for a failure: without
// close_notify, and by RST where there is such a thing.
func (s *Stream) Reset() {
	s.done = true
	s.stop(net.ErrClosed)
	if conn, ok := s.sock.(interface{ Reset() }); ok {
		conn.Reset()
		return
	}
	s.sock.Close()
}

// Abort implements reactor.Stream.
func (s *Stream) Abort(err error) {
	s.stop(err)
	s.sock.Abort(err)
}

// SetReadTimeout implements reactor.Stream.
func (s *Stream) SetReadTimeout(d time.Duration) { s.sock.SetReadTimeout(d) }

// SetWriteTimeout implements reactor.Stream.
func (s *Stream) SetWriteTimeout(d time.Duration) { s.sock.SetWriteTimeout(d) }

// SetStall implements reactor.Stream.
func (s *Stream) SetStall(d time.Duration) { s.sock.SetStall(d) }

// OnHangup implements reactor.Stream.
func (s *Stream) OnHangup(job reactor.Job) { s.sock.OnHangup(job) }

// OnSlow implements reactor.Stream.
func (s *Stream) OnSlow(d time.Duration, job reactor.Job) { s.sock.OnSlow(d, job) }

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(t time.Time) error { return s.sock.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.sock.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.sock.SetWriteDeadline(t) }

// LocalAddr implements net.Conn.
func (s *Stream) LocalAddr() net.Addr { return s.sock.LocalAddr() }

// RemoteAddr implements net.Conn.
func (s *Stream) RemoteAddr() net.Addr { return s.sock.RemoteAddr() }

var _ reactor.Stream = (*Stream)(nil)
