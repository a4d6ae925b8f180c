package proxy

import (
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/reactor"
)

// TestTranscripts plays every transcript in virtual time.
func TestTranscripts(t *testing.T) {
	for _, sc := range scripts(t) {
		t.Run(sc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newVirtual()
				s := newStage(t, r, sc)
				defer r.finish()
				defer s.close()
				s.play(sc)
			})
		})
	}
}

// virtual is a rig over the simulation: nothing moves but when the test waits.
type virtual struct {
	*sim
	conns map[byte][]*simConn // servers' ends, by server
	modes map[byte]string
	all   []*simConn
	peers uint16
}

func newVirtual() *virtual {
	return &virtual{sim: newSim(), conns: map[byte][]*simConn{}, modes: map[byte]string{}}
}

// documentation is the network of all addresses here (RFC 5737).
const documentation = "192.0.2."

func (r *virtual) urls(n int) (urls []string) {
	for i := range n {
		urls = append(urls, "http://"+documentation+string(rune('1'+i)))
	}
	return urls
}

func (r *virtual) executor() reactor.Executor { return r.sim }
func (r *virtual) on(f func())                { r.do(f) }
func (r *virtual) wait(d time.Duration)       { <-time.After(d) } // of the bubble's time

// settled has everything come to rest, then looks.
func (r *virtual) settled(cond func() bool) bool {
	synctest.Wait()
	return cond()
}

func (r *virtual) dial(a reactor.Address, timeout time.Duration) (reactor.Stream, error) {
	letter := a.TCP.Addr().As4()[3] - 1 + 'a'
	switch r.modes[letter] {
	case "refuses":
		return nil, syscall.ECONNREFUSED
	case "hangs":
		for at := r.after(timeout); !r.sim.wait(at); {
		}
		return nil, os.ErrDeadlineExceeded
	}
	near, far := r.connect()
	r.all = append(r.all, near, far)
	r.conns[letter] = append(r.conns[letter], far)
	return near, nil
}

func (r *virtual) mode(letter byte, mode string) { r.do(func() { r.modes[letter] = mode }) }

func (r *virtual) client(s *stage) party {
	near, far := r.connect()
	r.peers++
	peer := netip.AddrPortFrom(netip.MustParseAddr(documentation+"100"), 5000+r.peers)
	r.do(func() {
		r.all = append(r.all, near, far)
		s.proxy.Serve(near, peer, s.script.secured, &s.script.listener)
	})
	return &actor{r, far}
}

func (r *virtual) server(letter byte, nth int) party {
	r.mu.Lock()
	defer r.mu.Unlock()
	if list := r.conns[letter]; nth <= len(list) {
		return &actor{r, list[nth-1]}
	}
	return nil
}

// finish ends every task, so that none outlives the test.
func (r *virtual) finish() {
	synctest.Wait()
	r.do(func() {
		for _, c := range r.all {
			c.failure = os.ErrClosed
			c.in.ended, c.out.ended = true, true
		}
	})
	r.tasks.Wait()
}

// actor is a party's end of a simulated connection.
type actor struct {
	r *virtual
	c *simConn
}

func (a *actor) send(text string) {
	for len(text) > 0 {
		synctest.Wait()
		a.r.do(func() {
			c := a.c
			if c.far.closed && !c.in.dead { // bytes that meet a closed socket
				c.far.reset()
			}
			if c.out.dead {
				text = ""
				return
			}
			n := min(len(text), c.out.window-len(c.out.sent))
			if n == 0 {
				panic("the transcript sends more than fits, and nobody reads")
			}
			c.out.sent = append(c.out.sent, text[:n]...)
			text = text[n:]
		})
	}
}

func (a *actor) event(what string) {
	synctest.Wait()
	a.r.do(func() {
		switch what {
		case "end":
			a.c.out.ended = true
		case "close":
			a.c.Close()
		case "reset":
			a.c.reset()
		default:
			panic("no such event: " + strings.TrimSpace(what))
		}
	})
}

func (a *actor) received() (text, ended string) {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	in := a.c.in
	switch {
	case in.dead:
		ended = "reset"
	case in.ended:
		ended = "end"
	}
	return string(in.sent), ended
}

func (a *actor) take(n int) {
	a.r.do(func() { a.c.in.sent = a.c.in.sent[n:] })
}
