package tlsconn

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// random is n bytes that are the same in each run.
func random(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

func TestEcho(t *testing.T) {
	each(t, func(t *testing.T, version uint16) {
		l := startLoop(t)
		s, peer, _ := meet(t, l, version)
		served := spawn(l, func() {
			p := make([]byte, 100)
			for {
				n, err := s.Read(p)
				if err != nil {
					if err != io.EOF {
						t.Errorf("read: %v", err)
					}
					s.Close()
					return
				}
				if _, err := s.Write(p[:n]); err != nil {
					t.Errorf("write: %v", err)
				}
			}
		})
		for _, word := range []string{"one", "two", string(random(50_000))} {
			got := make([]byte, len(word))
			go io.WriteString(peer, word)
			if _, err := io.ReadFull(peer, got); err != nil || string(got) != word {
				t.Fatalf("%d bytes did not come back: %v", len(word), err)
			}
		}
		peer.CloseWrite()
		if n, err := peer.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("the peer reads %d, %v; want the end", n, err)
		}
		await(t, "the session ends", served)
	})
}

// Much goes both ways at once, through small socket buffers, while both ends only
// read once they have written all: nobody may wait for the other inside crypto/tls.
func TestBothWaysAtOnce(t *testing.T) {
	const size = 3 << 20
	each(t, func(t *testing.T, version uint16) {
		l := startLoop(t)
		s, peer, far := meet(t, l, version)
		far.SetReadBuffer(32 << 10)
		far.SetWriteBuffer(32 << 10)
		up, down := random(size), random(size+1)
		written := spawn(l, func() {
			if n, err := s.Write(down); n != len(down) || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
		})
		read := spawn(l, func() {
			got := make([]byte, size)
			if _, err := io.ReadFull(s, got); err != nil || !bytes.Equal(got, up) {
				t.Errorf("what the peer sent did not come: %v", err)
			}
		})
		go peer.Write(up)
		got := make([]byte, len(down))
		if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, down) {
			t.Errorf("the peer did not get what was written: %v", err)
		}
		await(t, "the writer ends", written)
		await(t, "the reader ends", read)
		inTask(t, l, func() { s.Close() })
	})
}

// A stream that ends without close_notify has been cut.
func TestEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(peer interface{ CloseWrite() error }, far *net.TCPConn)
		want error
	}{
		{"close_notify", func(peer interface{ CloseWrite() error }, _ *net.TCPConn) { peer.CloseWrite() }, io.EOF},
		{"close_notify and FIN", func(peer interface{ CloseWrite() error }, far *net.TCPConn) { peer.CloseWrite(); far.CloseWrite() }, io.EOF},
		{"FIN alone", func(_ interface{ CloseWrite() error }, far *net.TCPConn) { far.CloseWrite() }, io.ErrUnexpectedEOF},
		{"FIN within a record", func(_ interface{ CloseWrite() error }, far *net.TCPConn) {
			far.Write([]byte{23, 3, 3, 0, 100, 1, 2, 3})
			far.CloseWrite()
		}, io.ErrUnexpectedEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			each(t, func(t *testing.T, version uint16) {
				l := startLoop(t)
				s, peer, far := meet(t, l, version)
				peer.Write([]byte("last words"))
				tc.end(peer, far)
				inTask(t, l, func() {
					all, err := io.ReadAll(s)
					if string(all) != "last words" || err != tc.want && !(err == nil && tc.want == io.EOF) {
						t.Errorf("read %q, %v; want %v", all, err, tc.want)
					}
					if _, err := s.Read(make([]byte, 1)); err != tc.want {
						t.Errorf("a later read says %v", err)
					}
					if !s.Ready() || s.Await() != nil || !s.Ended() {
						t.Error("it seems not to have ended")
					}
					s.Close()
				})
			})
		})
	}
}

