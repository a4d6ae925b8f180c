package e2e

import (
	"errors"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/quic-go/quic-go/quicvarint"

	"sluice/internal/testkit"
)

// longPacket is a packet with a long header whose payload nobody can read (RFC 9000 17.2).
// first tells its type, id is how long the server's connection ID is.
func longPacket(random *rand.Rand, first byte, version uint32, id, size int) []byte {
	b := []byte{first, byte(version >> 24), byte(version >> 16), byte(version >> 8), byte(version), byte(id)}
	b = append(b, anyBytes(random, id)...)
	b = append(append(b, 8), anyBytes(random, 8)...)
	if first&0x30 == 0 {
		b = append(b, 0) // no token
	}
	b = quicvarint.AppendWithLen(b, uint64(size-len(b)-2), 2)
	return append(b, anyBytes(random, size-len(b))...)
}

func anyBytes(random *rand.Rand, n int) []byte {
	b := make([]byte, max(0, n))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// floods are datagrams that belong to no connection.
var floods = map[string]func(*rand.Rand) []byte{
	"beginnings":                     func(r *rand.Rand) []byte { return longPacket(r, 0xc0, 1, 18, 1200) },
	"beginnings with a short ID":     func(r *rand.Rand) []byte { return longPacket(r, 0xc0, 1, 4, 1200) },
	"beginnings that are too small":  func(r *rand.Rand) []byte { return longPacket(r, 0xc0, 1, 18, 400) },
	"another version":                func(r *rand.Rand) []byte { return longPacket(r, 0xc0, 0xbabababa, 18, 1200) },
	"another version, small":         func(r *rand.Rand) []byte { return longPacket(r, 0xc0, 0xbabababa, 18, 100) },
	"a choice of versions":           func(r *rand.Rand) []byte { return longPacket(r, 0x80, 0, 18, 1200) },
	"early data":                     func(r *rand.Rand) []byte { return longPacket(r, 0xd0, 1, 18, 1200) },
	"the middle of a handshake":      func(r *rand.Rand) []byte { return longPacket(r, 0xe0, 1, 18, 1200) },
	"a retry":                        func(r *rand.Rand) []byte { return longPacket(r, 0xf0, 1, 18, 1200) },
	"of no connection":               func(r *rand.Rand) []byte { return append([]byte{0x40}, anyBytes(r, 1199)...) },
	"of no connection, small":        func(r *rand.Rand) []byte { return append([]byte{0x40}, anyBytes(r, 30)...) },
	"an ID longer than the datagram": func(r *rand.Rand) []byte { return []byte{0xc0, 0, 0, 0, 1, 20, 1} },
	"noise":                          func(r *rand.Rand) []byte { return anyBytes(r, 1+r.IntN(1400)) },
	"a byte":                         func(r *rand.Rand) []byte { return anyBytes(r, 1) },
	"nothing":                        func(*rand.Rand) []byte { return nil },
}

// Datagrams that belong to no connection, or begin one that nobody goes on with, cost
// little memory, are answered with no more than they were, and leave connections to others
// (RFC 9000 8.1, 21.1).
func TestFloodsOfDatagrams(t *testing.T) {
	t.Parallel()
	const each = 3000
	const begun = 2048 * 45 // KiB: handshakes that may be in progress before addresses are verified, half of the default
	b := testkit.Serve(t, testkit.Answering(ok))
	q := startHTTP3(t, "", farm(b.URL()), oneWorker)
	get := head3(insteadOf(":method", "GET")...)
	old := q.strand()
	if got := old.send(get); got != "200" {
		t.Fatal(got)
	}
	worker := q.workers()[0]
	before := grown(t, worker)
	for name, datagram := range floods {
		conn, err := net.Dial("udp", q.address("tls"))
		if err != nil {
			t.Fatal(err)
		}
		heard := make(chan int)
		go func() {
			n, p := 0, make([]byte, 2000)
			for {
				m, err := conn.Read(p)
				if errors.Is(err, net.ErrClosed) { // others tell of one datagram
					heard <- n
					return
				}
				n += m
			}
		}()
		random := rand.New(rand.NewPCG(9000, 21))
		sent := 0
		for range each {
			n, _ := conn.Write(datagram(random)) // what the kernel drops is dropped
			sent += n
		}
		if got := q.strand().send(get); got != "200" {
			t.Errorf("%s: a new client gets %s", name, got)
		}
		if got := old.send(get); got != "200" {
			t.Errorf("%s: an old one gets %s", name, got)
		}
		conn.Close()
		if n := <-heard; n > sent {
			t.Errorf("%s: %d bytes are answered with %d", name, sent, n)
		} else {
			t.Logf("%s: %d bytes are answered with %d; %d KiB", name, sent, n, grown(t, worker)-before)
		}
	}
	grownBy(t, worker, before+begun)
}
