package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
)

func at(text string) netip.AddrPort { return netip.MustParseAddrPort(text) }

// binaryHeader is a header of version 2 with these two bytes behind the signature,
// and this block.
func binaryHeader(command, family byte, block ...string) string {
	all := strings.Join(block, "")
	return signature + string([]byte{command, family}) + string(binary.BigEndian.AppendUint16(nil, uint16(len(all)))) + all
}

// tlv is one type-length-value.
func tlv(kind byte, value string) string {
	return string(binary.BigEndian.AppendUint16([]byte{kind}, uint16(len(value)))) + value
}

const (
	addresses4 = "\x0a\x00\x00\x01\x0a\x00\x00\x02\xdd\xd5\x01\xbb" // 10.0.0.1:56789 to 10.0.0.2:443
	address6   = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	addresses6 = address6 + "\x01" + address6 + "\x02" + "\x00\x50\xff\xff" // [2001:db8::1]:80 to [2001:db8::2]:65535
	mapped     = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff"
)

// sum is the checksum of a header with addresses4 and an empty value behind it:
// TestChecksum calculates it in another way.
const sum = "\xe0\xe8\x93\x39"

var proxied4 = Header{Version: 2, Source: at("10.0.0.1:56789"), Destination: at("10.0.0.2:443")}

// with is proxied4 with something more.
func with(change func(*Header)) Header {
	h := proxied4
	change(&h)
	return h
}

var good = []struct {
	name, text string
	want       Header
}{
	{"v1 IPv4", "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
		Header{Version: 1, Source: at("192.168.0.1:56324"), Destination: at("192.168.0.11:443")}},
	{"v1 IPv4, all of it", "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
		Header{Version: 1, Source: at("255.255.255.255:65535"), Destination: at("255.255.255.255:65535")}},
	{"v1 IPv4, ports 0", "PROXY TCP4 1.2.3.4 0.0.0.0 0 0\r\n",
		Header{Version: 1, Source: at("1.2.3.4:0"), Destination: at("0.0.0.0:0")}},
	{"v1 IPv6", "PROXY TCP6 2001:db8::1 ::1 1 2\r\n",
		Header{Version: 1, Source: at("[2001:db8::1]:1"), Destination: at("[::1]:2")}},
	{"v1 IPv6, long and in capitals", "PROXY TCP6 FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF:FFFF ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
		Header{Version: 1, Source: at("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"), Destination: at("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535")}},
	{"v1 IPv4 in IPv6", "PROXY TCP6 ::ffff:10.0.0.1 ::ffff:a00:2 1 2\r\n",
		Header{Version: 1, Source: at("10.0.0.1:1"), Destination: at("10.0.0.2:2")}},
	{"v1 unknown", "PROXY UNKNOWN\r\n", Header{Version: 1, Origin: Unknown}},
	{"v1 unknown, with what is to be ignored", "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
		Header{Version: 1, Origin: Unknown}},

	{"v2 IPv4", binaryHeader(0x21, 0x11, addresses4), proxied4},
	{"v2 IPv6", binaryHeader(0x21, 0x21, addresses6),
		Header{Version: 2, Source: at("[2001:db8::1]:80"), Destination: at("[2001:db8::2]:65535")}},
	{"v2 IPv4 in IPv6", binaryHeader(0x21, 0x21, mapped, "\x0a\x00\x00\x01", mapped, "\x0a\x00\x00\x02\xdd\xd5\x01\xbb"), proxied4},
	{"v2 local", binaryHeader(0x20, 0x00), Header{Version: 2, Origin: Local}},
	{"v2 local, the rest discarded", binaryHeader(0x20, 0xff, "anything"), Header{Version: 2, Origin: Local}},
	{"v2 unspecified", binaryHeader(0x21, 0x00), Header{Version: 2, Origin: Unknown}},
	{"v2 unspecified, with a name", binaryHeader(0x21, 0x00, tlv(2, "a.example")), Header{Version: 2, Origin: Unknown, Authority: []byte("a.example")}},
	{"v2 datagrams", binaryHeader(0x21, 0x12, addresses4), Header{Version: 2, Origin: Unknown}},
	{"v2 transport unspecified", binaryHeader(0x21, 0x10, addresses4), Header{Version: 2, Origin: Unknown}},
	{"v2 Unix sockets", binaryHeader(0x21, 0x31, strings.Repeat("/", 216)), Header{Version: 2, Origin: Unknown}},
	{"v2 values", binaryHeader(0x21, 0x11, addresses4, tlv(1, "h2"), tlv(2, "a.example"), tlv(4, "\x00\x00"), tlv(5, strings.Repeat("i", 128)), tlv(0xea, "vpce")),
		with(func(h *Header) {
			h.ALPN, h.Authority, h.UniqueID = []byte("h2"), []byte("a.example"), []byte(strings.Repeat("i", 128))
		})},
	{"v2 TLS", binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x07\x00\x00\x00\x00"+tlv(0x21, "TLSv1.3")+tlv(0x22, "client")+tlv(0x23, "TLS_AES_128_GCM_SHA256")+tlv(0x24, "SHA256")+tlv(0x25, "RSA2048")+tlv(0x2f, "?"))),
		with(func(h *Header) {
			h.TLS = TLS{On: true, CertConn: true, CertSess: true, Verified: true,
				Version: []byte("TLSv1.3"), CommonName: []byte("client"), Cipher: []byte("TLS_AES_128_GCM_SHA256"),
				SigAlg: []byte("SHA256"), KeyAlg: []byte("RSA2048")}
		})},
	{"v2 TLS, a certificate that is not good", binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x03\x00\x00\x00\x12")),
		with(func(h *Header) { h.TLS = TLS{On: true, CertConn: true} })},
	{"v2 TLS without a certificate", binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x01\x00\x00\x00\x00")),
		with(func(h *Header) { h.TLS = TLS{On: true} })},
	{"v2 checksum", binaryHeader(0x21, 0x11, addresses4, tlv(3, sum), tlv(4, "")),
		with(func(h *Header) { h.Checksum = true })},
	{"v2 the longest", binaryHeader(0x21, 0x11, addresses4, tlv(4, strings.Repeat("x", MaxBytes-16-12-3))), proxied4},
}

