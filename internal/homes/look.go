package homes

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/process"
	"sluice/internal/topology"
)

// moveLooks: at every so many-th look it is seen too that a server was moved to
// another node while it runs.
const moveLooks = 5

// look sees whether servers were started, and where they are. Where there is one
// node there is nothing to find out.
func (h *Homes) look() {
	if len(h.nodes) < 2 {
		return
	}
	h.looks++
	h.tcp, h.unix = nil, nil
	h.mu.Lock()
	servers := h.servers
	h.mu.Unlock()
	for _, r := range servers {
		switch {
		case r.network == "unix" && h.unix == nil:
			h.unix, _ = process.AllUnix(h.tree)
		case r.network == "tcp" && h.tcp == nil:
			h.tcp, _ = process.AllTCP(h.tree)
		}
		if r.network != "" {
			h.visit(r)
		}
	}
}

// visit looks at one server. One that has gone keeps its node until it is back.
func (h *Homes) visit(r *resident) {
	listeners := h.listeners(r)
	sockets := inodes(listeners)
	fresh := slices.ContainsFunc(sockets, func(i uint64) bool { return !slices.Contains(r.sockets, i) })
	began := fresh && r.looked
	r.sockets, r.looked = sockets, true
	if fresh {
		r.owners = h.owners(listeners)
	}
	if r.Server.Node == "auto" && len(sockets) > 0 && (fresh || h.looks%moveLooks == 0) {
		h.settle(r)
	}
	if began {
		r.home.Began()
	}
}

// settle puts down where the server's processes may run.
func (h *Homes) settle(r *resident) {
	var threads []process.Thread
	for _, pid := range r.owners {
		threads = append(threads, process.Threads(h.tree, pid)...)
	}
	node := nodeOf(process.CPUs(threads), h.nodes)
	h.mu.Lock()
	defer h.mu.Unlock()
	if node == r.home.Node() || !slices.Contains(h.servers, r) { // it went meanwhile
		return
	}
	slog.Info("a server's node", "farm", r.Farm, "server", r.URL, "node", node)
	r.home.Settle(node)
}

// listeners are the sockets that get the connections to a server.
func (h *Homes) listeners(r *resident) []process.Listener {
	if r.network == "unix" {
		return slices.DeleteFunc(slices.Clone(h.unix), func(l process.Listener) bool { return l.Path != r.address })
	}
	at, isName := strings.CutPrefix(r.address, localhost+":")
	if isName {
		at = "127.0.0.1:" + at
	}
	address, err := netip.ParseAddrPort(at)
	if err != nil {
		return nil
	}
	found := listenersAt(h.tcp, address)
	if isName && len(found) == 0 {
		found = listenersAt(h.tcp, netip.AddrPortFrom(netip.IPv6Loopback(), address.Port()))
	}
	return found
}

// listenersAt chooses those that get the connections to an address and port: those
// of this address, else those of all addresses. One of all IPv6 addresses takes IPv4
// too (ipv6(7), IPV6_V6ONLY).
func listenersAt(all []process.Listener, to netip.AddrPort) []process.Listener {
	over4 := to.Addr().Is4()
	for _, fits := range []func(netip.Addr) bool{
		func(a netip.Addr) bool { return a.Unmap() == to.Addr() },
		func(a netip.Addr) bool { return a.IsUnspecified() && a.Is4() == over4 },
		func(a netip.Addr) bool { return a.IsUnspecified() && over4 },
	} {
		found := slices.DeleteFunc(slices.Clone(all), func(l process.Listener) bool {
			return l.Address.Port() != to.Port() || !fits(l.Address.Addr())
		})
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

// owners are the processes that have the sockets open, as far as we may look.
func (h *Homes) owners(listeners []process.Listener) (pids []int) {
	owners, _, err := process.Owners(h.tree, listeners)
	if err != nil {
		return nil
	}
	for _, p := range owners {
		pids = append(pids, p.PID)
	}
	return pids
}

func inodes(listeners []process.Listener) (all []uint64) {
	for _, l := range listeners {
		all = append(all, l.Inode)
	}
	slices.Sort(all)
	return all
}

// nodeOf is the only node of which one of these CPUs is, among those online; -1 if
// there is none, or if there are several.
func nodeOf(cpus []int, nodes []topology.Node) int {
	found := -1
	for _, n := range nodes {
		if !slices.ContainsFunc(n.CPUs, func(cpu int) bool { return slices.Contains(cpus, cpu) }) {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = n.ID
	}
	return found
}
