package upstream

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/segment"
)

// Farm is a set of servers that answer the same requests. Immutable.
type Farm struct {
	config.Farm
	Index   int // among the farms of its configuration
	Spill   int // percent points: config.Farm.Spill.Threshold; negative: off
	Servers []*Server
}

// Server is one backend as one configuration sees it. Immutable, save State.
type Server struct {
	*State
	Farm      *Farm
	Weight    int
	Authority []byte // host:port, as Host if farms.host is server
}

// State is what is known of a server in this worker. It stays over reloads as
// long as the server is configured.
type State struct {
	Slot    int // in the segment
	URL     string
	network string        // tcp or unix
	address string        // host:port or path
	home    *segment.Home // nil: nothing is known of nodes
	nodes   []int         // of this worker
	farm    string

	protocol string // what the farm says of it

	security atomic.Pointer[security] // nil: it is spoken to without TLS
	sessions sessions
	trouble  told

	addresses atomic.Pointer[[]reactor.Address] // resolver writes; nil: not yet known
	turn      atomic.Uint32                     // which address is next
	open      atomic.Int64                      // connections of all loops
	waiting   atomic.Int64                      // tasks of all loops that wait for one of these
	skipUntil atomic.Int64                      // executor time; not chosen before, if there is another
	failed    atomic.Uint32                     // what home.Starts was when that was set
	shares    atomic.Bool                       // requests share connections (HTTP/2): it is to, or has agreed to
	gone      atomic.Bool                       // no longer configured: its connections are not kept
}

// Fail has the server skipped for d from now (executor time, ns), or until it is
// started anew, if that can be seen.
func (s *State) Fail(now int64, d time.Duration) {
	s.failed.Store(s.home.Starts())
	s.skipUntil.Store(now + int64(d))
}

// Succeed ends the skipping.
func (s *State) Succeed() {
	if s.skipUntil.Load() != 0 {
		s.skipUntil.Store(0)
	}
}

// Skipped reports whether the server has failed lately.
func (s *State) Skipped(now int64) bool {
	return s.skipUntil.Load() > now && s.failed.Load() == s.home.Starts()
}

// Settle tells, before the server is used, the NUMA nodes of this worker, and where
// the server's own stands. Without it the server has none.
func (s *State) Settle(nodes []int, home *segment.Home) { s.nodes, s.home = nodes, home }

// Node is the NUMA node that the server runs on; -1: none, or not known.
func (s *State) Node() int { return s.home.Node() }

// Near reports whether requests of this worker are to go to the server before they
// go to others: it runs on a node of the worker, or on none, or the worker has none.
func (s *State) Near() bool {
	node := s.home.Node()
	return node < 0 || len(s.nodes) == 0 || slices.Contains(s.nodes, node)
}

// reserve counts one more open connection if fewer than most are; 0 is no limit.
func (s *State) reserve(most int64) bool {
	for {
		n := s.open.Load()
		if most > 0 && n >= most {
			return false
		}
		if s.open.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// nextAddress takes turns among the server's addresses.
func (s *State) nextAddress() (a reactor.Address, ok bool) {
	list := s.addresses.Load()
	if list == nil || len(*list) == 0 {
		return a, false
	}
	if len(*list) == 1 {
		return (*list)[0], true
	}
	return (*list)[int(s.turn.Add(1)%uint32(len(*list)))], true
}

// addressCount is how many addresses the server has.
func (s *State) addressCount() int {
	if list := s.addresses.Load(); list != nil {
		return len(*list)
	}
	return 0
}

// passOver leaves out an address that could not be reached, if there is another,
// until the name is looked up again: a name often has an IPv6 address on which
// nobody listens.
func (s *State) passOver(a reactor.Address) {
	list := s.addresses.Load()
	if list == nil || len(*list) < 2 {
		return
	}
	left := slices.DeleteFunc(slices.Clone(*list), func(b reactor.Address) bool { return b == a })
	if len(left) > 0 {
		s.addresses.CompareAndSwap(list, &left)
	}
}

// Servers keeps the State of every configured server over reloads. It belongs
// to the goroutine that applies configurations.
type Servers struct {
	nodes   []int                        // of this worker
	homes   func(slot int) *segment.Home // nil: nothing is known of nodes
	states  map[int]*State               // by slot
	configs []*tls.Config                // by farm; see Secure
	resolve *resolver
	trouble *trouble
}

// NewServers starts the resolver, which ends with Close.
func NewServers() *Servers {
	return newServers(net.DefaultResolver.LookupNetIP)
}

func newServers(lookup lookup) *Servers {
	return &Servers{states: map[int]*State{}, resolve: newResolver(lookup), trouble: newTrouble()}
}

// Settle tells, before the first Apply, the NUMA nodes of this worker, and where in
// the segment the server of a slot has its own. Without it no server has one.
func (s *Servers) Settle(nodes []int, homes func(slot int) *segment.Home) {
	s.nodes, s.homes = nodes, homes
}

// Close ends the resolver, and the log of trouble. No loop uses the servers any more.
func (s *Servers) Close() {
	s.resolve.close()
	s.trouble.close()
}

// Apply makes the farms of a configuration; slot tells a server's place in the
// segment. States of servers that are configured no more are returned as gone.
func (s *Servers) Apply(cfg *config.Config, slot func(farm, url string) int) (farms []*Farm, gone []*State) {
	used := map[int]*State{}
	for i, fc := range cfg.Farms {
		f := &Farm{Farm: fc, Index: i, Spill: -1}
		if points, on := fc.Spill.Threshold.Points(); on {
			f.Spill = points
		}
		for _, sc := range fc.Servers {
			st := s.state(slot(fc.Name, sc.URL), &fc, sc)
			if sc.Secure() {
				st.security.Store(s.securityOf(&fc, i, nameOf(&fc, sc), st))
			}
			must := st.speaksHTTP2(f)
			st.shares.Store(must || fc.Protocol == config.ProtocolAuto && st.shares.Load())
			used[st.Slot] = st
			f.Servers = append(f.Servers, &Server{State: st, Farm: f, Weight: sc.Weight, Authority: authority(sc)})
		}
		farms = append(farms, f)
	}
	for slot, st := range s.states {
		if used[slot] != st {
			st.gone.Store(true)
			gone = append(gone, st)
		}
	}
	s.states = used
	s.resolve.watch(used)
	return farms, gone
}

// state is the server's State, a new one if the slot was another's, or if what its
// certificate must be has changed, or what is spoken: connections to the old one are of
// no use.
func (s *Servers) state(slot int, f *config.Farm, sc config.Server) *State {
	if st := s.states[slot]; st != nil && st.URL == sc.URL && st.meets(f) {
		return st
	}
	st := &State{Slot: slot, URL: sc.URL, farm: f.Name, protocol: f.Protocol}
	st.trouble.to = s.trouble
	if s.homes != nil {
		st.Settle(s.nodes, s.homes(slot))
	}
	st.network, st.address = sc.Endpoint()
	return st
}

// speaksHTTP2 reports whether the server is to, whatever it would choose.
func (s *State) speaksHTTP2(f *Farm) bool {
	return f.Protocol == config.HTTP2 || strings.HasPrefix(s.URL, "h2://")
}

// meets reports whether the connections to a server are what farm f wants.
func (s *State) meets(f *config.Farm) bool {
	how := s.security.Load()
	return s.protocol == f.Protocol && (how == nil || how.wish.Equal(f.TLS))
}

// authority is what Host says when it names the server itself.
func authority(sc config.Server) []byte {
	network, address := sc.Endpoint()
	if network == "unix" {
		return []byte("localhost")
	}
	return []byte(address)
}
