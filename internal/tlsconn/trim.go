package tlsconn

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"sync"
	"unsafe"
)

// crypto/tls keeps two buffers for as long as a connection lives: of records that
// come (rawInput, into which input points), as large as the largest so far, some
// 17 KiB, and of handshake messages (hand), some KiB. It has no way to give them
// back, so that is done here, from outside: one that is empty is as good as a new
// one. If a later version of Go has no such fields they stay as they are.
var (
	rawInput = field[bytes.Buffer]("rawInput")
	input    = field[bytes.Reader]("input")
	hand     = field[bytes.Buffer]("hand")
)

const (
	// keptBytes is what a connection may keep of each: enough for the records of most
	// requests.
	keptBytes = 2 << 10
	// rawBytes is room for the largest record, and for what bytes.Buffer wants beyond.
	rawBytes = headerBytes + mostCipher + 2*bytes.MinRead
)

// raws are spare buffers for large records: a connection that rests between them
// shall not cost a new one each time. What was in them is plaintext, and is cleared.
var raws = sync.Pool{New: func() any { return new([rawBytes]byte) }}

// field finds a field of tls.Conn; 0: there is none of that name and type.
func field[T any](name string) uintptr {
	if f, found := reflect.TypeFor[tls.Conn]().FieldByName(name); found && f.Type == reflect.TypeFor[T]() {
		return f.Offset
	}
	return 0
}

func at[T any](c *tls.Conn, offset uintptr) *T { return (*T)(unsafe.Add(unsafe.Pointer(c), offset)) }

// known reports whether crypto/tls is as it was when this was written.
func known() bool { return rawInput != 0 && input != 0 && hand != 0 }

// lend lends crypto/tls a buffer for a record of n bytes, if that is a large one.
func (s *Stream) lend(n int) {
	if s.lent != nil || n <= keptBytes || !known() {
		return
	}
	if raw := at[bytes.Buffer](s.tls, rawInput); raw.Len() == 0 && at[bytes.Reader](s.tls, input).Len() == 0 {
		s.lent = raws.Get().(*[rawBytes]byte)
		*raw = *bytes.NewBuffer(s.lent[:0])
	}
}

// trim takes back what was lent, and frees what crypto/tls keeps beyond most bytes in
// each buffer. While the handshake is under way a task may wait within crypto/tls, and
// all stays.
func (s *Stream) trim(most int) {
	if !known() || s.shaking {
		return
	}
	raw, left := at[bytes.Buffer](s.tls, rawInput), at[bytes.Reader](s.tls, input)
	if raw.Len() == 0 && left.Len() == 0 && raw.Cap() > most {
		*raw, *left = bytes.Buffer{}, bytes.Reader{}
		if s.lent != nil {
			clear(s.lent[:])
			raws.Put(s.lent)
			s.lent = nil
		}
	}
	if messages := at[bytes.Buffer](s.tls, hand); messages.Len() == 0 && messages.Cap() > most {
		*messages = bytes.Buffer{}
	}
}
