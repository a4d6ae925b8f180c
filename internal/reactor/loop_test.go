package reactor

import (
	"io"
	"net"
	"testing"
)

// echo is the smallest session: it holds no task while its client is silent.
type echo struct {
	Stream
	buf [512]byte
}

func (e *echo) Run() {
	for e.Ready() {
		n, err := e.Read(e.buf[:])
		if err != nil {
			e.Close()
			return
		}
		if _, err := e.Write(e.buf[:n]); err != nil {
			e.Close()
			return
		}
	}
	e.Idle(e)
}

// startLoop runs a loop until the test ends.
func startLoop(t *testing.T, opts Options) *Loop {
	t.Helper()
	l, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	go l.Run()
	t.Cleanup(l.Close)
	return l
}

// serveOn listens on loopback and hands every connection to take on l.
func serveOn(t *testing.T, l *Loop, take func(*Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close(); ln.Close() })
	started := make(chan error)
	l.Submit(func() { _, err := l.Listen(int(file.Fd()), take); started <- err })
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	return ln.Addr().String()
}

func TestEcho(t *testing.T) {
	l := startLoop(t, Options{})
	addr := serveOn(t, l, func(c *Conn) { c.Idle(&echo{Stream: c}) })
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, word := range []string{"one", "two", "three"} {
		io.WriteString(c, word)
		got := make([]byte, len(word))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
			t.Fatalf("sent %q, got %q, %v", word, got, err)
		}
	}
}
