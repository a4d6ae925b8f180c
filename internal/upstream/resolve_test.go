package upstream

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// names is a name server in virtual time.
type names struct {
	mu    sync.Mutex
	hosts map[string]string // space-separated addresses; "" fails, "silent" never answers
	asked map[string]int
}

func newNames(hosts map[string]string) *names {
	return &names{hosts: hosts, asked: map[string]int{}}
}

func (n *names) set(host, addresses string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = addresses
}

// times is how often a host was asked for.
func (n *names) times(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[host]
}

func (n *names) lookup(ctx context.Context, _, host string) (list []netip.Addr, err error) {
	n.mu.Lock()
	n.asked[host]++
	answer := n.hosts[host]
	n.mu.Unlock()
	switch answer {
	case "silent":
		<-ctx.Done()
		return nil, ctx.Err()
	case "":
		return nil, errors.New("no such host")
	}
	for _, a := range strings.Fields(answer) {
		list = append(list, netip.MustParseAddr(a))
	}
	return list, nil
}

// known is the addresses of a server as text.
func known(s *State) string {
	list := s.addresses.Load()
	if list == nil {
		return "none"
	}
	var text []string
	for _, a := range *list {
		text = append(text, a.String())
	}
	return strings.Join(text, " ")
}

func mustKnow(t *testing.T, s *State, want string) {
	t.Helper()
	if got := known(s); got != want {
		t.Errorf("%s: addresses %s, want %s", s.URL, got, want)
	}
}

func TestResolve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := newNames(map[string]string{"app.example": "192.0.2.2 2001:db8::1 192.0.2.1"})
		servers := newServers(dns.lookup)
		defer servers.Close()
		farms, _ := servers.Apply(farmsOf([]string{"x", "http://app.example:8000", "http://192.0.2.9", "http+unix:///run/a"}), slots{}.of)
		app, fixed, unix := farms[0].Servers[0].State, farms[0].Servers[1].State, farms[0].Servers[2].State
		mustKnow(t, app, "192.0.2.1:8000 192.0.2.2:8000 [2001:db8::1]:8000")
		mustKnow(t, fixed, "192.0.2.9:80")
		mustKnow(t, unix, "unix:/run/a")

		dns.set("app.example", "192.0.2.3")
		time.Sleep(resolveEvery - time.Second)
		mustKnow(t, app, "192.0.2.1:8000 192.0.2.2:8000 [2001:db8::1]:8000")
		time.Sleep(2 * time.Second)
		mustKnow(t, app, "192.0.2.3:8000")

		dns.set("app.example", "") // the name server's trouble is not ours
		time.Sleep(3 * resolveEvery)
		mustKnow(t, app, "192.0.2.3:8000")
		dns.set("app.example", "silent")
		time.Sleep(3 * resolveEvery)
		mustKnow(t, app, "192.0.2.3:8000")
		if dns.times("192.0.2.9") != 0 {
			t.Error("an address was looked up")
		}
	})
}

// TestResolveFirst: a name server that does not answer holds up a start for a
// bounded time, and the name is known soon after it does.
func TestResolveFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := newNames(map[string]string{"slow.example": "silent", "fast.example": "192.0.2.1"})
		servers := newServers(dns.lookup)
		defer servers.Close()
		began := time.Now()
		farms, _ := servers.Apply(farmsOf([]string{"x", "http://slow.example", "http://fast.example"}), slots{}.of)
		if took := time.Since(began); took != firstWithin {
			t.Errorf("the start took %v", took)
		}
		slow, fast := farms[0].Servers[0].State, farms[0].Servers[1].State
		mustKnow(t, slow, "none")
		mustKnow(t, fast, "192.0.2.1:80")

		dns.set("slow.example", "192.0.2.2")
		time.Sleep(resolveWithin + 2*resolveAgain)
		mustKnow(t, slow, "192.0.2.2:80")
	})
}

// TestResolveReload: a reload looks up new names only, and forgets removed ones.
func TestResolveReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns, places := newNames(map[string]string{"a.example": "192.0.2.1", "b.example": "192.0.2.2"}), slots{}
		servers := newServers(dns.lookup)
		defer servers.Close()
		servers.Apply(farmsOf([]string{"x", "http://a.example"}), places.of)
		servers.Apply(farmsOf([]string{"x", "http://a.example", "http://b.example"}), places.of)
		if a, b := dns.times("a.example"), dns.times("b.example"); a != 1 || b != 1 {
			t.Errorf("asked for a %d times, for b %d times; want once each", a, b)
		}
		servers.Apply(farmsOf([]string{"x", "http://b.example"}), places.of)
		time.Sleep(resolveEvery + resolveAgain)
		if a, b := dns.times("a.example"), dns.times("b.example"); a != 1 || b != 2 {
			t.Errorf("asked for a %d times, for b %d times; want once and twice", a, b)
		}
	})
}

// TestNextAddress: addresses take turns; one that could not be reached is left
// out, but never the last.
func TestNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dns := newNames(map[string]string{"app.example": "192.0.2.1 192.0.2.2 192.0.2.3"})
		servers := newServers(dns.lookup)
		defer servers.Close()
		farms, _ := servers.Apply(farmsOf([]string{"x", "http://app.example"}), slots{}.of)
		s := farms[0].Servers[0].State
		s.turn.Store(^uint32(0) - 1) // the count of turns wraps round
		seen := map[string]int{}
		for range 9 {
			a, _ := s.nextAddress()
			seen[a.String()]++
		}
		if len(seen) != 3 || seen["192.0.2.1:80"] < 2 || seen["192.0.2.2:80"] < 2 || seen["192.0.2.3:80"] < 2 {
			t.Errorf("nine turns: %v", seen)
		}
		for range 3 {
			a, _ := s.nextAddress()
			s.passOver(a)
		}
		if n := s.addressCount(); n != 1 {
			t.Errorf("%d addresses left, want one", n)
		}
		time.Sleep(resolveEvery + resolveAgain)
		mustKnow(t, s, "192.0.2.1:80 192.0.2.2:80 192.0.2.3:80")
	})
}
