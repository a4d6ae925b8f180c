package worker

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"sluice/internal/segment"
)

// heard keeps what a doorkeeper says.
type heard struct{ said string }

func (h *heard) header(cause segment.ProxyHeader, n uint64, last *turnedAway) {
	h.said += fmt.Sprintf("%s %d, %v", segment.ProxyHeaderNames[cause], n, last.peer)
}

func (h *heard) shun(cause segment.Shun, n uint64, last *turnedAway) {
	h.said += fmt.Sprintf("%s %d, %v for %s", segment.ShunNames[cause], n, last.peer, last.name)
}

// The log tells of refused connections: soon of the first, then from time to time, and
// of none that another process refused.
func TestDoorkeeper(t *testing.T) {
	stats := new(segment.LoopStats)
	stats.ProxyHeaders[segment.HeaderUntrusted].Add(7)
	stats.Shunned[segment.ShunVersion].Add(9)
	var d doorkeeper
	from := func(port uint16) *turnedAway {
		return &turnedAway{peer: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), name: "a.test", why: errUntrusted}
	}
	refuse := func(cause segment.ProxyHeader, port uint16) {
		d.headers[cause].note(from(port))
		stats.ProxyHeaders[cause].Inc()
	}
	shun := func(cause segment.Shun, port uint16) {
		d.shunned[cause].note(from(port))
		stats.Shunned[cause].Inc()
	}
	for i, step := range []struct {
		at   time.Duration
		do   func()
		want string
	}{
		{0, func() {}, ""},
		{1, func() { stats.ProxyHeaders[segment.HeaderTaken].Inc() }, ""},
		{2, func() { refuse(segment.HeaderUntrusted, 1) }, "untrusted 1, 192.0.2.1:1"},
		{3, func() { refuse(segment.HeaderUntrusted, 2); refuse(segment.HeaderUntrusted, 3) }, ""},
		{4, func() { refuse(segment.HeaderMissing, 4) }, "missing 1, 192.0.2.1:4"},
		{5, func() { shun(segment.ShunVersion, 5) }, "version 1, 192.0.2.1:5 for a.test"},
		{6, func() { shun(segment.ShunVersion, 6); shun(segment.ShunVersion, 7) }, ""},
		{2 + tellEvery, func() {}, "untrusted 2, 192.0.2.1:3"},
		{3 + 3*tellEvery, func() {}, ""},
		{4 + shunTellEvery, func() {}, ""},
		{5 + shunTellEvery, func() {}, "version 2, 192.0.2.1:7 for a.test"},
		{5 + 3*shunTellEvery, func() {}, ""},
	} {
		step.do()
		var h heard
		d.look(step.at, []*segment.LoopStats{stats}, &h)
		if h.said != step.want {
			t.Errorf("step %d: %q is said, want %q", i, h.said, step.want)
		}
	}
}
