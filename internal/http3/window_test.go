package http3

import (
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/message"
)

// A client that goes on opening the window of its stream, but by too little, loses the
// stream: each piece in time is not enough.
func TestDribble(t *testing.T) {
	cfg := config()
	cfg.Rate = 1 << 20
	wrote := make(chan error, 1)
	st := newSite(t, cfg, func(s *Stream) {
		s.SetStall(200 * time.Millisecond)
		s.Respond(&message.Response{Status: 200, ContentLength: -1}, false)
		for {
			if _, err := s.Write(make([]byte, 32<<10)); err != nil {
				wrote <- err
				s.Close()
				return
			}
		}
	})
	c, err := quic.DialAddr(t.Context(), st.addr.String(), st.trust, &quic.Config{InitialStreamReceiveWindow: 1000, MaxStreamReceiveWindow: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseWithError(0x100, "")
	s, err := c.OpenStreamSync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.SetDeadline(time.Now().Add(patience))
	io.WriteString(s, head("GET"))
	s.Close()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	total := 0
	for b := make([]byte, 500); err == nil; <-tick.C { // 8 KiB in 80 ms, and 64 KiB in 640 ms
		n := 0
		n, err = io.ReadFull(s, b)
		total += n
	}
	if got := ending(err); got != "reset: H3_REQUEST_CANCELLED" || total > 2*outboxRoom {
		t.Errorf("after %d bytes: %s", total, got)
	}
	if err := <-wrote; err == nil {
		t.Error("who writes is not told")
	}
	st.onLoop(func() {
		if n := st.events[Stalled].Load() + st.server.events[Stalled].Load(); n != 1 {
			t.Errorf("counted %d times", n)
		}
	})
}

// onLoop runs f on the loop, and returns when it has run.
func (st *site) onLoop(f func()) {
	done := make(chan struct{})
	st.loop.Submit(func() { defer close(done); f() })
	<-done
}
