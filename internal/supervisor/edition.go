package supervisor

import (
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/tlsterm/keyring"
)

// edition is a configuration with all that belongs to it. It is immutable; a
// reload makes the next one, which shares the sockets of listeners that stay.
type edition struct {
	config     *config.Config
	ring       *keyring.Ring // of config
	keys       *spec.Keys    // of ring, and of session tickets; nil without TLS
	generation uint64
	listening  []*listening // as config.Listeners
	packets    []*listening // the same for QUIC; nil where HTTP/3 is not spoken
	resting    []*listening // for QUIC, of earlier editions; event loop only
	quic       spec.QUIC    // as long as the supervisor lives
	servers    []spec.ServerSlot
}

// newEdition opens what last does not have yet. On an error nothing new is left
// open. last is nil at the start.
func newEdition(cfg *config.Config, ring *keyring.Ring, generation uint64, last *edition, workers []placement.Worker, shared *segment.Segment) (*edition, error) {
	e := &edition{config: cfg, ring: ring, generation: generation}
	if last == nil {
		e.quic = newQUIC()
	} else {
		e.quic = last.quic
	}
	var err error
	if e.servers, err = assignSlots(cfg, last, shared); err != nil {
		return nil, err
	}
	for _, l := range cfg.Listeners {
		open, packets, err := e.open(l, last, workers)
		if err != nil {
			e.closeBut(last)
			return nil, err
		}
		e.listening, e.packets = append(e.listening, open), append(e.packets, packets)
	}
	for _, p := range last.forPackets() {
		if !slices.Contains(e.packets, p) {
			e.resting = append(e.resting, p)
		}
	}
	return e, nil
}

// freePortTries is how often the kernel is asked for a port when the one that it gave
// for TCP is taken for UDP.
const freePortTries = 10

// open gives a listener its sockets, for TCP and for QUIC: those of the last edition if
// that has them. On an error nothing new is left open.
func (e *edition) open(l config.Listener, last *edition, workers []placement.Worker) (open, packets *listening, err error) {
	for range freePortTries {
		known := last.listensOn(l.Address, e.listening)
		if open = known; open == nil {
			if open, err = openListening(l, workers, e.holdsPort(l.Address) || last.holdsPort(l.Address)); err != nil {
				return nil, nil, err
			}
		}
		if packets, err = e.packetsOf(l, open, last, workers); err == nil {
			return open, packets, nil
		}
		if known == nil {
			open.close()
		}
		if known != nil || open.bound == open.address {
			break
		}
	}
	return nil, nil, err
}

// packetsOf are the sockets for QUIC of a listener whose others are open; nil if it
// speaks no HTTP/3.
func (e *edition) packetsOf(l config.Listener, open *listening, last *edition, workers []placement.Worker) (*listening, error) {
	if !slices.Contains(l.Protocols, config.HTTP3) {
		return nil, nil
	}
	for _, p := range last.forPackets() {
		if p.bound == open.bound {
			return p, nil
		}
	}
	return openPackets(l, open, workers, e.holdsPackets(open.bound) || last.holdsPackets(open.bound))
}

// holdsPackets is holdsPort for the sockets of QUIC.
func (e *edition) holdsPackets(bound string) bool {
	return samePort(e.forPackets(), bound)
}

// forPackets are all groups of sockets for QUIC. An edition that is nil has none.
func (e *edition) forPackets() []*listening {
	if e == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Concat(e.packets, e.resting), func(l *listening) bool { return l == nil })
}

// restSlack is how much longer than the workers the supervisor keeps the sockets of QUIC
// that are no longer in the configuration.
const restSlack = 2 * time.Second

// rest says until when those sockets are kept: while workers let connections come to their
// end they read them, so nobody else could have the port; but a reload that names it
// again gets the same sockets, with their places.
func (e *edition) rest(now time.Time) {
	for _, l := range e.packets {
		if l != nil {
			l.restBy = time.Time{}
		}
	}
	for _, l := range e.resting {
		if l.restBy.IsZero() {
			l.restBy = now.Add(time.Duration(e.config.Timeouts.Drain) + restSlack)
		}
	}
}

// relieve closes those whose time is over.
func (e *edition) relieve(a *alarm) {
	e.resting = slices.DeleteFunc(e.resting, func(l *listening) bool {
		if !a.due(l.restBy) {
			return false
		}
		l.close()
		return true
	})
}

// listensOn finds the sockets of an address that are not taken: two listeners on port 0
// have one address, and each its own sockets. An edition that is nil has none.
func (e *edition) listensOn(address string, taken []*listening) *listening {
	if e == nil {
		return nil
	}
	for _, l := range e.listening {
		if sameAddress(l.address, address) && !slices.Contains(taken, l) {
			return l
		}
	}
	return nil
}

// holdsPort says whether one of our sockets has the port already, on whichever
// address. Then a bind without SO_REUSEPORT may fail for our own sake.
func (e *edition) holdsPort(address string) bool {
	if e == nil {
		return false
	}
	return samePort(e.listening, address)
}

