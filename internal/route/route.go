// Package route chooses the farm of a request by its host and path.
//
// A Table is built once for a configuration and never changes. The routes are
// in order and the first that matches wins; the table only finds it faster than
// by asking them one after another. It keeps, for each host that a route names,
// the rules of that host. A request looks at three kinds of these lists: that of
// its own host, those of the wildcards above it, and that of any host. Among the
// rules that match, the one that stands first in the configuration is taken.
package route

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"sluice/internal/config"
)

// Table maps host and path to a farm. It is immutable: any number of loops may
// use it at once.
type Table struct {
	all      int               // farm of everything, if the first route asks nothing; else none
	anyHost  []rule            // routes without a host
	exact    map[string][]rule // by host
	wildcard map[string][]rule // by what follows "*."
}

// rule is one route, with its place in the order.
type rule struct {
	order int
	path  string // prefix without its final slash; empty: any
	farm  int
}

// none is the farm of a request that no route takes.
const none = -1

// maxHostBytes is the longest name in the DNS, RFC 1035 2.3.4, as text; an
// address is shorter. No route names a longer host.
const maxHostBytes = 253

// New builds a table. farmIndex gives the index of a farm, or less than 0 if
// there is none of that name, which is an error.
func New(routes []config.Route, farmIndex func(name string) int) (*Table, error) {
	t := &Table{all: none, exact: map[string][]rule{}, wildcard: map[string][]rule{}}
	for i, r := range routes {
		farm := farmIndex(r.Farm)
		if farm < 0 {
			return nil, fmt.Errorf("routes[%d]: no farm %q", i, r.Farm)
		}
		host, path := r.Pattern()
		if i == 0 && host == "" && path == "" {
			t.all = farm
		}
		t.add(host, rule{order: i, path: path, farm: farm})
	}
	return t, nil
}

func (t *Table) add(host string, r rule) {
	if host == "" {
		t.anyHost = append(t.anyHost, r)
	} else if below, wild := strings.CutPrefix(host, "*."); wild {
		t.wildcard[below] = append(t.wildcard[below], r)
	} else {
		t.exact[host] = append(t.exact[host], r)
	}
}

// Match gives the farm of a request, and the index of the route that says so.
// host is the Host field or the authority of the target: case, a port and one
// final dot do not matter. path ends before the '?'; it is compared as the client
// sent it, escapes and all. Host and path are not kept, and nothing is allocated.
func (t *Table) Match(host, path []byte) (farm, route int, ok bool) {
	if t.all != none {
		return t.all, 0, true
	}
	best := earlier(rule{order: math.MaxInt, farm: none}, t.anyHost, path)
	if len(t.exact)+len(t.wildcard) > 0 {
		best = t.byHost(best, host, path)
	}
	return best.farm, best.order, best.farm != none
}

// byHost improves on best by the routes that name a host.
func (t *Table) byHost(best rule, host, path []byte) rule {
	var room [maxHostBytes]byte
	name := plainHost(&room, host)
	best = earlier(best, t.exact[string(name)], path)
	if len(t.wildcard) == 0 || bytes.HasPrefix(name, []byte("[")) {
		return best
	}
	for {
		dot := bytes.IndexByte(name, '.')
		if dot <= 0 { // none left, or an empty label, which is no name
			return best
		}
		name = name[dot+1:]
		best = earlier(best, t.wildcard[string(name)], path)
	}
}

// earlier gives the first of rules that takes path, if it stands before best.
func earlier(best rule, rules []rule, path []byte) rule {
	for i := range rules {
		if rules[i].order > best.order {
			return best
		}
		if rules[i].takes(path) {
			return rules[i]
		}
	}
	return best
}

// takes tells whether the rule's prefix, in whole segments, begins path.
func (r *rule) takes(path []byte) bool {
	n := len(r.path)
	return n == 0 || len(path) >= n && string(path[:n]) == r.path && (len(path) == n || path[n] == '/')
}

// plainHost writes host into room in the form of config.Route.Pattern. A host
// that no route can name gives nothing.
func plainHost(room *[maxHostBytes]byte, host []byte) []byte {
	end := len(host)
	if bracket := bytes.IndexByte(host, ']'); bracket >= 0 {
		end = bracket + 1
	} else if colon := bytes.IndexByte(host, ':'); colon >= 0 {
		end = colon
	}
	host = bytes.TrimSuffix(host[:end], []byte("."))
	if len(host) > len(room) {
		return nil
	}
	for i, c := range host {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		room[i] = c
	}
	return room[:len(host)]
}