func TestReadDeadline(t *testing.T) {
	l := startLoop(t)
	s, _, far := meet(t, l, 0)
	far.Write([]byte{23, 3, 3})
	inTask(t, l, func() {
		s.SetReadTimeout(time.Millisecond)
		if _, err := s.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		if err := s.Await(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("await: %v", err)
		}
		s.Close()
	})
}

// After Abort and after Close nothing is read any more, though it has come.
func TestNothingIsReadAfterTheEnd(t *testing.T) {
	gone := errors.New("gone")
	for _, tc := range []struct {
		name string
		end  func(s *Stream)
		want error
	}{
		{"Abort", func(s *Stream) { s.Abort(gone); s.Abort(errors.New("again")) }, gone},
		{"Close", func(s *Stream) { s.Close() }, net.ErrClosed},
		{"Linger", func(s *Stream) { s.Linger(time.Second) }, net.ErrClosed},
		{"Reset", (*Stream).Reset, net.ErrClosed},
	} {
		l := startLoop(t)
		s, peer, _ := meet(t, l, 0)
		peer.Write(random(50_000))
		inTask(t, l, func() {
			if _, err := s.Read(make([]byte, 10)); err != nil {
				t.Errorf("%s: read: %v", tc.name, err)
			}
			tc.end(s)
			if n, err := s.Read(make([]byte, 10)); n != 0 || err != tc.want {
				t.Errorf("%s: then a read gives %d bytes, %v", tc.name, n, err)
			}
			if _, err := s.Write([]byte("x")); err == nil {
				t.Errorf("%s: a write succeeds", tc.name)
			}
			if !s.Ready() || !s.Ended() || s.block != nil {
				t.Errorf("%s: it seems to go on", tc.name)
			}
			s.Close()
		})
	}
}

// A large record is read into a buffer that is borrowed, also by halves; a handshake that
// is aborted while it waits within a record leaves crypto/tls its own.
func TestBorrowedBuffers(t *testing.T) {
	each(t, func(t *testing.T, version uint16) {
		l := startLoop(t)
		s, peer, _ := meet(t, l, version)
		content := random(16 << 10)
		for range 3 {
			if _, err := peer.Write(content); err != nil {
				t.Fatal(err)
			}
			inTask(t, l, func() {
				got := make([]byte, len(content))
				if _, err := io.ReadFull(s, got[:5000]); err != nil {
					t.Error(err)
				}
				if s.lent == nil {
					t.Error("no buffer is borrowed for it")
				}
				s.rest() // what is decrypted and not delivered stays
				if _, err := io.ReadFull(s, got[5000:]); err != nil || !bytes.Equal(got, content) {
					t.Errorf("what came is not what was sent: %v", err)
				}
				if s.rest(); s.lent != nil {
					t.Error("the buffer has not come back")
				}
			})
		}
		inTask(t, l, func() { s.Close() })
	})
}

func TestAbortWithinAHandshake(t *testing.T) {
	l := startLoop(t)
	server, _ := both(t, 0)
	near, far := tcpPair(t)
	s := Server(adopt(t, l, near), server)
	gone := errors.New("gone")
	shaken := spawn(l, func() {
		if err := s.Handshake(); !errors.Is(err, gone) {
			t.Errorf("handshake: %v", err)
		}
	})
	far.Write([]byte{22, 3, 1, 2, 0, 1, 0, 1})
	eventually(t, l, "it waits for the rest", func() bool { return len(s.aside) == 8 })
	on(t, l, func() { s.Abort(gone) })
	await(t, "the handshake ends", shaken)
	inTask(t, l, func() { s.Close() })
}

// A reset is no end that the peer could take for the content's.
func TestReset(t *testing.T) {
	l := startLoop(t)
	s, peer, _ := meet(t, l, 0)
	inTask(t, l, func() {
		s.Write([]byte("half"))
		s.Reset()
	})
	if all, err := io.ReadAll(peer); err == nil {
		t.Errorf("the peer takes %q for the whole", all)
	}
}
