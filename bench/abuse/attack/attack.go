// Package attack abuses a proxy by HTTP/1.1, HTTP/2, HTTP/3, TLS and QUIC, as those do who
// want it down: without pause, on several connections, and again at once on a new one
// when one ends.
//
// The classes are those of RFC 9113 10.5 and RFC 9114 10.5, the ones that got a CVE, and
// those that ask for much work or memory before a request is there.
package attack

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// Target is where a proxy listens, as HOST:PORT.
type Target struct {
	Plain  string // HTTP/1.1, and HTTP/2 by prior knowledge
	Secure string // both over TLS, and HTTP/3
}

// Class is a way to abuse a proxy.
type Class struct {
	Name  string
	Does  string // in a few words
	Hands int    // attackers at once, each with a connection of its own
	way   way
}

// way is one attack: from a new connection to its end, or to that of ctx.
type way func(ctx context.Context, h *hand)

// Find is the class of a name.
func Find(name string) (Class, bool) {
	i := slices.IndexFunc(Classes, func(c Class) bool { return c.Name == name })
	if i < 0 {
		return Class{}, false
	}
	return Classes[i], true
}

// Names are those of all classes.
func Names() []string {
	var all []string
	for _, c := range Classes {
		all = append(all, c.Name)
	}
	return all
}

// Tally is what attackers have done, and what became of their connections.
type Tally struct {
	Seconds     float64          `json:"seconds"`
	Connections int64            `json:"connections"` // that were there
	Refused     int64            `json:"refused"`     // that did not come about
	Strikes     int64            `json:"strikes"`     // frames, requests, drops, as the class has it
	Ends        map[string]int64 `json:"ends"`        // connections that the proxy ended, by its code
}

// Add adds what others have done, or did in another time.
func (t *Tally) Add(o Tally) {
	t.Seconds += o.Seconds
	t.Connections += o.Connections
	t.Refused += o.Refused
	t.Strikes += o.Strikes
	if t.Ends == nil {
		t.Ends = map[string]int64{}
	}
	for code, n := range o.Ends {
		t.Ends[code] += n
	}
}

// Codes are the codes in the order of how often they came.
func (t *Tally) Codes() []string {
	codes := slices.Sorted(maps.Keys(t.Ends))
	slices.SortStableFunc(codes, func(a, b string) int { return int(t.Ends[b] - t.Ends[a]) })
	return codes
}

// hand is one attacker. Its own goroutine only, but for the context of the attack.
type hand struct {
	target Target
	number int // from 0
	tally  Tally
}

// source is the address of attackers: another than that of users, who come from 127.0.0.1.
var source = net.IPv4(127, 0, 0, 66)

// refusedPause keeps an attacker that is refused from doing nothing but asking its own
// kernel.
const refusedPause = time.Millisecond

// Run attacks until ctx ends.
func Run(ctx context.Context, c Class, target Target) Tally {
	began := time.Now()
	hands := make([]*hand, c.Hands)
	var all sync.WaitGroup
	for i := range hands {
		h := &hand{target: target, number: i, tally: Tally{Ends: map[string]int64{}}}
		hands[i] = h
		all.Go(func() {
			for ctx.Err() == nil {
				c.way(ctx, h)
			}
		})
	}
	all.Wait()
	var sum Tally
	for _, h := range hands {
		sum.Add(h.tally)
	}
	sum.Seconds = time.Since(began).Seconds()
	return sum
}

// dial opens a connection that leaves nothing behind when it is closed: an attacker does
// not want its ports to wait (TIME_WAIT). nil: it is refused.
func (h *hand) dial(ctx context.Context, address string) *net.TCPConn {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: source}}
	conn, err := from.DialContext(ctx, "tcp", address)
	if err != nil {
		h.refused(ctx)
		return nil
	}
	h.tally.Connections++
	tcp := conn.(*net.TCPConn)
	tcp.SetLinger(0)
	return tcp
}

// refused notes a connection that did not come about.
func (h *hand) refused(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	h.tally.Refused++
	wait(ctx, refusedPause)
}

// ended notes the end of a connection that the proxy has brought about.
func (h *hand) ended(ctx context.Context, code string) {
	if ctx.Err() == nil {
		h.tally.Ends[code]++
	}
}

// wait waits for a time, or for the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
