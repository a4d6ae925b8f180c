package sni

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// hello is what a client of crypto/tls sends first.
func hello(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer far.Close()
	go tls.Client(near, config).Handshake()
	far.SetDeadline(time.Now().Add(30 * time.Second))
	head := make([]byte, 5)
	if _, err := io.ReadFull(far, head); err != nil {
		t.Fatal(err)
	}
	all := append(head, make([]byte, int(head[3])<<8|int(head[4]))...)
	if _, err := io.ReadFull(far, all[5:]); err != nil {
		t.Fatal(err)
	}
	return all
}

// resized is a hello in records of this size.
func resized(whole []byte, size int) (cut []byte) {
	for rest := whole[5:]; len(rest) > 0; {
		n := min(size, len(rest))
		cut = append(append(cut, 22, 3, 1, byte(n>>8), byte(n)), rest[:n]...)
		rest = rest[n:]
	}
	return cut
}

// name reads a copy: the bytes are moved about.
func name(b []byte) (string, int, error) {
	n, need, err := Name(slices.Clone(b))
	return string(n), need, err
}

var clients = map[string]*tls.Config{
	"TLS 1.3":               {ServerName: "a.example"},
	"TLS 1.2":               {ServerName: "b.example", MaxVersion: tls.VersionTLS12},
	"an only exchange":      {ServerName: "c.example", CurvePreferences: []tls.CurveID{tls.X25519}, NextProtos: []string{"h2", "http/1.1"}},
	"capitals":              {ServerName: "A.Example"},
	"the longest":           {ServerName: strings.Repeat("x.", 127) + "x"},
	"an address is no name": {ServerName: "192.0.2.1"},
	"nobody":                {InsecureSkipVerify: true},
}

// Every client's name is found, in records of whatever size, and what follows does
// not matter. Of each part so many bytes are asked for as are certain to be part of it.
func TestName(t *testing.T) {
	for who, config := range clients {
		want := config.ServerName
		if net.ParseIP(want) != nil {
			want = ""
		}
		whole := hello(t, config)
		for _, size := range []int{1, 2, 3, 4, 5, 100, len(whole) - 6, len(whole)} {
			b := resized(whole, size)
			got, need, err := name(append(slices.Clone(b), "early data"...))
			if got != want || need > len(b) || err != nil {
				t.Errorf("%s, records of %d: %q, %d bytes needed, %v, want %q", who, size, got, need, err, want)
			}
			for n := range len(b) {
				if _, need, err := name(b[:n]); err != nil || need <= n || need > len(b) {
					t.Fatalf("%s, records of %d: of %d bytes the first %d need %d, %v", who, size, len(b), n, need, err)
				}
			}
		}
	}
}

// message is a ClientHello with these extensions.
func message(extensions string) string {
	body := "\x03\x03" + strings.Repeat("r", 32) + "\x00" + "\x00\x02\x13\x01" + "\x01\x00"
	if extensions != "none" {
		body += long(extensions)
	}
	return "\x01\x00" + long(body)
}

// long puts the length before text, in two bytes.
func long(text string) string { return string([]byte{byte(len(text) >> 8), byte(len(text))}) + text }

func record1(content string) string { return "\x16\x03\x01" + long(content) }

// named is the extension with one name.
func named(host string) string { return "\x00\x00" + long(long("\x00"+long(host))) }

const other = "\x00\x17\x00\x00" // extended_master_secret

func TestHandMade(t *testing.T) {
	for _, test := range []struct {
		what, text string
		want       string
		err        error
	}{
		{"a name", record1(message(named("a.example"))), "a.example", nil},
		{"among others", record1(message(other + named("a.example") + other)), "a.example", nil},
		{"without extensions", record1(message("none")), "", nil},
		{"with none", record1(message("")), "", nil},
		{"with others", record1(message(other)), "", nil},
		{"two in one record", record1(message(named("a")) + "\x0b\x00\x00\x00"), "a", nil},

		{"HTTP", "GET / HTTP/1.1\r\n", "", ErrNotTLS},
		{"an alert", "\x15\x03\x01\x00\x02\x02\x28", "", ErrNotTLS},
		{"SSL 2", "\x80\x2e\x01\x03\x01", "", ErrNotTLS},
		{"version 4", "\x16\x04\x00\x00\x10", "", ErrNotTLS},
		{"a ServerHello", record1("\x02\x00" + long("x")), "", ErrNotTLS},
		{"an empty record", record1(""), "", ErrBroken},
		{"a long record", "\x16\x03\x01\x40\x01\x01", "", ErrBroken},
		{"something between its records", record1(message(named("a"))[:20]) + "\x17\x03\x03\x00\x01x", "", ErrBroken},
		{"a long message", record1("\x01\x00\x40\x01"), "", ErrTooLong},
		{"a very long message", record1("\x01\xff\xff\xff"), "", ErrTooLong},
		{"an empty message", record1("\x01\x00\x00\x00"), "", ErrBroken},
		{"half a message", record1("\x01\x00" + long(message(named("a"))[4:40])), "", ErrBroken},
		{"version 2 inside", record1("\x01\x00" + long("\x02\x00"+strings.Repeat("r", 32)+"\x00\x00\x02\x13\x01\x01\x00")), "", ErrBroken},
		{"a long session", record1("\x01\x00" + long("\x03\x03"+strings.Repeat("r", 32)+"\x21"+strings.Repeat("s", 33)+"\x00\x02\x13\x01\x01\x00")), "", ErrBroken},
		{"no cipher", record1("\x01\x00" + long("\x03\x03"+strings.Repeat("r", 32)+"\x00\x00\x00\x01\x00")), "", ErrBroken},
		{"half a cipher", record1("\x01\x00" + long("\x03\x03"+strings.Repeat("r", 32)+"\x00\x00\x03abc\x01\x00")), "", ErrBroken},
		{"no compression", record1("\x01\x00" + long("\x03\x03"+strings.Repeat("r", 32)+"\x00\x00\x02\x13\x01\x00")), "", ErrBroken},
		{"bytes behind the extensions", record1("\x01\x00" + long(message(named("a"))[4:]+"x")), "", ErrBroken},
		{"half an extension", record1(message("\x00\x17\x00")), "", ErrBroken},
		{"a long extension", record1(message("\x00\x17\x00\x01")), "", ErrBroken},
		{"the extension twice", record1(message(named("a") + named("b"))), "", ErrBroken},
		{"the extension twice, the same", record1(message(named("a") + named("a"))), "", ErrBroken},
		{"two names", record1(message("\x00\x00" + long(long("\x00"+long("a")+"\x00"+long("b"))))), "", ErrBroken},
		{"a name of another type", record1(message("\x00\x00" + long(long("\x01"+long("a"))))), "", ErrBroken},
		{"no list", record1(message("\x00\x00\x00\x00")), "", ErrBroken},
		{"an empty list", record1(message("\x00\x00" + long(long("")))), "", ErrBroken},
		{"an empty name", record1(message(named(""))), "", ErrBroken},
		{"a long list", record1(message("\x00\x00" + long("\x00\x09\x00"+long("a")))), "", ErrBroken},
		{"bytes behind the list", record1(message("\x00\x00" + long(long("\x00"+long("a"))+"x"))), "", ErrBroken},
		{"a final dot", record1(message(named("a."))), "", ErrBroken},
		{"a NUL", record1(message(named("a\x00b"))), "", ErrBroken},
		{"a space", record1(message(named("a b"))), "", ErrBroken},
		{"another script", record1(message(named("\xc3\xa9"))), "", ErrBroken},
		{"256 bytes", record1(message(named(strings.Repeat("a", 256)))), "", ErrBroken},
	} {
		if got, need, err := name([]byte(test.text)); got != test.want || err != test.err || err == nil && need > len(test.text) {
			t.Errorf("%s: %q, %d of %d bytes needed, %v; want %q, %v", test.what, got, need, len(test.text), err, test.want, test.err)
		}
	}
}

