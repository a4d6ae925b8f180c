package tlsconn

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/reactor"
)

// cutter cuts what is written into two where it has cut bytes. The two arrive apart:
// a net.Pipe keeps writes apart.
type cutter struct {
	net.Conn
	cut  int
	sent []byte
}

func (c *cutter) Write(p []byte) (int, error) {
	at := c.cut - len(c.sent)
	c.sent = append(c.sent, p...)
	if at <= 0 || at >= len(p) {
		return c.Conn.Write(p)
	}
	if n, err := c.Conn.Write(p[:at]); err != nil {
		return n, err
	}
	n, err := c.Conn.Write(p[at:])
	return at + n, err
}

// cuts are the places where a stream of records is cut: at each byte of a header and
// about it, and at some of the content.
func cuts(stream []byte) (all []int) {
	next := 0
	for i := range stream {
		if i == next+headerBytes+2 {
			next += recordBytes(stream[next:])
		}
		if i >= next-2 || i%29 == 0 {
			all = append(all, i)
		}
	}
	return all
}

// Wherever the client's bytes are cut in two, the same arrives: its handshake, its
// content, its close_notify. Streams run on goroutines as well.
func TestEverySplit(t *testing.T) {
	content := random(700)
	each(t, func(t *testing.T, version uint16) {
		server, client := both(t, version)
		client.CurvePreferences = []tls.CurveID{tls.X25519} // a short ClientHello: fewer cuts
		converse := func(cut int) (sent []byte) {
			near, far := net.Pipe()
			wire := &cutter{Conn: far, cut: cut}
			peer := tls.Client(wire, client)
			g := reactor.NewGoroutines()
			g.Go(jobFunc(func() { echoAll(t, Server(reactor.Blocking(near), server)) }))
			g.Go(jobFunc(func() {
				for _, piece := range [][]byte{content[:1], content[1:300], content[300:]} {
					peer.Write(piece)
				}
				peer.CloseWrite()
			}))
			got, err := io.ReadAll(peer)
			if err != nil || !bytes.Equal(got, content) {
				t.Fatalf("cut at %d of %d: %d bytes came back, %v", cut, len(wire.sent), len(got), err)
			}
			far.Close()
			g.Wait()
			return wire.sent
		}
		all := cuts(converse(0))
		for _, cut := range all {
			converse(cut)
		}
		if len(all) < 60 {
			t.Errorf("only %d cuts", len(all))
		}
	})
}

