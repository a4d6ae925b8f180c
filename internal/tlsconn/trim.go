package tlsconn

import (
	"bytes"
	"crypto/tls"
	"reflect"
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

// keptBytes is what a connection may keep of each: enough for the records of most
// requests, so that it is not made anew for each.
const keptBytes = 2 << 10

// field finds a field of tls.Conn; 0: there is none of that name and type.
func field[T any](name string) uintptr {
	if f, found := reflect.TypeFor[tls.Conn]().FieldByName(name); found && f.Type == reflect.TypeFor[T]() {
		return f.Offset
	}
	return 0
}

// trim frees what c keeps beyond most bytes in each buffer. Nobody may be reading
// from c.
func trim(c *tls.Conn, most int) {
	if rawInput == 0 || input == 0 || hand == 0 {
		return
	}
	raw, left := at[bytes.Buffer](c, rawInput), at[bytes.Reader](c, input)
	if raw.Len() == 0 && left.Len() == 0 && raw.Cap() > most {
		*raw, *left = bytes.Buffer{}, bytes.Reader{}
	}
	if messages := at[bytes.Buffer](c, hand); messages.Len() == 0 && messages.Cap() > most {
		*messages = bytes.Buffer{}
	}
}

func at[T any](c *tls.Conn, offset uintptr) *T { return (*T)(unsafe.Add(unsafe.Pointer(c), offset)) }
