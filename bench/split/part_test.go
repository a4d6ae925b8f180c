package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/bench/shape"
)

// machine has nodes of caches of cores of threads; the first threads of all cores
// have the first numbers.
func machine(nodes, caches, cores, threads int) shape.Shape {
	var s shape.Shape
	total := nodes * caches * cores
	for id := range total * threads {
		core := id % total
		c := shape.CPU{ID: id, Node: core / (caches * cores), Cache: core / cores}
		for t := range threads {
			c.Core = append(c.Core, core+t*total)
		}
		s.CPUs = append(s.CPUs, c)
	}
	return s
}

func TestHalve(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape shape.Shape
		want  [2]string // where each goes, and its load
	}{
		{"two CPUs", machine(1, 1, 2, 1), [2]string{"place 7 --node 0 --cpus 0 []", "place 7 --node 0 --cpus 1 []"}},
		{"two threads", machine(1, 1, 1, 2), [2]string{"place 7 --node 0 --cpus 0 []", "place 7 --node 0 --cpus 1 []"}},
		{"three CPUs", machine(1, 1, 3, 1), [2]string{"place 7 --node 0 --cpus 0 []", "place 7 --node 0 --cpus 1 []"}},
		{"two small nodes", machine(2, 1, 2, 1), [2]string{"place 7 --node 0 []", "place 7 --node 1 []"}},
		{"two nodes of four", machine(2, 1, 4, 1), [2]string{"place 7 --node 0 --cpus 0,1 [2 3]", "place 7 --node 1 --cpus 4,5 [6 7]"}},
		{"four nodes", machine(4, 1, 1, 2), [2]string{"place 7 --node 0 []", "place 7 --node 1 []"}},
		{"caches and threads", machine(1, 4, 1, 2), [2]string{"place 7 --node 0 --cpus 0,4 [2 6]", "place 7 --node 0 --cpus 1,5 [3 7]"}},
	} {
		parts, err := halve(c.shape)
		for i, p := range parts {
			if got := fmt.Sprint(strings.Join(p.place(7), " "), " ", p.load); err != nil || got != c.want[i] {
				t.Errorf("%s, part %d: %s, %v; want %s", c.name, i, got, err, c.want[i])
			}
		}
	}
	if _, err := halve(machine(1, 1, 1, 1)); err == nil {
		t.Error("one CPU is halved")
	}
}

func TestArrangements(t *testing.T) {
	near, apart := [2]part{{node: 0}, {node: 0}}, [2]part{{node: 0}, {node: 1}}
	four := []string{one, two, split, twoAgain}
	for _, c := range []struct {
		name  string
		parts [2]part
		http  bool
		want  []string
	}{
		{"one node", near, true, four},
		{"two nodes", apart, true, append(slices.Clone(four), twoBehind, splitSilo)},
		{"a database", apart, false, four},
	} {
		var got []string
		for _, a := range arrangements(c.parts, c.http) {
			got = append(got, a.String())
			if a.split != (a.name == split || a.name == splitSilo) || a.behind != (a.name == twoBehind || a.name == splitSilo) {
				t.Errorf("%+v", a)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	if o, err := parse([]string{"-apps", "postgres", "-rounds", "3"}); err != nil || o.Rounds != 3 || !slices.Equal(o.apps, []string{appPostgres}) {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{"-apps", "mysql"}, {"-rounds", "0"}, {"-measure", "1ms"}, {"-warm", "-1s"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
