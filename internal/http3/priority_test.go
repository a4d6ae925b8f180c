package http3

import (
	"io"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/http2"
	"sluice/internal/message"
)

// update is PRIORITY_UPDATE of a request.
func update(id uint64, priority string) string {
	payload := string(appendVarint(nil, id)) + priority
	return string(appendFrame(nil, framePriority, len(payload))) + payload
}

// control opens a client's control stream, on which text stands behind SETTINGS.
func control(t *testing.T, c *quic.Conn, text string) *quic.SendStream {
	t.Helper()
	s, err := c.OpenUniStream()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(s, "\x00\x04\x00"+text)
	return s
}

// Of two answers that wait to be sent the more urgent goes first, whether a field says so,
// or PRIORITY_UPDATE before the request or during it; and that says more than the field.
// The client's window for both is shut until both wait, and opens only as one is read: if
// anything of the other came meanwhile, it would shut for good.
func TestPriority(t *testing.T) {
	const size, window = 60 << 10, 16 << 10
	for _, tc := range []struct {
		name          string
		fields        [2][]string // of the requests
		before, after string      // on the control stream, before and after the second request
		first         int         // that is whole
	}{
		{"by fields", [2][]string{{"priority: u=5"}, {"priority: u=1"}}, "", "", 1},
		{"an update before", [2][]string{}, update(4, "u=0"), "", 1},
		{"an update after", [2][]string{}, "", update(4, "u=0,i"), 1},
		{"an update and a field", [2][]string{{"priority: u=5"}, {"priority: u=7"}}, update(4, "u=1"), "", 1},
		{"an update of the first", [2][]string{{"priority: u=0"}, {"priority: u=4"}}, "", update(0, "u=6"), 1},
		{"the less urgent second", [2][]string{{"priority: u=4"}, {"priority: u=5"}}, "", "", 0},
		{"in their order", [2][]string{{"priority: u=4"}, {"priority: u=4"}}, "", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			served := make(chan *Stream, 2)
			st := newSite(t, config(), func(s *Stream) {
				s.Respond(&message.Response{Status: 200, ContentLength: -1}, false)
				s.Write(make([]byte, size))
				s.End(nil)
				served <- s
				s.Close()
			})
			c, err := quic.DialAddr(t.Context(), st.addr.String(), st.trust, &quic.Config{
				InitialConnectionReceiveWindow: window, MaxConnectionReceiveWindow: window,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.CloseWithError(0x100, "")
			ours := control(t, c, tc.before)
			if tc.before != "" {
				st.awaits(func() bool { return st.knows() == 1 })
			}
			var answers [2]*quic.Stream
			for i := range answers {
				if answers[i], err = c.OpenStreamSync(t.Context()); err != nil {
					t.Fatal(err)
				}
				answers[i].SetDeadline(time.Now().Add(patience))
				io.WriteString(answers[i], head("GET", tc.fields[i]...))
				answers[i].Close()
				s := <-served
				st.awaits(func() bool { return s.out.size() == 0 }) // quic-go has it
			}
			if io.WriteString(ours, tc.after); tc.after != "" {
				st.awaits(func() bool { return st.knows() == 1 })
			}
			if _, err := io.ReadFull(answers[0], make([]byte, window/2)); err != nil { // what came while it was alone
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, answers[tc.first]); err != nil {
				t.Errorf("after %d bytes of answer %d the window is shut by the other: %v", n, tc.first, err)
			}
			if _, err := io.Copy(io.Discard, answers[1-tc.first]); err != nil {
				t.Error(err)
			}
		})
	}
}

// What is said of requests that have not begun, and those that are over, takes no room.
func TestPrioritiesKept(t *testing.T) {
	c := &Conn{cfg: config(), next: 40}
	for id := quic.StreamID(0); id < 4000; id += 4 {
		c.tell(id, http2.Priority{})
	}
	if len(c.told) != c.cfg.Streams {
		t.Errorf("%d are kept, want %d", len(c.told), c.cfg.Streams)
	}
}

// awaits returns once something has come about.
func (st *site) awaits(what func() bool) {
	st.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.Now().Add(patience); !what(); <-tick.C {
		if time.Now().After(late) {
			st.t.Fatal("it does not come about")
		}
	}
}

// knows is of how many requests PRIORITY_UPDATE has told.
func (st *site) knows() (n int) {
	st.server.mu.Lock()
	defer st.server.mu.Unlock()
	for c := range st.server.conns {
		c.mu.Lock()
		n += len(c.told)
		c.mu.Unlock()
	}
	return n
}
