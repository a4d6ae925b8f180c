package client

import (
	"runtime"
	"slices"

	"golang.org/x/net/http2/hpack"

	"sluice/cmd/hb/frame"
)

// write writes what was appended to out. One does so for all: those whom the
// reader woke together find the first of them at it, and it lets them append
// before it begins.
func (s *h2) write() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writing {
		return
	}
	s.writing = true
	if len(s.live) > 1 {
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	}
	for s.err == nil {
		s.fill()
		if len(s.out) == 0 {
			break
		}
		s.out, s.written = s.written[:0], s.out
		s.mu.Unlock()
		_, err := s.conn.Write(s.written)
		// Of a connection that the server has closed, the reader tells more: its
		// last frames may say why.
		if err != nil && !closedByPeer(err) {
			s.end(err)
		}
		s.mu.Lock()
		if err != nil {
			break
		}
	}
	s.writing = false
}

// fill appends content, as far as the server's windows go. The caller holds mu.
func (s *h2) fill() {
	for i := 0; i < len(s.blocked); {
		st := s.blocked[i]
		for len(st.body) > 0 && len(s.out) < h2OutBytes {
			n := int(min(int64(len(st.body)), int64(s.maxFrame), s.credit, st.credit))
			if n <= 0 {
				break
			}
			var last frame.Flags
			if n == len(st.body) {
				last = frame.EndStream
			}
			s.out = frame.Append(s.out, frame.Data, last, st.id, st.body[:n])
			st.answer.Sent += int64(frame.HeadBytes + n)
			st.body = st.body[n:]
			st.credit -= int64(n)
			s.credit -= int64(n)
		}
		if len(st.body) > 0 {
			i++
			continue
		}
		s.blocked = slices.Delete(s.blocked, i, i+1)
	}
}

// unblock forgets the content that a stream has left. The caller holds mu.
func (s *h2) unblock(st *stream) {
	if i := slices.Index(s.blocked, st); i >= 0 {
		s.blocked = slices.Delete(s.blocked, i, i+1)
	}
}

// blocks are the requests' fields as HPACK has them on one connection (RFC 7541).
// A block that adds nothing to the encoder's table may be sent again as it is, for
// as long as nothing else changes the table: of a few requests, all come to that.
type blocks struct {
	known   map[*Request]block
	table   int // how often the table has changed
	encoder *hpack.Encoder
	buf     []byte
	cookie  []byte
}

type block struct {
	bytes []byte
	table int // holds for this state of the table
}

func (b *blocks) begin() {
	b.known = map[*Request]block{}
	b.encoder = hpack.NewEncoder(b)
}

// Write takes what the encoder has made.
func (b *blocks) Write(p []byte) (int, error) {
	b.buf = append(b.buf, p...)
	return len(p), nil
}

// resize follows the server's wish for the table's size, in bytes.
func (b *blocks) resize(bytes uint32) {
	b.encoder.SetMaxDynamicTableSize(min(bytes, h2TableBytes))
	b.table++
}

// of is the block of a request, with the client's cookies. It is valid until the
// next call.
func (b *blocks) of(r *Request, jar *hostJar) []byte {
	b.buf = b.buf[:0]
	if known, found := b.known[r]; found && known.table == b.table {
		b.buf = append(b.buf, known.bytes...)
	} else {
		for _, f := range r.fields {
			b.encoder.WriteField(f)
		}
		if changesTable(b.buf) {
			b.table++
		} else {
			b.known[r] = block{slices.Clone(b.buf), b.table}
		}
	}
	if b.cookie = jar.appendLine(b.cookie[:0]); len(b.cookie) > 0 {
		plain := len(b.buf)
		b.encoder.WriteField(hpack.HeaderField{Name: "cookie", Value: string(b.cookie)})
		if changesTable(b.buf[plain:]) {
			b.table++
		}
	}
	return b.buf
}

// changesTable reports whether a block adds to the table or changes its size
// (RFC 7541, section 6). The block is one of our encoder's.
func changesTable(block []byte) bool {
	for len(block) > 0 {
		switch first := block[0]; {
		case first&0x80 != 0: // indexed
			_, block = prefixed(block, 7)
		case first&0x60 != 0: // literal that is added; change of size
			return true
		default: // literal that is not added
			var name int
			if name, block = prefixed(block, 4); name == 0 {
				block = skipString(block)
			}
			block = skipString(block)
		}
	}
	return false
}

// prefixed reads an integer whose first byte has so many bits of it (RFC 7541,
// section 5.1).
func prefixed(b []byte, bits uint) (n int, rest []byte) {
	most := 1<<bits - 1
	n, b = int(b[0])&most, b[1:]
	if n < most {
		return n, b
	}
	for shift := uint(0); ; shift += 7 {
		c := b[0]
		n, b = n+int(c&0x7f)<<shift, b[1:]
		if c&0x80 == 0 {
			return n, b
		}
	}
}

func skipString(b []byte) []byte {
	n, rest := prefixed(b, 7)
	return rest[n:]
}