// A ClientHello may be as long as is said, and never is more looked at than MaxBytes.
func TestLengths(t *testing.T) {
	of := func(n int) string { // a message of n bytes
		empty := len(message(named("a") + "\x00\x15" + long("")))
		return message(named("a") + "\x00\x15" + long(strings.Repeat("\x00", n-empty)))
	}
	if got, need, err := name([]byte(record1(of(maxMessage)))); got != "a" || err != nil {
		t.Errorf("the longest: %q, %d, %v", got, need, err)
	}
	if _, _, err := name([]byte(record1(of(maxMessage + 1)[:maxRecord]))); err != ErrTooLong {
		t.Errorf("a byte more: %v", err)
	}
	// Records of a byte each are five headers too many: the caller's buffer bounds them.
	b := resized([]byte(record1(of(maxMessage))), 1)
	if _, need, err := name(b[:MaxBytes]); need <= MaxBytes || err != nil {
		t.Errorf("%d bytes needed, %v", need, err)
	}
}

// accepted asks crypto/tls what name it reads in b; ok is whether it takes it for a
// ClientHello at all.
func accepted(b []byte) (name string, ok bool) {
	enough := errors.New("enough")
	server := tls.Server(&replay{bytes.NewReader(b)}, &tls.Config{
		MinVersion: tls.VersionTLS10,
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, ok = h.ServerName, true
			return nil, enough
		},
	})
	server.Handshake()
	return name, ok
}

// replay is a connection from which b is read, and then its end.
type replay struct{ *bytes.Reader }

func (*replay) Write(p []byte) (int, error)      { return len(p), nil }
func (*replay) Close() error                     { return nil }
func (*replay) LocalAddr() net.Addr              { return nil }
func (*replay) RemoteAddr() net.Addr             { return nil }
func (*replay) SetDeadline(time.Time) error      { return nil }
func (*replay) SetReadDeadline(time.Time) error  { return nil }
func (*replay) SetWriteDeadline(time.Time) error { return nil }

// agrees checks that a server of crypto/tls would read the same name, or refuse.
func agrees(t *testing.T, b []byte) {
	t.Helper()
	got, need, err := name(b)
	if err != nil || need > len(b) {
		return
	}
	if want, ok := accepted(b); ok && got != want && net.ParseIP(got) == nil {
		t.Fatalf("%q is read, and %q by crypto/tls, in %x", got, want, b)
	}
}

// Hellos with some bytes changed are never read otherwise than a server reads them.
func TestChanged(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, config := range clients {
		whole := hello(t, config)
		for range 2000 {
			b := slices.Clone(whole)
			for range 1 + random.IntN(3) {
				b[random.IntN(len(b))] = byte(random.IntN(256))
			}
			agrees(t, b)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, config := range clients {
		f.Add(hello(f, config))
	}
	f.Add([]byte(record1(message(other + named("a.example") + other))))
	f.Fuzz(func(t *testing.T, b []byte) {
		for n := range min(len(b), 64) { // what the first bytes say does not change
			if _, need, err := name(b[:n]); err != nil {
				if _, _, again := name(b); again == nil {
					t.Fatalf("%d bytes are refused (%v), all are not", n, err)
				}
			} else if need <= n && n < 40 {
				t.Fatalf("%d bytes are enough", n)
			}
		}
		agrees(t, b)
	})
}

func TestNothingIsAllocated(t *testing.T) {
	b := hello(t, clients["TLS 1.3"])
	kept := slices.Clone(b)
	if n := testing.AllocsPerRun(100, func() { copy(b, kept); Name(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