// samePort tells whether one of these has the port of an address.
func samePort(groups []*listening, address string) bool {
	_, port, _ := net.SplitHostPort(address)
	return slices.ContainsFunc(groups, func(l *listening) bool {
		if l == nil {
			return false
		}
		_, ours, _ := net.SplitHostPort(l.bound)
		return ours == port
	})
}

// closeBut closes the sockets that other does not have. A nil edition has none.
func (e *edition) closeBut(other *edition) {
	for _, l := range e.listening {
		if other == nil || !slices.Contains(other.listening, l) {
			l.close()
		}
	}
	for _, l := range e.forPackets() {
		if !slices.Contains(other.forPackets(), l) {
			l.close()
		}
	}
}

// server is the identity of a server over reloads.
type server struct{ farm, url string }

func serversOf(cfg *config.Config) []server {
	var all []server
	for _, f := range cfg.Farms {
		for _, s := range f.Servers {
			all = append(all, server{f.Name, s.URL})
		}
	}
	return all
}

// assignSlots gives every server of cfg its place in the segment. If there are no
// more, the places of servers that are gone are given back first.
func assignSlots(cfg *config.Config, last *edition, shared *segment.Segment) ([]spec.ServerSlot, error) {
	servers := serversOf(cfg)
	slots := make([]spec.ServerSlot, len(servers))
	released := false
	for i, s := range servers {
		slot, err := shared.Assign(s.farm, s.url)
		if err != nil && !released {
			released = true
			releaseUnused(append(last.servesFrom(), servers...), shared)
			slot, err = shared.Assign(s.farm, s.url)
		}
		if err != nil {
			return nil, err
		}
		slots[i] = spec.ServerSlot{Farm: s.farm, URL: s.url, Slot: slot}
	}
	return slots, nil
}

func (e *edition) servesFrom() []server {
	if e == nil {
		return nil
	}
	return serversOf(e.config)
}

// releaseUnused gives back the slots of servers that are not among those to keep
// and that no worker has a connection to or a permit of: nobody writes there any
// more.
func releaseUnused(keep []server, shared *segment.Segment) {
	for slot := range shared.Shape().Servers {
		farm, url, ok := shared.ServerName(slot)
		if ok && !slices.Contains(keep, server{farm, url}) && !inUse(shared, slot) {
			shared.Release(slot)
		}
	}
}

func inUse(shared *segment.Segment, slot int) bool {
	if gate := shared.Gate(slot); gate.InFlight.Load() != 0 || gate.Waiters.Load() != 0 {
		return true
	}
	for worker := range shared.Shape().Workers {
		t := shared.ServerTotals(worker, slot)
		if t.Open.Load() > 0 || t.InFlight.Load() > 0 {
			return true
		}
	}
	return false
}

// specFor is what one worker is told. Its sockets and bells are duplicates that
// belong to the message, so that it does not matter what becomes of ours while it is under
// way; parcel.discard closes them.
func (e *edition) specFor(w placement.Worker, b bells, build string) (*parcel, error) {
	s := &spec.Spec{
		Version:    spec.Version,
		Generation: e.generation,
		Worker:     w.Index,
		Node:       w.Node,
		Nodes:      w.Nodes,
		CPUs:       w.CPUs,
		Pin:        w.Pin,
		Overflow:   w.Overflow,
		Loops:      w.Loops,
		Servers:    e.servers,
		Config:     e.config,
		Keys:       e.keys,
		Build:      build,
		QUIC:       e.quic,
	}
	p := &parcel{message: &spec.Message{Kind: spec.KindSpec, Spec: s}}
	for i, l := range e.listening {
		entry := spec.Listener{Name: e.config.Listeners[i].Name, Address: l.bound}
		var err error
		if entry.Sockets, err = p.duplicates(l.sockets[w.Index]); err != nil {
			p.discard()
			return nil, fmt.Errorf("listener %q: sockets for worker %d: %w", entry.Name, w.Index, err)
		}
		if packets := e.packets[i]; packets != nil {
			entry.Place = packets.placeOf(w.Index)
			if entry.Packets, err = p.duplicates(packets.sockets[w.Index]); err != nil {
				p.discard()
				return nil, fmt.Errorf("listener %q: sockets of QUIC for worker %d: %w", entry.Name, w.Index, err)
			}
		}
		s.Listeners = append(s.Listeners, entry)
	}
	var err error
	if s.Bells, err = p.duplicates(b); err != nil {
		p.discard()
		return nil, fmt.Errorf("bells for worker %d: %w", w.Index, err)
	}
	return p, nil
}

// parcel is a message on its way to a worker.
type parcel struct {
	message *spec.Message
	files   []int // duplicates of sockets and bells that go with it
}

// duplicates makes descriptors of the same files that belong to the parcel.
func (p *parcel) duplicates(files []int) (ours []int, err error) {
	for _, fd := range files {
		duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		p.files = append(p.files, duplicate)
		ours = append(ours, duplicate)
	}
	return ours, nil
}

// discard closes what goes with the message. A nil parcel has nothing.
func (p *parcel) discard() {
	if p == nil {
		return
	}
	for _, fd := range p.files {
		unix.Close(fd)
	}
	p.files = nil
}
