package tcp

import (
	"sync/atomic"
	"time"

	"sluice/internal/config"
	"sluice/internal/upstream"
)

// Listener is what a raw TCP listener makes of its connections. All loops of a worker
// share it. Immutable, save open.
type Listener struct {
	name   string
	names  bool // some route asks for one
	exact  map[string]*target
	below  map[string]*target // by what follows "*."
	rest   *target            // of routes that ask for no name; nil: there is none
	most   int64              // connections at once; 0: no limit
	open   *atomic.Int64      // stays over reloads
	header time.Duration      // for a ClientHello
	stall  time.Duration
}

// target is where a route leads.
type target struct {
	index int // of the route: the first that matches wins
	farm  *upstream.Farm
}

// Open counts the connections of a worker's listeners, by name. It belongs to the
// goroutine that applies configurations.
type Open map[string]*atomic.Int64

// Listeners makes the raw TCP listeners of a valid configuration, by name; farms are its
// farms, in its order.
func (o Open) Listeners(cfg *config.Config, farms []*upstream.Farm) map[string]*Listener {
	all := map[string]*Listener{}
	for i := range cfg.Listeners {
		l := &cfg.Listeners[i]
		if l.TCP == nil {
			continue
		}
		if o[l.Name] == nil {
			o[l.Name] = new(atomic.Int64)
		}
		all[l.Name] = newListener(l, &cfg.Timeouts, farms, o[l.Name])
	}
	return all
}

func newListener(l *config.Listener, t *config.Timeouts, farms []*upstream.Farm, open *atomic.Int64) *Listener {
	as := &Listener{
		name: l.Name, exact: map[string]*target{}, below: map[string]*target{}, most: int64(l.TCP.Connections), open: open,
		header: time.Duration(t.Header), stall: time.Duration(t.Write),
	}
	for i, r := range l.TCP.Routes {
		to := &target{index: i}
		for _, f := range farms {
			if f.Name == r.Farm {
				to.farm = f
			}
		}
		as.add(r.Name(), to)
	}
	return as
}

// add adds a route; an earlier one for the same name stays.
func (as *Listener) add(name string, to *target) {
	if name == "" {
		if as.rest == nil {
			as.rest = to
		}
		return
	}
	as.names = true
	in := as.exact
	if len(name) > 2 && name[:2] == "*." {
		in, name = as.below, name[2:]
	}
	if in[name] == nil {
		in[name] = to
	}
}

// match finds the farm for a name, which may be empty; nil: there is none. The name is
// in lower case.
func (as *Listener) match(name []byte) *upstream.Farm {
	best := as.rest
	try := func(to *target) {
		if to != nil && (best == nil || to.index < best.index) {
			best = to
		}
	}
	try(as.exact[string(name)])
	for i, c := range name {
		if c == '.' {
			try(as.below[string(name[i+1:])])
		}
	}
	if best == nil {
		return nil
	}
	return best.farm
}

// enter counts one more connection, if it may be.
func (as *Listener) enter() bool {
	if as.open.Add(1) > as.most && as.most > 0 {
		as.open.Add(-1)
		return false
	}
	return true
}
