package upstream

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice/internal/reactor"
)

const (
	// resolveEvery stands in for the TTL, which the system's resolver does not
	// tell: a changed record is seen within this time.
	resolveEvery = 30 * time.Second
	// resolveAgain is for names that have no address yet: a server that starts
	// after us is found within this time.
	resolveAgain = time.Second
	// resolveWithin bounds one lookup.
	resolveWithin = 5 * time.Second
	// firstWithin bounds how long the first lookups may hold up a start or a
	// reload; names that take longer come later.
	firstWithin = 2 * time.Second
)

// lookup finds the addresses of a host, as net.Resolver.LookupNetIP does.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

// resolver keeps the addresses of servers that are configured by name fresh.
type resolver struct {
	lookup lookup // immutable
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	states []*State // those with a name to look up
}

func newResolver(lookup lookup) *resolver {
	ctx, cancel := context.WithCancel(context.Background())
	r := &resolver{lookup: lookup, cancel: cancel}
	r.ended.Go(func() { r.refresh(ctx) })
	return r
}

func (r *resolver) close() {
	r.cancel()
	r.ended.Wait()
}

// watch sets which servers are kept fresh, and gives each its first addresses.
func (r *resolver) watch(states map[int]*State) {
	var named []*State
	for _, s := range states {
		if !s.fixed() {
			named = append(named, s)
		}
	}
	r.mu.Lock()
	r.states = named
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), firstWithin)
	defer cancel()
	var first sync.WaitGroup
	for _, s := range named {
		if s.addresses.Load() == nil {
			first.Go(func() { r.resolve(ctx, s) })
		}
	}
	first.Wait()
}

// fixed sets the address of a server that needs no lookup.
func (s *State) fixed() bool {
	a := reactor.Address{}
	if s.network == "unix" {
		a.Path = s.address
	} else if ap, err := netip.ParseAddrPort(s.address); err == nil {
		a.TCP = ap
	} else {
		return false
	}
	s.addresses.Store(&[]reactor.Address{a})
	return true
}

// refresh looks names up again and again: at each tick those without an address,
// and all of them every resolveEvery.
func (r *resolver) refresh(ctx context.Context) {
	tick := time.NewTicker(resolveAgain)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			all := now.Sub(last) >= resolveEvery
			if all {
				last = now
			}
			r.pass(ctx, all)
		}
	}
}

// pass looks all names up, or those without an address, side by side: one dead
// name server must not hold up the other names.
func (r *resolver) pass(ctx context.Context, all bool) {
	r.mu.Lock()
	states := r.states
	r.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, resolveWithin)
	defer cancel()
	var lookups sync.WaitGroup
	for _, s := range states {
		if all || s.addressCount() == 0 {
			lookups.Go(func() { r.resolve(within, s) })
		}
	}
	lookups.Wait()
}

// resolve looks one name up. If that fails the old addresses stay: a name
// server's trouble need not become ours.
func (r *resolver) resolve(ctx context.Context, s *State) {
	host, service, err := net.SplitHostPort(s.address)
	if err != nil {
		return
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return
	}
	ips, err := r.lookup(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return
	}
	list := make([]reactor.Address, 0, len(ips))
	for _, ip := range ips {
		list = append(list, reactor.Address{TCP: netip.AddrPortFrom(ip.Unmap(), uint16(port))})
	}
	slices.SortStableFunc(list, func(a, b reactor.Address) int { return a.TCP.Compare(b.TCP) })
	s.addresses.Store(&list)
}
