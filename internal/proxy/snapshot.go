package proxy

import (
	"fmt"
	"net/netip"
	"time"

	"sluice/internal/admission"
	"sluice/internal/config"
	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/route"
	"sluice/internal/upstream"
)

// Snapshot is one configuration as the loops use it. Immutable: a reload makes a
// new one, and an exchange keeps to the one it began with.
type Snapshot struct {
	limits   http1.Limits
	secure   http1.Limits // the same for clients who come by TLS
	answer   http1.Limits // of response heads
	body     int64
	requests int
	streams  int // at once, of one connection
	timeouts config.Timeouts
	forward  config.Forward
	via      map[message.Version][]byte // the value of Via for requests of that version; nil if off
	trust    []config.Prefix
	routes   *route.Table
	ways     []way // by route
	farms    []*upstream.Farm
	houses   []house // by farm
}

// NewSnapshot makes the snapshot of a valid configuration; farms are its farms, in
// its order, and lines theirs. Without lines nothing is held.
func NewSnapshot(cfg *config.Config, farms []*upstream.Farm, lines []*admission.Line) (*Snapshot, error) {
	index := func(name string) int {
		for i, f := range cfg.Farms {
			if f.Name == name {
				return i
			}
		}
		return -1
	}
	routes, err := route.New(cfg.Routes, index)
	if err != nil {
		return nil, fmt.Errorf("routes: %w", err)
	}
	s := &Snapshot{
		limits:   http1.Limits{Head: int(cfg.Limits.Head), Line: int(cfg.Limits.Line), Fields: cfg.Limits.Fields},
		answer:   http1.Limits{Head: int(cfg.Limits.ResponseHead), Line: int(cfg.Limits.ResponseHead), Fields: cfg.Limits.Fields},
		body:     int64(cfg.Limits.Body),
		requests: cfg.Limits.Requests,
		streams:  cfg.Limits.Streams,
		timeouts: cfg.Timeouts,
		forward:  cfg.Forward,
		trust:    cfg.Trust,
		routes:   routes,
		farms:    farms,
	}
	s.secure = s.limits
	s.secure.Secure = true
	for _, r := range cfg.Routes {
		s.ways = append(s.ways, way{held: r.Admission != "off", class: uint8(r.Priority), deadline: time.Duration(r.Deadline), upgrades: r.Upgrades})
	}
	for i, f := range farms {
		s.houses = append(s.houses, newHouse(&f.Admission, lines, i))
	}
	if cfg.Forward.Via != "off" {
		s.via = map[message.Version][]byte{}
		for version, text := range map[message.Version]string{message.HTTP10: "1.0 ", message.HTTP11: "1.1 ", message.HTTP2: "2.0 ", message.HTTP3: "3.0 "} {
			s.via[version] = []byte(text + cfg.Forward.Via)
		}
	}
	return s, nil
}

// headLimits are those of heads that come by TLS, or without.
func (s *Snapshot) headLimits(secure bool) *http1.Limits {
	if secure {
		return &s.secure
	}
	return &s.limits
}

// trusts reports whether what a client at this address says about others is
// believed.
func (s *Snapshot) trusts(a netip.Addr) bool {
	for _, p := range s.trust {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// sendWithin is how long the client may take to accept n bytes: the time
// without progress, and what the least rate allows.
func (s *Snapshot) sendWithin(n int) time.Duration {
	d := time.Duration(s.timeouts.Write)
	if s.timeouts.Rate > 0 {
		d += time.Duration(n) * time.Second / time.Duration(s.timeouts.Rate)
	}
	return d
}
