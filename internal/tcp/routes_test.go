package tcp

import (
	"testing"

	"sluice/internal/config"
	"sluice/internal/upstream"
)

// The first route that matches wins; a wildcard is for names below it, however deep.
func TestMatch(t *testing.T) {
	cfg := &config.Config{}
	var farms []*upstream.Farm
	for _, name := range []string{"exact", "deep", "wild", "late", "rest"} {
		farms = append(farms, &upstream.Farm{Farm: config.Farm{Name: name}})
	}
	routes := []config.TCPRoute{
		{SNI: "A.Example", Farm: "exact"}, {SNI: "*.b.example.", Farm: "deep"}, {SNI: "*.example", Farm: "wild"},
		{SNI: "late.example", Farm: "late"}, {Farm: "rest"}, {SNI: "never.test", Farm: "late"}, {Farm: "late"},
	}
	names := map[string]string{
		"a.example": "exact", "x.b.example": "deep", "y.x.b.example": "deep", "b.example": "wild", "c.example": "wild", "x.a.example": "wild",
		"late.example": "wild", "example": "rest", "xexample": "rest", "never.test": "rest", "": "rest", ".": "rest", "a.example.": "rest",
	}
	cfg.Listeners = []config.Listener{{Name: "web"}, {Name: "raw", TCP: &config.TCP{Routes: routes}}}
	all := Open{}.Listeners(cfg, farms)
	if len(all) != 1 || all["raw"] == nil {
		t.Fatalf("listeners %v", all)
	}
	for name, want := range names {
		if got := all["raw"].match([]byte(name)); got == nil || got.Name != want {
			t.Errorf("%q goes to %v, want %s", name, got, want)
		}
	}
	cfg.Listeners[1].TCP.Routes = routes[:4]
	as := Open{}.Listeners(cfg, farms)["raw"]
	for _, name := range []string{"", "example", "never.test"} {
		if got := as.match([]byte(name)); got != nil {
			t.Errorf("%q goes to %s, want nowhere", name, got.Name)
		}
	}
	name := []byte("y.x.b.example")
	if n := testing.AllocsPerRun(100, func() { as.match(name) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Connections are counted over a reload, and bounded.
func TestOpen(t *testing.T) {
	open := Open{}
	cfg := &config.Config{Listeners: []config.Listener{{Name: "raw", TCP: &config.TCP{Connections: 2}}}}
	as := open.Listeners(cfg, nil)["raw"]
	if !as.enter() || !as.enter() || as.enter() || as.open.Load() != 2 {
		t.Fatalf("%d connections, of 2 at most", as.open.Load())
	}
	cfg.Listeners[0].TCP = &config.TCP{}
	again := open.Listeners(cfg, nil)["raw"]
	if !again.enter() || !again.enter() || again.open.Load() != 4 {
		t.Errorf("%d connections after the reload", again.open.Load())
	}
	cfg.Listeners[0].TCP = &config.TCP{Connections: 4}
	last := open.Listeners(cfg, nil)["raw"]
	if last.enter() {
		t.Error("a fifth connection, of 4 at most")
	}
	if last.open.Add(-1); !last.enter() {
		t.Error("no fourth connection")
	}
}
