package regulator

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/admission/gate"
	"sluice/internal/admission/limit"
)

// When Use returns the limits are in their gates.
func TestUse(t *testing.T) {
	r := newRig(t, "")
	fixed := limit.Settings{Kind: limit.Fixed, Limit: 7, Min: 1, Max: 100}
	target := limit.Settings{Kind: limit.Gradient2, Min: 2, Max: 9, Target: time.Second}
	servers := []Server{
		r.server("http://a", adaptive), r.server("http://b", fixed),
		r.server("http://c", limit.Settings{Kind: limit.Off}), r.server("http://d", target),
	}
	r.Use(servers)
	for i, want := range []int64{20, 7, 0, 9} {
		if got := r.limit(servers[i].Slot); got < want-4 || got > want+4 || i > 0 && got != want {
			t.Errorf("%s: limit %d, want %d", servers[i].URL, got, want)
		}
	}
	v := r.View()
	for i, s := range v.Servers {
		if s.Server != servers[i] {
			t.Errorf("server %d is shown as %+v", i, s.Server)
		}
	}
}

// Settings that no check should have let through leave a server without a limit,
// and working.
func TestUseOfNonsense(t *testing.T) {
	r := newRig(t, "")
	s := r.server("http://a", limit.Settings{Kind: "no such", Min: 1, Max: 2})
	r.Use([]Server{s})
	r.claim(0, 0, s.Slot)
	r.steps(10)
	if r.limit(s.Slot) != 0 || !strings.Contains(r.log.String(), "no such") {
		t.Errorf("limit %d, log %q", r.limit(s.Slot), r.log.String())
	}
}

// A reload: who stays keeps the controller; other settings make a new one from what
// the old had learned; who is gone keeps its limit, and is remembered.
func TestReload(t *testing.T) {
	r := newRig(t, "")
	a, b, c := r.server("http://a", adaptive), r.server("http://b", adaptive), r.server("http://c", adaptive)
	r.Use([]Server{a, b, c})
	for i, s := range []Server{a, b, c} {
		r.servers[i].controller = &script{answer: limit.Decision{Limit: 31 + i, Centre: 31, Reason: limit.Climb}, state: limit.State{Centre: float64(31 + i)}}
		r.claim(0, 0, s.Slot)
	}
	r.steps(2)
	kept := r.servers[2].controller
	r.servers[0].controller.(*script).state.Centre = 35 // learned since it was kept
	b.Settings.Max = 500
	r.Use([]Server{c, b})
	if r.servers[0].controller != kept {
		t.Error("the controller of a server that stays was made anew")
	}
	if state := r.servers[1].controller.State(); state.Centre != 32 {
		t.Errorf("with other settings it begins with %+v", state)
	}
	if got := r.limit(a.Slot); got != 31 {
		t.Errorf("the limit of a server that is gone is %d, want 31", got)
	}
	if v := r.View(); len(v.Servers) != 2 || len(v.Servers[1].Moves) == 0 {
		t.Errorf("shown: %+v", v)
	}
	r.steps(3)
	r.Use([]Server{a, c})
	if state := r.servers[0].controller.State(); state.Centre != 35 {
		t.Errorf("a server that came back begins with %+v", state)
	}
}

// A slot that another server has now: nothing of the last one's is used, and no
// figure steps back.
func TestReassignedSlot(t *testing.T) {
	r := newRig(t, "")
	c, a := r.scripted()
	for range 3 {
		p := r.claim(0, 0, a.Slot)
		r.steps(1)
		r.end(&p, 0, 0, a.Slot, gate.Good)
		r.steps(1)
	}
	c.state = limit.State{Centre: 77}
	r.Use(nil)
	r.shared.Release(a.Slot)
	for i := range 255 {
		r.server("http://filler-"+itoa(i), adaptive)
	}
	b := r.server("http://b", adaptive)
	if b.Slot != a.Slot {
		t.Fatalf("b has slot %d, want %d", b.Slot, a.Slot)
	}
	r.Use([]Server{b})
	if state := r.servers[0].controller.State(); state.Centre != 20 {
		t.Errorf("it begins with %+v", state)
	}
	fresh := &script{answer: limit.Decision{Limit: 20}}
	r.servers[0].controller = fresh
	p := r.claim(1, 0, b.Slot)
	r.steps(2)
	r.end(&p, 1, 0, b.Slot, gate.Good)
	r.steps(1)
	if got := fresh.last(); got.Good != 1 {
		t.Errorf("its sample is %+v", got)
	}
}

// The same slot, farm and URL is the same server; one that differs in any is not.
func TestIdentity(t *testing.T) {
	r := newRig(t, "")
	s := r.server("http://a", adaptive)
	r.Use([]Server{s})
	for _, other := range []Server{{s.Slot, "other", s.URL, adaptive}, {s.Slot, s.Farm, "http://b", adaptive}, {s.Slot + 1, s.Farm, s.URL, adaptive}} {
		if r.find(other) != nil {
			t.Errorf("%+v is taken for %+v", other, s)
		}
	}
	if r.find(s) == nil {
		t.Error("it does not find itself")
	}
}

// Figures that were there before a server was used, as after an upgrade, are none of
// the new controller's.
func TestFiguresFromBefore(t *testing.T) {
	r := newRig(t, "")
	s := r.server("http://a", adaptive)
	for range 5 {
		p := r.claim(0, 0, s.Slot)
		r.pass(time.Second)
		r.end(&p, 0, 0, s.Slot, gate.Good)
	}
	r.Use([]Server{s})
	c := &script{answer: limit.Decision{Limit: 5}}
	r.servers[0].controller = c
	r.claim(0, 0, s.Slot)
	r.steps(1)
	if got := c.last(); got.Good != 0 || got.Sum != 0 || got.Held > 0.05 {
		t.Errorf("the first sample is %+v", got)
	}
}