// echoAll sends back what comes until the end.
func echoAll(t *testing.T, s *Stream) {
	if err := s.Handshake(); err != nil {
		t.Error(err)
		return
	}
	p := make([]byte, 100)
	for {
		if err := s.Await(); err != nil {
			t.Error(err)
			return
		}
		n, err := s.Read(p)
		s.Write(p[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	s.Close()
}

// Content of any size in pieces of any size, read with buffers of any size, with Ready
// and Await between: nothing is lost, doubled or reordered, and what Ready denies is
// not there.
func TestAnySizes(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := startLoop(t)
		s, peer, _ := meet(t, l, [...]uint16{tls.VersionTLS12, tls.VersionTLS13}[seed%2])
		content := random(1 + r.IntN(300_000))
		sizes := rand.New(rand.NewPCG(seed, 2))
		go func() {
			for rest := content; len(rest) > 0; {
				n := min(len(rest), 1+sizes.IntN(1+sizes.IntN(40_000)))
				if _, err := peer.Write(rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
			peer.CloseWrite()
		}()
		inTask(t, l, func() {
			var got []byte
			for {
				ready := s.Ready()
				if !ready && r.IntN(2) == 0 {
					if err := s.Await(); err != nil {
						t.Errorf("seed %d: await: %v", seed, err)
					}
					ready = true
				}
				p := make([]byte, 1+r.IntN(1+r.IntN(80_000)))
				if ready {
					s.SetReadTimeout(time.Nanosecond) // it must not wait
				}
				n, err := s.Read(p)
				s.SetReadTimeout(0)
				got = append(got, p[:n]...)
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Errorf("seed %d: %v after %d bytes", seed, err, len(got))
					break
				}
			}
			if !bytes.Equal(got, content) {
				t.Errorf("seed %d: %d bytes came of %d, or others", seed, len(got), len(content))
			}
			s.Close()
		})
	}
}

// Two streams that talk on one loop, both ways at once, through sockets that hold
// little.
func TestBothEndsOnOneLoop(t *testing.T) {
	const size = 1 << 20
	each(t, func(t *testing.T, version uint16) {
		l := startLoop(t)
		a, b := socketPair(t)
		server, client := both(t, version)
		ends := []*Stream{Server(adopt(t, l, a), server), Client(adopt(t, l, b), client)}
		var done []<-chan struct{}
		for _, s := range ends {
			done = append(done, spawn(l, func() {
				if err := s.Handshake(); err != nil {
					t.Error(err)
				}
			}))
		}
		for _, d := range done {
			await(t, "the handshake ends", d)
		}
		content := random(size)
		done = nil
		for _, s := range ends {
			done = append(done, spawn(l, func() {
				if _, err := s.Write(content); err != nil {
					t.Error(err)
				}
			}), spawn(l, func() {
				got := make([]byte, size)
				if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, content) {
					t.Errorf("what came is not what was sent: %v", err)
				}
			}))
		}
		for _, d := range done {
			await(t, "all has come", d)
		}
		inTask(t, l, func() { ends[0].Close(); ends[1].Close() })
	})
}

// forger seals records of TLS 1.3 with a client's key (RFC 8446 5.2, 7.3): crypto/tls
// does not send what a hostile client would.
type forger struct {
	secret []byte
	aead   cipher.AEAD
	iv     []byte
	seq    uint64
}

// newForger takes over from peer, which must not have sent content.
func newForger(t *testing.T, peer *tls.Conn, keyLog string) *forger {
	t.Helper()
	if peer.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Fatal("this test knows AES-128-GCM only")
	}
	for line := range strings.Lines(keyLog) {
		if words := strings.Fields(line); words[0] == "CLIENT_TRAFFIC_SECRET_0" {
			secret, err := hex.DecodeString(words[2])
			if err != nil {
				t.Fatal(err)
			}
			f := &forger{}
			f.use(secret)
			return f
		}
	}
	t.Fatal("the client's secret is not in the log")
	return nil
}

// expand is HKDF-Expand-Label (RFC 8446 7.1) without context.
func expand(secret []byte, label string, n int) []byte {
	label = "tls13 " + label
	info := append([]byte{0, byte(n), byte(len(label))}, label...)
	out, err := hkdf.Expand(sha256.New, secret, string(append(info, 0)), n)
	if err != nil {
		panic(err)
	}
	return out
}

func (f *forger) use(secret []byte) {
	f.secret, f.iv, f.seq = secret, expand(secret, "iv", 12), 0
	block, err := aes.NewCipher(expand(secret, "key", 16))
	if err == nil {
		f.aead, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic(err)
	}
}

// record seals content of a type.
func (f *forger) record(kind byte, content ...byte) []byte {
	nonce := bytes.Clone(f.iv)
	for i := range 8 {
		nonce[11-i] ^= byte(f.seq >> (8 * i))
	}
	f.seq++
	n := len(content) + 1 + f.aead.Overhead()
	head := []byte{23, 3, 3, byte(n >> 8), byte(n)}
	return f.aead.Seal(head, nonce, append(content, kind), head)
}

// keyUpdate asks for a new key of ours, and announces the client's (RFC 8446 4.6.3).
func (f *forger) keyUpdate() []byte {
	r := f.record(handshakeType, 24, 0, 0, 1, 1)
	f.use(expand(f.secret, "traffic upd", 32))
	return r
}

// meetForger is a stream whose client is a forger, over a socket that holds little of
// what we send. (A TCP socket with such a buffer stalls by itself: what comes beyond its
// window is dropped with the acknowledgement in it.)
func meetForger(t *testing.T, l *reactor.Loop) (*Stream, *forger, net.Conn) {
	t.Helper()
	var keyLog bytes.Buffer
	server, client := both(t, tls.VersionTLS13)
	server.SessionTicketsDisabled = true
	client.KeyLogWriter = &keyLog
	near, other := socketPair(t)
	file := os.NewFile(uintptr(other), "socket")
	far, err := net.FileConn(file)
	file.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	s := Server(adopt(t, l, near), server)
	peer := tls.Client(far, client)
	greet(t, l, s, peer, far)
	return s, newForger(t, peer, keyLog.String()), far
}

// Records without content are worth no wake-up; too many of them end the connection.
func TestRecordsWithoutContent(t *testing.T) {
	for _, tc := range []struct {
		name   string
		record func(f *forger) []byte
		most   int // that are taken

		answers int // bytes that they are answered with
	}{
		{"KeyUpdate", (*forger).keyUpdate, 16, 16 * (headerBytes + 5 + 1 + 16)},
		{"empty", func(f *forger) []byte { return f.record(23) }, 16, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t)
			s, f, far := meetForger(t, l)
			ran := rest(t, l, s)
			var all []byte
			for range tc.most {
				all = append(all, tc.record(f)...)
			}
			far.Write(all)
			eventually(t, l, "all were taken", func() bool { return !s.sock.Ready() && s.unread() == nil })
			on(t, l, func() {
				if len(ran) > 0 || s.Ready() {
					t.Error("the job ran, and there is nothing to read")
				}
			})
			if tc.answers > 0 { // though nobody writes
				if _, err := io.ReadFull(far, make([]byte, tc.answers)); err != nil {
					t.Errorf("the answers have not come: %v", err)
				}
			}
			far.Write(tc.record(f))
			await(t, "the connection ends", ran)
			inTask(t, l, func() {
				if _, err := s.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "too many") {
					t.Errorf("read: %v", err)
				}
				s.Close()
			})
		})
	}
}

