package tlsconn

import (
	"io"
	"net"
	"sync"
	"time"
)

// Of records, RFC 8446 5.1 and RFC 5246 6.2.
const (
	headerBytes   = 5
	mostCipher    = 16<<10 + 2048 // content of an encrypted record (RFC 5246 6.2.3; RFC 8446 5.2 allows less)
	firstType     = 20            // change_cipher_spec
	lastType      = 23            // application_data
	handshakeType = 22
)

// recordBytes is the length of the record at the start of b, as far as can be seen:
// that of its header if it is no record that crypto/tls would take, so that it
// refuses it at once.
func recordBytes(b []byte) int {
	if len(b) < headerBytes {
		return headerBytes
	}
	n := int(b[3])<<8 | int(b[4])
	if b[0] < firstType || b[0] > lastType || n > mostCipher {
		return headerBytes
	}
	return headerBytes + n
}

// block is a buffer for what was read from the socket: three records or more.
type block [64 << 10]byte

// blocks are spare ones. What was in them had been encrypted.
var blocks = sync.Pool{New: func() any { return new(block) }}

// unread returns what was read from the socket and not yet given to crypto/tls.
func (s *Stream) unread() []byte {
	if s.block != nil {
		return s.block[s.r:s.w]
	}
	return s.aside
}

// whole reports whether all of the next record has come.
func (s *Stream) whole() bool {
	b := s.unread()
	return len(b) >= recordBytes(b)
}

// pull reads what the socket has, without waiting for it. errMore: nothing.
func (s *Stream) pull() error {
	s.borrow()
	n, err := s.sock.TryRead(s.block[s.w:])
	s.w += n
	if err == io.EOF { // without close_notify: what came may have been cut short (RFC 8446 6.1)
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		s.release()
		return s.ended(err)
	}
	return nil
}

// borrow gets a block with room for the rest of a record.
func (s *Stream) borrow() {
	if s.block == nil {
		s.block = blocks.Get().(*block)
		s.r, s.w = 0, copy(s.block[:], s.aside)
		s.aside = nil
		return
	}
	s.w = copy(s.block[:], s.block[s.r:s.w])
	s.r = 0
}

// release gives the block back if there is nothing in it.
func (s *Stream) release() {
	if s.block != nil && s.r == s.w {
		blocks.Put(s.block)
		s.block = nil
	}
}

// setAside gives the block back, and keeps what is in it elsewhere.
func (s *Stream) setAside() {
	if s.block != nil && s.r < s.w {
		s.aside = append([]byte(nil), s.unread()...)
		s.r = s.w
	}
	s.release()
}

// feed is the Stream as crypto/tls sees it: records one by one, and a Write that
// does not wait.
type feed Stream

// Read gives bytes of one record. After the handshake it waits for none.
func (f *feed) Read(p []byte) (int, error) {
	s := (*Stream)(f)
	if s.given == 0 {
		if !s.whole() {
			if !s.shaking {
				return 0, errMore
			}
			if err := s.fill(); err != nil {
				return 0, err
			}
		}
		s.given = recordBytes(s.unread())
	}
	n := copy(p, s.unread()[:s.given])
	s.given -= n
	if s.block != nil {
		s.r += n
	} else {
		s.aside = s.aside[n:]
	}
	return n, nil
}

func (f *feed) Write(p []byte) (int, error)     { return f.sock.Write(p) }
func (f *feed) Close() error                    { return nil }
func (f *feed) LocalAddr() net.Addr             { return f.sock.LocalAddr() }
func (f *feed) RemoteAddr() net.Addr            { return f.sock.RemoteAddr() }
func (f *feed) SetDeadline(time.Time) error     { return nil }
func (f *feed) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline is called by crypto/tls for close_notify: 5 s before, and now
// after.
func (f *feed) SetWriteDeadline(t time.Time) error {
	if f.waits {
		return f.sock.SetWriteDeadline(t)
	}
	return nil
}

// errMore: the next record is not whole. crypto/tls does not remember an error
// that is temporary.
var errMore net.Error = noRecord{}

type noRecord struct{}

func (noRecord) Error() string   { return "the next record has not come yet" }
func (noRecord) Timeout() bool   { return false }
func (noRecord) Temporary() bool { return true }
