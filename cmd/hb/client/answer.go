package client

import (
	"bytes"
	"errors"
	"io"
	"time"
)

// framing is what the head of a response says about its body (RFC 9112, section 6).
type framing struct {
	length  int64 // -1: not given
	chunked bool
	close   bool
}

// readAnswer reads a whole response into a: interim ones (RFC 9110, section 15.2)
// are passed over. The jar, if there is one, is shown its cookies.
func (l *link) readAnswer(noBody bool, jar *hostJar, a *Answer) error {
	var f framing
	for {
		status, oldVersion, err := l.readStatus(a)
		if err != nil {
			return err
		}
		f = framing{length: -1, close: oldVersion}
		if err := l.readFields(&f, jar, a); err != nil {
			return err
		}
		if status == 101 {
			return badResponse("the protocol was switched, which nobody had asked for")
		}
		if status >= 200 {
			a.Status = status
			break
		}
	}
	l.keep = l.keep && !f.close
	noBody = noBody || a.Status == 204 || a.Status == 304
	if err := l.readBody(f, noBody, a); err != nil {
		a.Status = 0 // half an answer is none
		return err
	}
	if l.r != l.w {
		l.keep = false // bytes that nobody asked for
	}
	a.First, a.End = l.first, l.first
	if l.fills > 1 {
		a.End = time.Now()
	}
	return nil
}

// readStatus reads the status line (RFC 9112, section 4).
func (l *link) readStatus(a *Answer) (status int, oldVersion bool, err error) {
	line, err := l.line(a)
	if err != nil {
		return 0, false, err
	}
	const form = "HTTP/1.1 200"
	if len(line) < len(form) || string(line[:7]) != form[:7] || line[8] != ' ' || (line[7] != '1' && line[7] != '0') {
		return 0, false, badResponse("it does not begin with a status line of HTTP/1")
	}
	for _, digit := range line[9:12] {
		if digit < '0' || digit > '9' {
			return 0, false, badResponse("the status is no number")
		}
		status = status*10 + int(digit-'0')
	}
	if status < 100 || status > 599 || len(line) > 12 && line[12] != ' ' {
		return 0, false, badResponse("the status is not one of 100 to 599")
	}
	return status, line[7] == '0', nil
}

// readFields reads the fields up to the empty line.
func (l *link) readFields(f *framing, jar *hostJar, a *Answer) error {
	for {
		line, err := l.line(a)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return nil
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 {
			return badResponse("a field has no name")
		}
		if err := f.field(line[:colon], bytes.TrimSpace(line[colon+1:]), jar); err != nil {
			return err
		}
	}
}

// field takes from a field what matters. The length of the name is looked at
// first, since almost none does.
func (f *framing) field(name, value []byte, jar *hostJar) error {
	switch len(name) {
	case len("Connection"):
		if is(name, "connection") {
			switch {
			case contains(value, "close"):
				f.close = true
			case contains(value, "keep-alive"):
				f.close = false // HTTP/1.0 keeps only what says so
			}
		} else if jar != nil && is(name, "set-cookie") {
			jar.set(value)
		}
	case len("Content-Length"):
		if is(name, "content-length") {
			length, ok := number(value, 10)
			if !ok || f.length >= 0 && f.length != length {
				return badResponse("its Content-Length is no number, or two")
			}
			f.length = length
		}
	case len("Transfer-Encoding"):
		if is(name, "transfer-encoding") {
			if !is(value, "chunked") {
				return badResponse("its transfer coding is not chunked")
			}
			f.chunked = true
		}
	}
	return nil
}

// readBody passes over the body.
func (l *link) readBody(f framing, noBody bool, a *Answer) error {
	switch {
	case noBody:
		return nil
	case f.chunked:
		return l.skipChunks(a)
	case f.length >= 0:
		return l.skip(f.length, a)
	}
	l.keep = false
	for {
		l.r = l.w
		if err := l.fill(a); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// skipChunks passes over a chunked body and its trailers (RFC 9112, section 7.1).
func (l *link) skipChunks(a *Answer) error {
	for {
		line, err := l.line(a)
		if err != nil {
			return err
		}
		if end := bytes.IndexByte(line, ';'); end >= 0 {
			line = line[:end] // an extension
		}
		size, ok := number(bytes.TrimSpace(line), 16)
		if !ok {
			return badResponse("the size of a chunk is no number")
		}
		if size == 0 {
			return l.skipTrailers(a)
		}
		if err := l.skip(size, a); err != nil {
			return err
		}
		if line, err = l.line(a); err != nil {
			return err
		} else if len(line) != 0 {
			return badResponse("a chunk is longer than it said")
		}
	}
}

func (l *link) skipTrailers(a *Answer) error {
	for {
		line, err := l.line(a)
		if err != nil || len(line) == 0 {
			return err
		}
	}
}

// line reads a line, without its end; it is valid until the next read.
func (l *link) line(a *Answer) ([]byte, error) {
	seen := 0
	for {
		if end := bytes.IndexByte(l.buf[l.r+seen:l.w], '\n'); end >= 0 {
			line := l.buf[l.r : l.r+seen+end]
			l.r += seen + end + 1
			return bytes.TrimSuffix(line, []byte("\r")), nil
		}
		seen = l.w - l.r
		if err := l.fill(a); err != nil {
			return nil, err
		}
	}
}

// skip passes over n bytes.
func (l *link) skip(n int64, a *Answer) error {
	for {
		have := min(n, int64(l.w-l.r))
		l.r += int(have)
		if n -= have; n == 0 {
			return nil
		}
		if err := l.fill(a); err != nil {
			return err
		}
	}
}

// number reads an unsigned number of the base; it refuses more than 15 digits,
// so that none overflows.
func number(text []byte, base int64) (int64, bool) {
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	var n int64
	for _, c := range text {
		var digit int64
		switch {
		case '0' <= c && c <= '9':
			digit = int64(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			digit = int64(c|0x20-'a') + 10
		default:
			return 0, false
		}
		if digit >= base {
			return 0, false
		}
		n = n*base + digit
	}
	return n, true
}

// is compares ASCII without regard to case; want is in lower case.
func is(text []byte, want string) bool {
	if len(text) != len(want) {
		return false
	}
	for i, c := range text {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// contains finds a token of a list of tokens (RFC 9110, section 5.6.1).
func contains(list []byte, token string) bool {
	for len(list) > 0 {
		item := list
		if comma := bytes.IndexByte(list, ','); comma >= 0 {
			item, list = list[:comma], list[comma+1:]
		} else {
			list = nil
		}
		if is(bytes.TrimSpace(item), token) {
			return true
		}
	}
	return false
}
