package proxyproto

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// What Append writes of a header is what Parse read, to the byte where there is one
// way to write it.
func TestAppend(t *testing.T) {
	for _, test := range good {
		text := Append([]byte("before"), &test.want)
		text, ok := bytes.CutPrefix(text, []byte("before"))
		var h Header
		n, err := Parse(text, &h)
		if !ok || err != nil || n != len(text) || !reflect.DeepEqual(h, test.want) {
			t.Errorf("%s: written as %q, read as %+v, %v", test.name, text, h, err)
		}
	}
	for _, test := range []struct {
		name string
		h    Header
		want string
	}{
		{"v1 IPv4", Header{Version: 1, Source: at("10.0.0.1:56789"), Destination: at("10.0.0.2:443")}, "PROXY TCP4 10.0.0.1 10.0.0.2 56789 443\r\n"},
		{"v1 IPv6", Header{Version: 1, Source: at("[2001:db8::1]:1"), Destination: at("[::1]:2")}, "PROXY TCP6 2001:db8::1 ::1 1 2\r\n"},
		{"v1 mixed", Header{Version: 1, Source: at("10.0.0.1:1"), Destination: at("[::1]:2")}, "PROXY TCP6 ::ffff:10.0.0.1 ::1 1 2\r\n"},
		{"v1 zone", Header{Version: 1, Source: at("[fe80::1%eth0]:1"), Destination: at("[::1]:2")}, "PROXY TCP6 fe80::1 ::1 1 2\r\n"},
		{"v1 unknown", Header{Version: 1, Origin: Unknown}, "PROXY UNKNOWN\r\n"},
		{"v1 no client", Header{Version: 1, Destination: at("[::1]:2")}, "PROXY UNKNOWN\r\n"},
		{"v1 local", Header{Version: 1, Origin: Local, Source: at("10.0.0.1:1"), Destination: at("10.0.0.2:2")}, "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"},
		{"v2 IPv4", proxied4, binaryHeader(0x21, 0x11, addresses4)},
		{"v2 mixed", Header{Version: 2, Source: at("10.0.0.1:1"), Destination: at("[2001:db8::2]:2")}, binaryHeader(0x21, 0x21, mapped, "\x0a\x00\x00\x01", address6, "\x02", "\x00\x01\x00\x02")},
		{"v2 local", Header{Version: 2, Origin: Local, Authority: []byte("a"), Checksum: true}, binaryHeader(0x20, 0x00)},
		{"v2 no client", Header{Version: 2, Source: at("10.0.0.1:1")}, binaryHeader(0x21, 0x00)},
		{"v2 long ID", with(func(h *Header) { h.UniqueID = make([]byte, 129) }), binaryHeader(0x21, 0x11, addresses4)},
		{"v2 TLS", with(func(h *Header) { h.TLS = TLS{On: true, Version: []byte("TLSv1.2")} }), binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x01\x00\x00\x00\x01"+tlv(0x21, "TLSv1.2")))},
	} {
		if got := Append(nil, &test.h); string(got) != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A header never gets longer than what is taken, whatever it has to say.
func TestAppendBounded(t *testing.T) {
	for long := MaxBytes - 64; long < MaxBytes+64; long++ {
		name := []byte(strings.Repeat("n", long))
		for _, h := range []Header{
			with(func(h *Header) { h.Authority, h.Checksum = name, true }),
			with(func(h *Header) { h.TLS, h.Checksum = TLS{On: true, CommonName: name, Version: []byte("TLSv1.3")}, true }),
			with(func(h *Header) { h.ALPN, h.TLS, h.Checksum = name, TLS{On: true}, true }),
		} {
			text := Append(nil, &h)
			var got Header
			if n, err := Parse(text, &got); err != nil || n != len(text) || !got.Checksum {
				t.Fatalf("a name of %d bytes: %d of %d bytes, %v", long, n, len(text), err)
			}
		}
	}
}

func TestAppendAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, MaxBytes)
	for _, test := range good {
		if n := testing.AllocsPerRun(100, func() { Append(dst, &test.want) }); n != 0 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
}

// FuzzParse: nothing is taken that its parts refuse, more is never asked for once
// there is enough, and what was taken is written and read to the same.
func FuzzParse(f *testing.F) {
	for _, test := range good {
		f.Add([]byte(test.text))
	}
	for _, test := range bad {
		f.Add([]byte(test.text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, part, again Header
		n, err := Parse(b, &h)
		if err != nil || n > len(b) {
			if n > MaxBytes || err == nil && n < LeastBytes {
				t.Fatalf("%d bytes are asked for", n)
			}
			return
		}
		for i := range n {
			if need, err := Parse(b[:i], &part); err != nil || need <= i || need > n {
				t.Fatalf("of %d bytes the first %d need %d, %v", n, i, need, err)
			}
		}
		text := Append(nil, &h)
		m, err := Parse(text, &again)
		if err != nil || m != len(text) {
			t.Fatalf("%+v is written as %q: %v", h, text, err)
		}
		same(t, &h, &again)
	})
}

// same compares headers but for values that are there and empty, which are not
// written.
func same(t *testing.T, a, b *Header) {
	t.Helper()
	for _, h := range []*Header{a, b} {
		for _, v := range []*[]byte{&h.ALPN, &h.Authority, &h.UniqueID, &h.TLS.Version, &h.TLS.CommonName, &h.TLS.Cipher, &h.TLS.SigAlg, &h.TLS.KeyAlg} {
			if len(*v) == 0 {
				*v = nil
			}
		}
		if !h.TLS.On { // nothing else is said of TLS then
			h.TLS = TLS{}
		}
	}
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("read as %+v, written and read as %+v", a, b)
	}
}