func TestParse(t *testing.T) {
	for _, test := range good {
		var h Header
		n, err := Parse([]byte(test.text+"GET / HTTP/1.1\r\n"), &h)
		if err != nil || n != len(test.text) || !reflect.DeepEqual(h, test.want) {
			t.Errorf("%s: %d of %d bytes, %v: %+v, want %+v", test.name, n, len(test.text), err, h, test.want)
		}
	}
}

// Each part of a header asks for more, never for a byte that is not the header's, and
// never for fewer than it has.
func TestParts(t *testing.T) {
	for _, test := range good {
		for n := range len(test.text) {
			var h Header
			need, err := Parse([]byte(test.text[:n]), &h)
			if err != nil || need <= n || need > len(test.text) {
				t.Fatalf("%s: the first %d of %d bytes: %d are needed, %v", test.name, n, len(test.text), need, err)
			}
		}
	}
}

var bad = []struct {
	name, text string
	want       error
}{
	{"HTTP", "GET / HTTP/1.1\r\n", errNoHeader},
	{"POST", "POST / HTTP/1.1\r\n", errNoHeader},
	{"HTTP/2", "PRI * HTTP/2.0\r\n", errNoHeader},
	{"TLS", "\x16\x03\x01", errNoHeader},
	{"empty line", "\r\nGET", errNoHeader},
	{"a newline", "\n", errNoHeader},
	{"v1 in small letters", "proxy TCP4", errNoHeader},
	{"v1 two spaces", "PROXY  TCP4 1.2.3.4 1.2.3.4 1 2\r\n", errProtocol},
	{"v1 without more", "PROXY \r\n", errProtocol},
	{"v1 protocol", "PROXY TCP5 1.2.3.4 1.2.3.4 1 2\r\n", errProtocol},
	{"v1 UDP", "PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", errProtocol},
	{"v1 unknown, and more", "PROXY UNKNOWNS 1.2.3.4\r\n", errProtocol},
	{"v1 unknown with a bare newline", "PROXY UNKNOWN\n", errLine},
	{"v1 unknown with a bare return", "PROXY UNKNOWN a\rb\r\n", errLine},
	{"v1 bare newline", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", errLine},
	{"v1 bare return", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2\rG", errLine},
	{"v1 a field too few", "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", errLine},
	{"v1 a field too many", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n", errLine},
	{"v1 space at the end", "PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n", errLine},
	{"v1 protocol alone", "PROXY TCP4\r\n", errLine},
	{"v1 address missing", "PROXY TCP4  1.2.3.4 1 2\r\n", errAddress},
	{"v1 leading zero", "PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n", errAddress},
	{"v1 256", "PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n", errAddress},
	{"v1 three numbers", "PROXY TCP4 1.2.3 1.2.3.4 1 2\r\n", errAddress},
	{"v1 a name", "PROXY TCP4 localhost 1.2.3.4 1 2\r\n", errAddress},
	{"v1 families mixed", "PROXY TCP4 ::1 1.2.3.4 1 2\r\n", errAddress},
	{"v1 IPv4 as IPv6", "PROXY TCP6 1.2.3.4 ::1 1 2\r\n", errAddress},
	{"v1 IPv4 in IPv6 as IPv4", "PROXY TCP4 ::ffff:1.2.3.4 1.2.3.4 1 2\r\n", errAddress},
	{"v1 zone", "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", errAddress},
	{"v1 brackets", "PROXY TCP6 [::1] ::1 1 2\r\n", errAddress},
	{"v1 port 65536", "PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n", errPort},
	{"v1 port of six digits", "PROXY TCP4 1.2.3.4 1.2.3.4 1 100000\r\n", errPort},
	{"v1 port with a zero", "PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", errPort},
	{"v1 port with a sign", "PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n", errPort},
	{"v1 no port", "PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n", errPort},
	{"v1 108 bytes", "PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n", errLongLine},
	{"v1 no end", "PROXY UNKNOWN " + strings.Repeat("x", 93), errLongLine},

	{"v2 version 1", signature + "\x11", errVersion},
	{"v2 version 3", signature + "\x31", errVersion},
	{"v2 command 2", signature + "\x22", errCommand},
	{"v2 family 4", binaryHeader(0x21, 0x41), errFamily},
	{"v2 transport 3", binaryHeader(0x21, 0x13, addresses4), errTransport},
	{"v2 without addresses", binaryHeader(0x21, 0x11), errShort},
	{"v2 a byte too short", binaryHeader(0x21, 0x11, addresses4[:11]), errShort},
	{"v2 IPv6 a byte too short", binaryHeader(0x21, 0x21, addresses6[:35]), errShort},
	{"v2 Unix a byte too short", binaryHeader(0x21, 0x31, strings.Repeat("/", 215)), errShort},
	{"v2 too long", signature + "\x21\x11\x3f\xf1", errTooLong},
	{"v2 half a vector", binaryHeader(0x21, 0x11, addresses4, "\x04\x00"), errVector},
	{"v2 vector too long", binaryHeader(0x21, 0x11, addresses4, "\x04\x00\x02x"), errVector},
	{"v2 half a vector, unspecified", binaryHeader(0x21, 0x00, "\x04"), errVector},
	{"v2 ALPN twice", binaryHeader(0x21, 0x11, addresses4, tlv(1, ""), tlv(1, "h2")), errTwice},
	{"v2 authority twice", binaryHeader(0x21, 0x11, addresses4, tlv(2, "a"), tlv(2, "a")), errTwice},
	{"v2 unique ID twice", binaryHeader(0x21, 0x11, addresses4, tlv(5, "a"), tlv(5, "b")), errTwice},
	{"v2 TLS twice", binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x01\x00\x00\x00\x00"), tlv(0x20, "\x01\x00\x00\x00\x00")), errTwice},
	{"v2 checksum twice", binaryHeader(0x21, 0x11, addresses4, tlv(3, "1234"), tlv(3, "1234")), errTwice},
	{"v2 unique ID of 129", binaryHeader(0x21, 0x11, addresses4, tlv(5, strings.Repeat("i", 129))), errUniqueID},
	{"v2 TLS of 4 bytes", binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x01\x00\x00\x00")), errTLSVector},
	{"v2 TLS, vector too long", binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x01\x00\x00\x00\x00\x21\x00\x02x")), errVector},
	{"v2 TLS, a name twice", binaryHeader(0x21, 0x11, addresses4, tlv(0x20, "\x01\x00\x00\x00\x00"+tlv(0x22, "a")+tlv(0x22, "b"))), errTwice},
	{"v2 checksum wrong", binaryHeader(0x21, 0x11, addresses4, tlv(3, "1234"), tlv(4, "")), errChecksum},
	{"v2 checksum of 3 bytes", binaryHeader(0x21, 0x11, addresses4, tlv(3, "123")), errChecksumLen},
	{"v2 checksum of 5 bytes", binaryHeader(0x21, 0x11, addresses4, tlv(3, "12345")), errChecksumLen},
}

// What is bad is refused, and in each of its parts either refused or not yet known.
func TestRefused(t *testing.T) {
	for _, test := range bad {
		var h Header
		n, err := Parse([]byte(test.text), &h)
		if err != test.want {
			t.Errorf("%s: %d, %v, want %v", test.name, n, err, test.want)
		}
		var fault *Fault
		if !errors.As(err, &fault) || !strings.HasPrefix(err.Error(), "PROXY header: ") {
			t.Errorf("%s: %v is no Fault", test.name, err)
		}
		for part := range len(test.text) {
			if n, err := Parse([]byte(test.text[:part]), &h); err == nil && n <= part {
				t.Errorf("%s: the first %d bytes are taken for a header of %d", test.name, part, n)
			}
		}
	}
}

// bitwise is the CRC32c of RFC 4960, appendix B, one bit at a time.
func bitwise(b []byte) uint32 {
	sum := ^uint32(0)
	for _, c := range b {
		sum ^= uint32(c)
		for range 8 {
			sum = sum>>1 ^ 0x82f63b78*(sum&1)
		}
	}
	return ^sum
}

func TestChecksum(t *testing.T) {
	if sum := bitwise([]byte("123456789")); sum != 0xe3069283 { // the check value of CRC-32C
		t.Fatalf("bitwise gives %08x", sum)
	}
	h := []byte(binaryHeader(0x21, 0x11, addresses4, tlv(3, "\x00\x00\x00\x00"), tlv(4, "")))
	place := 16 + 12 + 3
	if got, want := checksum(h, place), bitwise(h); got != want {
		t.Errorf("%08x, want %08x", got, want)
	}
	binary.BigEndian.PutUint32(h[place:], bitwise(h))
	var got Header
	if _, err := Parse(h, &got); err != nil || !got.Checksum {
		t.Errorf("%v, checksum %v", err, got.Checksum)
	}
	if !bytes.Equal(h[place:], []byte(tlv(3, sum)[3:]+tlv(4, ""))) {
		t.Errorf("the sum of the header in the table is %q", h[place:place+4])
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	var h Header
	for _, test := range good {
		b := []byte(test.text)
		if n := testing.AllocsPerRun(100, func() { Parse(b, &h) }); n != 0 {
			t.Errorf("%s: %v allocations", test.name, n)
		}
	}
}
