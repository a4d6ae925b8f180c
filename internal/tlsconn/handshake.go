package tlsconn

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"sluice/internal/segment"
)

// Handshake runs the handshake, in a task, and returns when all of ours has been
// sent. The read and the write deadline bound it. After an error the peer has been
// told what crypto/tls says about it, as far as that went at once.
func (s *Stream) Handshake() error {
	s.shaking = true
	err := s.tls.Handshake()
	s.shaking = false
	if err == nil {
		err = s.sock.Flush()
	}
	if err != nil {
		s.sock.Push()
		s.stop(err)
		return err
	}
	s.release()
	s.trim(0)
	return nil
}

// fill waits for a whole record while the handshake is under way, without a block:
// a peer may be slow.
func (s *Stream) fill() error {
	s.sock.Flush() // if that fails, the peer may have said why
	for !s.whole() {
		s.setAside()
		if err := s.sock.Await(); err != nil {
			return err
		}
		if err := s.pull(); err != nil && err != errMore {
			return err
		}
	}
	return nil
}

// causes are what crypto/tls says: it has no types for most errors. The first whose
// words are found counts.
var causes = []struct {
	words string
	cause segment.Shun
}{
	{"unsupported versions", segment.ShunVersion},
	{"protocol version not supported", segment.ShunVersion},
	{"no mutually supported protocol versions", segment.ShunVersion},
	{"no cipher suite supported", segment.ShunParameters},
	{"no ECDHE curve supported", segment.ShunParameters},
	{"no supported elliptic curves", segment.ShunParameters},
	{"unsupported signature", segment.ShunParameters},
	{"no key exchanges", segment.ShunParameters},
	{"unsupported application protocols", segment.ShunProtocol},
	{"no certificates configured", segment.ShunName},
	{"certificate", segment.ShunCertificate},
}

// CauseOf tells why a handshake failed with err.
func CauseOf(err error) segment.Shun {
	var header tls.RecordHeaderError
	var unverified *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var remote *net.OpError
	var number syscall.Errno
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return segment.ShunTimeout
	case errors.As(err, &header) && looksLikeHTTP(header.RecordHeader[:]):
		return segment.ShunHTTP
	case errors.As(err, &header):
		return segment.ShunNotTLS
	case errors.As(err, &unverified), errors.As(err, &unknown):
		return segment.ShunCertificate
	case errors.As(err, &remote) && remote.Op == "remote error":
		return segment.ShunRefused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.As(err, &number):
		return segment.ShunGone
	}
	text := err.Error()
	for _, c := range causes {
		if strings.Contains(text, c.words) {
			return c.cause
		}
	}
	return segment.ShunOther
}

// looksLikeHTTP reports whether a request line may begin so: a method is a word in
// capitals.
func looksLikeHTTP(b []byte) bool {
	for i, c := range b {
		if c == ' ' && i >= 3 {
			return true
		}
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}
