package hpack

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	theirs "golang.org/x/net/http2/hpack"

	"sluice/internal/message"
)

// TestEncoded holds what is written, byte by byte, and what it means to x/net.
func TestEncoded(t *testing.T) {
	b := func(s string) []byte { return []byte(s) }
	field := func(name, value string) []byte { return AppendField(nil, message.Lookup(b(name)), b(name), b(value)) }
	for _, c := range []struct {
		got        []byte
		hex, field string
	}{
		{AppendStatus(nil, 200), "88", ":status: 200"},
		{AppendStatus(nil, 500), "8e", ":status: 500"},
		{AppendStatus(nil, 103), "0803313033", ":status: 103"},
		{AppendMethod(nil, message.GET, nil), "82", ":method: GET"},
		{AppendMethod(nil, message.POST, nil), "83", ":method: POST"},
		{AppendMethod(nil, message.PUT, b("PUT")), "0203505554", ":method: PUT"},
		{AppendMethod(nil, message.Other, b("get")), "0203676574", ":method: get"},
		{AppendScheme(nil, b("http")), "86", ":scheme: http"},
		{AppendScheme(nil, b("https")), "87", ":scheme: https"},
		{AppendScheme(nil, b("x")), "060178", ":scheme: x"},
		{AppendPath(nil, b("/")), "84", ":path: /"},
		{AppendPath(nil, b("*")), "04012a", ":path: *"},
		{AppendPath(nil, b("/a")), "04022f61", ":path: /a"},
		{AppendAuthority(nil, b("h:1")), "0103683a31", ":authority: h:1"},
		{AppendProtocol(nil, b("websocket")), "00093a70726f746f636f6c09776562736f636b6574", ":protocol: websocket"},
		{field("accept", "*/*"), "0f04032a2f2a", "accept: */*"},
		{field("Content-Length", "53"), "0f0d023533", "content-length: 53"},
		{field("X-Forwarded-For", "::1"), "000f782d666f727761726465642d666f72033a3a31", "x-forwarded-for: ::1"},
		{field("ETag", ""), "00046574616700", "etag: "},
		{field("Content_Length", "1"), "000e636f6e74656e745f6c656e6774680131", "content_length: 1"},
		{field("authorization", strings.Repeat("a", 3)), "1f0803616161", "authorization: aaa (never indexed)"},
		{field("Proxy-Authorization", "a"), "1f220161", "proxy-authorization: a (never indexed)"},
		{AppendNeverIndexed(nil, message.Via, b("Via"), b("x")), "1f2d0178", "via: x (never indexed)"},
		{AppendNeverIndexed(nil, message.Unknown, b("Key"), b("x")), "10036b65790178", "key: x (never indexed)"},
	} {
		t.Run(c.field, func(t *testing.T) {
			if got := hex.EncodeToString(c.got); got != c.hex {
				t.Errorf("%s, want %s", got, c.hex)
			}
			if fields, err := theirs.NewDecoder(0, nil).DecodeFull(c.got); err != nil || theirWords(fields) != c.field {
				t.Errorf("x/net reads %q, %v", theirWords(fields), err)
			}
		})
	}
}

// TestShortSecrets: a cookie of shortSecret bytes is long enough.
func TestShortSecrets(t *testing.T) {
	for _, id := range []message.ID{message.Cookie, message.SetCookie} {
		for n, want := range map[int]bool{shortSecret - 1: true, shortSecret: false} {
			block := AppendField(nil, id, []byte(id.String()), []byte(strings.Repeat("c", n)))
			d, h := NewDecoder(usual), Head{}
			if err := d.Decode(block, &h); err != nil || h.Fields[0].NeverIndexed != want {
				t.Errorf("%s of %d bytes: %v, never indexed %v", id, n, err, h.Fields[0].NeverIndexed)
			}
		}
	}
}

// TestEncodedStatuses: every status of three digits is read again.
func TestEncodedStatuses(t *testing.T) {
	d, h := NewDecoder(usual), Head{}
	for status := 100; status < 1000; status++ {
		if err := d.Decode(AppendStatus(nil, status), &h); err != nil || inWords(&h) != fmt.Sprintf(":status: %d", status) {
			t.Fatalf("%d is read as %q, %v", status, inWords(&h), err)
		}
	}
}

// TestEncodedLengths: names and values of all lengths around those where their
// form changes are read again by us and by x/net, the names in lower case; with
// every byte in them.
func TestEncodedLengths(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 7541))
	d, h := NewDecoder(usual), Head{}
	their := theirs.NewDecoder(0, nil)
	for n := range 300 {
		name, value := make([]byte, n), make([]byte, 300-n)
		for i := range name {
			name[i] = byte(random.Uint32())
		}
		for i := range value {
			value[i] = byte(random.Uint32())
		}
		block := AppendField([]byte{0x82}, message.Unknown, name, value)
		want := fmt.Sprintf(":method: GET, %s: %s", lowerCase(name), value)
		fields, err := their.DecodeFull(block)
		if err != nil || theirWords(fields) != want {
			t.Fatalf("x/net reads %q, %v, want %q", theirWords(fields), err, want)
		}
		if err := d.Decode(block, &h); err != nil || inWords(&h) != want {
			t.Fatalf("we read %q, %v, want %q", inWords(&h), err, want)
		}
	}
}

// lowerCase is strings.ToLower for ASCII alone, byte by byte.
func lowerCase(name []byte) []byte {
	lower := bytes.Clone(name)
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return lower
}

// TestEncodedNames: each known name is read again with its ID, in whatever case it
// was given.
func TestEncodedNames(t *testing.T) {
	d, h := NewDecoder(usual), Head{}
	for id := message.Connection; id <= message.XSluicePlacement; id++ {
		block := AppendField(nil, id, []byte(strings.ToUpper(id.String())), []byte("v"))
		if err := d.Decode(block, &h); err != nil || h.Fields[0].ID != id || string(h.Fields[0].Name) != id.String() {
			t.Errorf("%s is read as %q, %v", id, inWords(&h), err)
		}
	}
}
