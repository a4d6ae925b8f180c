package supervisor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/topology"
)

// Each key of workers reaches the plan, under the same name.
func TestWishesCarryEveryKey(t *testing.T) {
	w := config.Workers{Per: "3", Affinity: "none", Memory: "bind", Loops: 2, Reserve: "cpu", CPUs: "0-7", Nodes: "1"}
	from, to := reflect.ValueOf(w), reflect.ValueOf(Wishes(w))
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		if got := to.FieldByName(name); !got.IsValid() || from.Field(i).IsZero() || !got.Equal(from.Field(i)) {
			t.Errorf("%s: %v, want %v", name, got, from.Field(i))
		}
	}
}

// What config lets pass, placement understands.
func TestConfigIsNoMoreLenient(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	taken := 0
	valid := func(w config.Workers) bool {
		c, err := config.Simple("", "http://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		c.Workers = w
		return c.Validate() == nil
	}
	for range 3000 {
		text := ""
		for range 1 + r.IntN(8) {
			text += string("0123456789--,,x "[r.IntN(16)])
		}
		w := config.Default().Workers
		w.CPUs, w.Nodes = text, ""
		if _, err := topology.ParseCPUs(text); valid(w) && err != nil {
			t.Errorf("workers.cpus %q is taken, but %v", text, err)
		}
		w.CPUs, w.Nodes = "", text
		if _, err := topology.ParseCPUs(text); valid(w) && err != nil {
			t.Errorf("workers.nodes %q is taken, but %v", text, err)
		} else if valid(w) {
			taken++
		}
	}
	if taken < 100 {
		t.Errorf("only %d lists were valid", taken)
	}
	for per, want := range map[string]bool{strconv.Itoa(placement.MaxWorkers): true, strconv.Itoa(placement.MaxWorkers + 1): false} {
		w := config.Default().Workers
		if w.Per = per; valid(w) != want {
			t.Errorf("workers.per %s: valid is %t, want %t", per, !want, want)
		}
	}
}

// CPUs that came after the start, and that the configuration has workers use.
func TestIdle(t *testing.T) {
	s := &Supervisor{nodes: []topology.Node{{ID: 0, CPUs: []int{0, 1}}, {ID: 1, CPUs: []int{4}}}}
	now := func(first, second []int) *topology.Machine {
		m := &topology.Machine{Nodes: []topology.Node{{ID: 0, CPUs: first, HasMemory: true}, {ID: 1, CPUs: second, HasMemory: true}}}
		m.Online, m.Affinity.CPUs = slices.Concat(first, second), []int{0, 1, 4}
		return m
	}
	for _, c := range []struct {
		machine *topology.Machine
		only    string
		want    string
	}{
		{now([]int{0, 1}, []int{4}), "", "[]"},
		{now([]int{0}, []int{4}), "", "[]"},
		{now([]int{0, 1, 3}, []int{4, 5}), "", "[3 5]"},
		{now([]int{0, 1, 3}, []int{4, 5}), "0-4", "[3]"},
	} {
		w := config.Workers{Per: "node", Affinity: "hard", Memory: "prefer", CPUs: c.only}
		if got := fmt.Sprint(s.idle(c.machine, w)); got != c.want {
			t.Errorf("%v, cpus %q: %s, want %s", c.machine, c.only, got, c.want)
		}
	}
}
