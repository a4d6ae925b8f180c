package proxy

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/internal/http2/hpack"
	"sluice/internal/message"
)

// TestStreamAllocatesNothing: whole requests over a warm connection of HTTP/2.
func TestStreamAllocatesNothing(t *testing.T) {
	b := newBare(t, "off", "off")
	if err := b.pass(b.client, []byte(greeting), b.client, 9); err != nil {
		t.Fatal(err)
	}
	block := hpack.AppendMethod(nil, message.GET, []byte("GET"))
	block = hpack.AppendScheme(block, []byte("http"))
	block = hpack.AppendPath(block, []byte("/a?b=c"))
	block = hpack.AppendAuthority(block, []byte("www.example"))
	const headers, whole = 1, 5 // END_HEADERS and END_STREAM
	request := append([]byte{0, 0, byte(len(block)), headers, whole, 0, 0, 0, 0}, block...)
	response := []byte(crlf("HTTP/1.1 200 OK|Content-Length: 5|Date: now||hello"))
	id := uint32(1)
	mustNotAllocate(t, b, func() error {
		binary.BigEndian.PutUint32(request[5:], id)
		id += 2
		if err := b.pass(b.client, request, b.backend, 1); err != nil {
			return err
		}
		if _, err := unix.Write(b.backend, response); err != nil {
			return err
		}
		return b.ended()
	})
}

// ended reads frames until one ends a stream.
func (b *bare) ended() error {
	for n := 0; ; {
		m, err := unix.Read(b.client, b.buf[n:])
		if err != nil || m == 0 {
			return err
		}
		n += m
		for f := b.buf[:n]; len(f) >= 9; {
			long := 9 + int(f[2]) + int(f[1])<<8
			if len(f) < long {
				break
			}
			if f[3] < 2 && f[4]&1 != 0 { // DATA or HEADERS with END_STREAM
				return nil
			}
			f = f[long:]
		}
	}
}
