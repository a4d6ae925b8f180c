package supervisor

import (
	"fmt"
	"math/rand/v2"
	"reflect"
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

func TestUnused(t *testing.T) {
	placed := []placement.Worker{on(0, 0, 1), on(1, 4)}
	for _, c := range []struct {
		planned []placement.Worker
		want    string
	}{
		{placed, "[]"},
		{[]placement.Worker{on(0, 0), on(1, 4)}, "[]"},
		{[]placement.Worker{on(1, 4, 5), on(0, 0, 1, 3)}, "[3 5]"},
	} {
		if got := fmt.Sprint(unused(c.planned, placed)); got != c.want {
			t.Errorf("%v: %s, want %s", c.planned, got, c.want)
		}
	}
}
