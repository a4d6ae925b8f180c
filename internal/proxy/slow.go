package proxy

import (
	"hash/maphash"
	"net/netip"
	"time"

	"sluice/internal/admission/gate"
)

// slowAfter is how long a server may be kept from its work by the client before
// the request's permit is given back: by one wait, or by all waits for content of
// the request together. The server is not busy then, and clients that trickle must
// not use up its permits.
const slowAfter = 250 * time.Millisecond

// freely is how many permits a second may come back so, of one client, before its requests
// have less time than slowAfter. A client that takes nothing of a hundred answers at once
// would else hold every permit for that long, and all others stand in line.
const freely = 8

// dawdler is how often a client has kept servers waiting for slowAfter of late.
type dawdler struct {
	times int
	at    int64 // times is of then, and halves each second; executor time
}

// dawdlers are the clients of a loop by a hash of their address: some share an entry, and
// there are never more.
type dawdlers [256]dawdler

// of finds a client's.
func (d *dawdlers) of(client netip.Addr) *dawdler {
	return &d[maphash.Comparable(seed, NetworkOf(client))%uint64(len(d))]
}

// NetworkOf tells clients apart by their addresses: all of one of IPv4, and of IPv6 the 64
// bits that tell networks apart (RFC 4291 2.5.4), since a client can have any address there.
func NetworkOf(a netip.Addr) netip.Prefix {
	if a = a.Unmap(); a.Is4() {
		return netip.PrefixFrom(a, 32)
	}
	p, _ := a.WithZone("").Prefix(64) // fails for none but the zero address
	return p
}

// fade brings it up to date.
func (d *dawdler) fade(now int64) {
	if seconds := (now - d.at) / int64(time.Second); seconds > 0 {
		d.times >>= min(seconds, 62)
		d.at += seconds * int64(time.Second)
	}
}

// note counts a permit that came back.
func (d *dawdler) note(now int64) {
	d.fade(now)
	d.times++
}

// patience is how long a request of the client may wait for it.
func (d *dawdler) patience(now int64) time.Duration {
	d.fade(now)
	return slowAfter * freely / time.Duration(max(freely, d.times))
}

// mayDawdle is how long the request keeps its permit while its client is waited for.
func (x *exchange) mayDawdle() time.Duration { return x.dawdler().patience(x.p.exec.Now()) }

func (x *exchange) dawdler() *dawdler {
	if x.from == nil {
		client := x.realClient()
		if !client.IsValid() {
			client = x.s.peer.Addr()
		}
		x.from = x.p.dawdlers.of(client)
	}
	return x.from
}

// slowClient gives the permit back while the client is waited for.
type slowClient exchange

// Run is on the loop, outside any task.
func (c *slowClient) Run() { (*exchange)(c).keptWaiting() }

// keptWaiting gives the permit back, and remembers whose client it was.
func (x *exchange) keptWaiting() {
	if x.permit.Out() {
		x.dawdler().note(x.p.exec.Now())
		x.release(gate.Ignored)
	}
}

// slowServer gives the permit of a call back whose server is silent.
type slowServer exchange

// Run is on the loop, outside any task.
func (c *slowServer) Run() { (*exchange)(c).release(gate.Ignored) }
