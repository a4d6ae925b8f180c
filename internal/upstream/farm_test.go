package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"sluice/internal/config"
)

// noNames is a resolver that knows no name.
func noNames(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no such host")
}

// slots hands out places as the supervisor does: one for each farm and URL.
type slots map[string]int

func (s slots) of(farm, url string) int {
	key := farm + " " + url
	if _, known := s[key]; !known {
		s[key] = len(s)
	}
	return s[key]
}

// farmsOf makes a configuration of farms, each a name and its servers' URLs.
func farmsOf(farms ...[]string) *config.Config {
	cfg := &config.Config{}
	for _, f := range farms {
		cfg.Farms = append(cfg.Farms, config.NewFarm(f[0], f[1:]...))
	}
	return cfg
}

// TestApply goes through reloads: what is known of a server stays as long as
// that server is configured, and what goes is told.
func TestApply(t *testing.T) {
	const a, b, c = "http://127.0.0.1:1", "http://127.0.0.1:2", "http+unix:///c"
	servers, places := newServers(noNames), slots{}
	defer servers.Close()
	states := map[string]*State{} // as first seen, by farm and URL
	for i, step := range []struct {
		farms [][]string
		gone  []string // URLs
	}{
		{[][]string{{"x", a, b}}, nil},
		{[][]string{{"x", b, a}}, nil},                  // another order
		{[][]string{{"y", a}, {"x", a, b, c}}, nil},     // a farm before it: the same URL in another farm is another server
		{[][]string{{"x", a, c}}, []string{a, b}},       // of y, of x
		{[][]string{{"x", a}}, []string{c}},             //
		{[][]string{{"x", a, b}, {"y", b}}, nil},        // b comes back as a stranger
		{[][]string{{"z", c}}, []string{a, b, b}},       //
		{[][]string{{"z", c}, {"x", a, b}}, []string{}}, //
	} {
		farms, gone := servers.Apply(farmsOf(step.farms...), places.of)
		var urls []string
		for _, s := range gone {
			urls = append(urls, s.URL)
			if !s.gone.Load() {
				t.Errorf("step %d: %s is gone and does not know", i, s.URL)
			}
		}
		slices.Sort(urls)
		if !slices.Equal(urls, step.gone) {
			t.Errorf("step %d: gone %v, want %v", i, urls, step.gone)
		}
		for j, f := range farms {
			if f.Index != j || f.Name != step.farms[j][0] {
				t.Errorf("step %d: farm %d is %s with index %d", i, j, f.Name, f.Index)
			}
			for k, s := range f.Servers {
				key := f.Name + " " + step.farms[j][1+k]
				if s.URL != step.farms[j][1+k] || s.Farm != f || s.Slot != places.of(f.Name, s.URL) {
					t.Errorf("step %d: %s: server %d is %s in slot %d", i, f.Name, k, s.URL, s.Slot)
				}
				if known := states[key]; known != nil && !known.gone.Load() && known != s.State {
					t.Errorf("step %d: %s has lost its state", i, key)
				}
				states[key] = s.State
			}
		}
	}
}

func TestAuthority(t *testing.T) {
	for url, want := range map[string]string{
		"http://127.0.0.1:9000":   "127.0.0.1:9000",
		"http://app.example":      "app.example:80",
		"http://[::1]:9000/":      "[::1]:9000",
		"http+unix:///run/a.sock": "localhost",
	} {
		if got := authority(config.Server{URL: url}); string(got) != want {
			t.Errorf("%s: Host %q, want %q", url, got, want)
		}
	}
}

// TestReserve: the bound holds at n and not at n+1.
func TestReserve(t *testing.T) {
	for _, c := range []struct{ most, open int64 }{{1, 1}, {3, 3}, {0, 100}} {
		var s State
		n := int64(0)
		for n < 100 && s.reserve(c.most) {
			n++
		}
		if n != c.open {
			t.Errorf("%d allowed: %d reserved", c.most, n)
		}
	}
}

func ExampleHow() {
	fmt.Println(New, Reused, Taken)
	// Output: new reused taken
}
