package segment

import (
	"strings"
	"testing"
)

// A transcript of reloads on a segment with three slots.
func TestAssign(t *testing.T) {
	s := create(t, Shape{Workers: 1, Loops: 1, Servers: 3})
	full := "segment: server u5 of farm f: all 3 server slots are in use"
	for i, step := range []struct {
		do      string // assign or release
		farm    string
		url     string
		slot    int
		wantErr string
	}{
		{do: "assign", farm: "f", url: "u1", slot: 0},
		{do: "assign", farm: "f", url: "u2", slot: 1},
		{do: "assign", farm: "f", url: "u1", slot: 0}, // the same server keeps its slot
		{do: "release", slot: 0},
		{do: "assign", farm: "f", url: "u3", slot: 2}, // an unused slot goes first
		{do: "release", slot: 1},
		{do: "assign", farm: "f", url: "u2", slot: 1}, // it comes back to its own
		{do: "assign", farm: "f", url: "u4", slot: 0}, // the released one, at last
		{do: "assign", farm: "f", url: "u5", wantErr: full},
		{do: "assign", farm: "f", url: "u1", wantErr: strings.Replace(full, "u5", "u1", 1)},
		{do: "release", slot: 2},
		{do: "release", slot: 2},                      // twice is once
		{do: "assign", farm: "fu", url: "3", slot: 2}, // not the same identity as f, u3
	} {
		if step.do == "release" {
			s.Release(step.slot)
			if _, _, ok := s.ServerName(step.slot); ok {
				t.Errorf("step %d: released slot %d has an owner", i, step.slot)
			}
			continue
		}
		slot, err := s.Assign(step.farm, step.url)
		if step.wantErr != "" {
			if err == nil || err.Error() != step.wantErr {
				t.Errorf("step %d: %v, want %q", i, err, step.wantErr)
			}
			continue
		}
		if err != nil || slot != step.slot {
			t.Errorf("step %d: slot %d, %v; want %d", i, slot, err, step.slot)
		}
		if farm, url, ok := s.ServerName(slot); farm != step.farm || url != step.url || !ok {
			t.Errorf("step %d: slot %d belongs to %q %q %v", i, slot, farm, url, ok)
		}
	}
}

func TestReleaseOfUnusedSlotDoesNothing(t *testing.T) {
	s := create(t, Shape{Workers: 1, Loops: 1, Servers: 2})
	s.Release(1)
	for want, url := range []string{"u1", "u2"} {
		if slot, err := s.Assign("f", url); err != nil || slot != want {
			t.Errorf("%s: slot %d, %v; want %d", url, slot, err, want)
		}
	}
}

func TestIdentityLength(t *testing.T) {
	s := create(t, Shape{Workers: 1, Loops: 1, Servers: 2})
	url := strings.Repeat("u", NameBytes-len("farm"))
	if _, err := s.Assign("farm", url); err != nil {
		t.Errorf("%d bytes: %v", NameBytes, err)
	}
	if farm, got, _ := s.ServerName(0); farm != "farm" || got != url {
		t.Errorf("the longest name came back as %q %q", farm, got)
	}
	_, err := s.Assign("farm", url+"u")
	if err == nil || !strings.Contains(err.Error(), "take 241 bytes, the limit is 240") {
		t.Errorf("%d bytes: %v", NameBytes+1, err)
	}
}

// A slot that changes hands starts at 0; one that comes back to its server goes on.
func TestFiguresOfReusedSlot(t *testing.T) {
	s := create(t, Shape{Workers: 2, Loops: 2, Servers: 1})
	slot, err := s.Assign("f", "old")
	if err != nil {
		t.Fatal(err)
	}
	for w := range 2 {
		s.Worker(w).Loops.Store(2)
		for l := range 2 {
			s.Server(w, l, slot).Requests.Add(10)
			s.Server(w, l, slot).Response.Observe(1e6)
		}
	}
	s.Gate(slot).Limit.Store(20)
	if s.Home(slot).Node() != -1 {
		t.Errorf("a new server is on node %d", s.Home(slot).Node())
	}
	s.Home(slot).Settle(0)
	for _, step := range []struct {
		url             string
		requests, limit int
		node            int
	}{{"old", 10, 20, 0}, {"new", 0, 0, -1}} {
		s.Release(slot)
		if _, err := s.Assign("f", step.url); err != nil {
			t.Fatal(err)
		}
		for w := range 2 {
			for l := range 2 {
				got := s.Server(w, l, slot)
				if got.Requests.Load() != uint64(step.requests) || got.Response.Count() != uint64(step.requests/10) {
					t.Errorf("%s, worker %d, loop %d: %d requests, %d responses", step.url, w, l, got.Requests, got.Response.Count())
				}
			}
		}
		if got := s.Gate(slot).Limit.Load(); got != int64(step.limit) {
			t.Errorf("%s: limit %d, want %d", step.url, got, step.limit)
		}
		if got := s.Home(slot).Node(); got != step.node {
			t.Errorf("%s: node %d, want %d", step.url, got, step.node)
		}
	}
}
