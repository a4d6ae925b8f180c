package e2e

import (
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/testkit"
)

// wanderer does with streams of HTTP/3 what comes to its mind.
type wanderer struct {
	*strand
	random *rand.Rand
}

// request is a head with some content.
func (w *wanderer) request() []byte {
	paths := []string{"/seen", "/large", "/trailers", "/sum", "/nowhere"}
	method := []string{"GET", "POST", "HEAD"}[w.random.IntN(3)]
	b := head3(":method", method, ":scheme", "https", ":path", paths[w.random.IntN(len(paths))], ":authority", "localhost")
	if w.random.IntN(8) == 0 {
		b = head3(":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/seen", ":authority", "localhost")
	}
	if w.random.IntN(2) == 0 {
		b = append(b, frame3(data3, make([]byte, w.random.IntN(100_000)))...)
	}
	if w.random.IntN(8) == 0 {
		b = append(b, head3("check", "1")...)
	}
	return b
}

// wander does some things with a stream, whose end it says only where it may. They may all
// fail.
func (w *wanderer) wander(q *quic.Stream) {
	q.SetDeadline(time.Now().Add(100 * time.Millisecond))
	b := w.request()
	for range 1 + w.random.IntN(5) {
		switch w.random.IntN(5) {
		case 0:
			q.CancelRead(0x10c)
		case 1:
			q.CancelWrite(0x10c)
		case 2:
			io.CopyN(io.Discard, q, w.random.Int64N(1_000_000))
		default:
			n, _ := q.Write(b[:w.random.IntN(len(b)+1)])
			b = b[n:]
		}
	}
	if q.CancelRead(0x10c); len(b) > 0 {
		q.CancelWrite(0x10c)
	}
	q.Close()
}

// Clients of HTTP/3 begin requests, give them up at any moment and in any order, and leave.
// Others are served, and in the end nothing of it is left.
func TestStormOfHTTP3(t *testing.T) {
	t.Parallel()
	q := startHTTP3(t, "", farm(site(t), "admission: 50"))
	var all sync.WaitGroup
	for i := range 6 {
		random := rand.New(rand.NewPCG(uint64(i), 9114))
		for range 4 { // connections of each
			w := &wanderer{q.strand(), rand.New(rand.NewPCG(random.Uint64(), 0))}
			all.Go(func() {
				for range 60 {
					stream, err := w.OpenStreamSync(w.Context())
					if err != nil {
						t.Error(ending3(err))
						return
					}
					w.wander(stream)
				}
				if w.random.IntN(2) == 0 {
					w.CloseWithError(0x100, "")
				}
			})
		}
	}
	all.Wait()
	if got := q.strand().send(head3(":method", "GET", ":scheme", "https", ":path", "/seen", ":authority", "localhost")); got != "200" {
		t.Errorf("afterwards a client gets %s", got)
	}
	testkit.Eventually(t, "the servers are free", func() bool {
		st := q.status()
		return st.Farms[0].Servers[0].In_flight == 0 && st.Workers[0].Active == 0
	})
}