// A client that asks for new keys again and again, with a byte of content between lest
// crypto/tls lose its patience, and reads none of the answers, is cut off before they
// take much memory.
func TestKeyUpdateFlood(t *testing.T) {
	l := startLoop(t)
	s, f, far := meetForger(t, l)
	flooded := make(chan int, 1)
	go func() {
		n := 0
		for ; n < 200_000; n++ {
			if _, err := far.Write(append(f.keyUpdate(), f.record(23, 'x')...)); err != nil {
				break
			}
		}
		flooded <- n
	}()
	inTask(t, l, func() {
		p := make([]byte, 1000)
		for {
			_, err := s.Read(p)
			if pending := s.sock.Pending(); pending > mostAnswers+2000 {
				t.Errorf("%d bytes of answers are held", pending)
			}
			if err != nil {
				if !errors.Is(err, errDeaf) {
					t.Errorf("read: %v", err)
				}
				break
			}
		}
		s.Close()
	})
	if n := await(t, "the flood ends", flooded); n == 200_000 {
		t.Error("it was never cut off")
	}
}

// A record that is too long for TLS is refused by its header, before its content has
// come.
func TestOverlongRecord(t *testing.T) {
	each(t, func(t *testing.T, version uint16) {
		l := startLoop(t)
		s, _, far := meet(t, l, version)
		ran := rest(t, l, s)
		far.Write([]byte{23, 3, 3, 0x48, 0x01})
		await(t, "the connection ends", ran)
		inTask(t, l, func() {
			if _, err := s.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "oversized") {
				t.Errorf("read: %v", err)
			}
			s.Close()
		})
	})
}
