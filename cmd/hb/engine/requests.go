package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sort"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/plan"
)

// mix is the targets as requests, and their weights. It is immutable.
type mix struct {
	requests []*client.Request
	upTo     []int // sum of the weights up to each request
	secure   bool  // one of them is HTTPS
}

// newMix makes the requests. Addresses gives those of host:port that are known.
func newMix(p *plan.Plan, addresses map[string]string) *mix {
	m := &mix{}
	sum := 0
	for _, t := range p.Targets {
		at := connectTo(p, t)
		if known, found := addresses[at]; found {
			at = known
		}
		m.requests = append(m.requests, client.NewRequest(t.Method, t.URL, t.Fields, t.Body, p.KeepAlive, at))
		m.secure = m.secure || t.URL.Scheme == "https"
		sum += t.Weight
		m.upTo = append(m.upTo, sum)
	}
	return m
}

// pick chooses a request by weight.
func (m *mix) pick(random *rand.Rand) *client.Request {
	if len(m.requests) == 1 {
		return m.requests[0]
	}
	n := random.IntN(m.upTo[len(m.upTo)-1])
	return m.requests[sort.SearchInts(m.upTo, n+1)]
}

// connectTo is where a target's connections go.
func connectTo(p *plan.Plan, t plan.Target) string {
	if p.Connect != "" {
		return p.Connect
	}
	return client.AddressOf(t.URL)
}

// resolve finds the address of each host once: names are not what is measured.
func resolve(ctx context.Context, p *plan.Plan) (map[string]string, error) {
	known := map[string]string{}
	for _, t := range p.Targets {
		at := connectTo(p, t)
		if known[at] != "" {
			continue
		}
		host, port, err := net.SplitHostPort(at)
		if err != nil {
			return nil, err
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("no address for %s: %w", host, err)
		}
		known[at] = net.JoinHostPort(found[0], port)
	}
	return known, nil
}

// dialTCP connects; answers are small and prompt, so TCP_NODELAY stays on, as is
// Go's default.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}
