package reactor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// Two tasks write through one tls.Conn to a peer that does not read. The first
// waits for the peer; the second must not wait for the first inside crypto/tls,
// whose mutex would stop the loop.
func TestWritersUnderTLS(t *testing.T) {
	const size = 16 << 20
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	b := Buffer(c)
	server := tls.Server(b, selfSigned(t))
	client := tls.Client(far, &tls.Config{InsecureSkipVerify: true})

	shaken := spawn(l, func() {
		if err := server.Handshake(); err != nil {
			t.Error(err)
		}
		b.Flush()
	})
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	await(t, "the handshake ends", shaken)

	big := random(size)
	first := spawn(l, func() {
		server.Write(big)
		if err := b.Flush(); err != nil {
			t.Error(err)
		}
	})
	eventually(t, l, "the first writer waits for the peer", func() bool { return c.writer != nil })
	second := spawn(l, func() {
		server.Write([]byte("and the second"))
		b.Flush()
	})
	await(t, "the second writer goes on", second)
	on(t, l, func() {
		if b.Pending() == 0 {
			t.Error("nothing is gathered although the peer does not read")
		}
	})
	got := make([]byte, size+len("and the second"))
	if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got[:size], big) || string(got[size:]) != "and the second" {
		t.Errorf("the peer did not get what both wrote, in order: %v", err)
	}
	await(t, "the first writer ends", first)
	inTask(t, l, func() { server.Close() })
}

// A session over TLS: the handshake is sent by the task that reads.
func TestSessionUnderTLS(t *testing.T) {
	l := startLoop(t, Options{})
	config := selfSigned(t)
	_, addr := serveOn(t, l, func(c *Conn) {
		l.Go(jobFunc(func() {
			defer c.Close()
			b := Buffer(c)
			s := tls.Server(b, config)
			p := make([]byte, 100)
			for {
				n, err := s.Read(p)
				if err != nil {
					return
				}
				s.Write(p[:n])
				b.Flush()
			}
		}))
	})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := tls.Client(dial(t, addr), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		for _, word := range []string{"one", "two", "three"} {
			say(t, c, word)
		}
	}
}

// selfSigned is a server's configuration with a certificate made for the test.
func selfSigned(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

// Write never waits. Pieces that are written while a flush waits are sent after
// it, in order.
func TestBufferedKeepsOrder(t *testing.T) {
	const piece, pieces = 1 << 20, 12
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	b := Buffer(c)
	all := random(piece * pieces)
	for i := range pieces {
		on(t, l, func() { b.Write(all[i*piece:][:piece]) }) // outside any task: a wait would panic
		spawn(l, func() { b.Flush() })
	}
	got := make([]byte, len(all))
	if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, all) {
		t.Errorf("the peer did not get what was written: %v", err)
	}
	eventually(t, l, "nothing is left", func() bool { return b.Pending() == 0 && !b.flushing })
	on(t, l, func() { b.Close() })
}

// After a flush has failed, a part of the stream is missing: nothing more is
// sent, though what the peer has sent can still be read.
func TestBufferedFails(t *testing.T) {
	for _, tc := range []struct {
		name string
		fail func(l *Loop, c *Conn, far *net.TCPConn)
		want []error
	}{
		{"the peer takes nothing for too long", func(_ *Loop, c *Conn, _ *net.TCPConn) { c.SetWriteTimeout(1) }, []error{os.ErrDeadlineExceeded}},
		{"the peer is gone", func(_ *Loop, _ *Conn, far *net.TCPConn) { far.SetLinger(0); far.Close() }, []error{syscall.ECONNRESET, syscall.EPIPE}},
		{"closed", func(_ *Loop, c *Conn, _ *net.TCPConn) { c.Close() }, []error{net.ErrClosed}},
		{"aborted", func(_ *Loop, c *Conn, _ *net.TCPConn) { c.Abort(os.ErrInvalid) }, []error{os.ErrInvalid}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t, Options{})
			c, far := tcpConn(t, l)
			b := Buffer(c)
			flushing := spawn(l, func() {
				b.Write(make([]byte, 16<<20))
				mustFail(t, "flush", b.Flush(), tc.want...)
			})
			eventually(t, l, "the flush waits", func() bool { return c.writer != nil })
			on(t, l, func() { tc.fail(l, c, far) })
			await(t, "the flush ends", flushing)
			inTask(t, l, func() {
				c.SetWriteTimeout(0)
				_, err := b.Write([]byte("x"))
				mustFail(t, "a later write", err, tc.want...)
				mustFail(t, "a later flush", b.Flush(), tc.want...)
			})
		})
	}
}

// What the peer said before the flush failed is still read.
func TestBufferedReadsAfterFailedFlush(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	b := Buffer(c)
	inTask(t, l, func() {
		b.SetWriteTimeout(1)
		b.Write(make([]byte, 16<<20))
		mustFail(t, "flush", b.Flush(), os.ErrDeadlineExceeded)
	})
	far.Write([]byte("too much"))
	inTask(t, l, func() {
		p := make([]byte, 64)
		if n, err := b.Read(p); string(p[:n]) != "too much" || err != nil {
			t.Errorf("read %q, %v", p[:n], err)
		}
	})
}
