package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/bench/shape"
)

// machine has nodes of caches of CPUs, each a core of its own.
func machine(nodes, caches, cpus int) shape.Shape {
	var s shape.Shape
	for id := range nodes * caches * cpus {
		s.CPUs = append(s.CPUs, shape.CPU{ID: id, Node: id / (caches * cpus), Cache: id / cpus, Core: []int{id}})
	}
	return s
}

// counts are the numbers of CPUs of the steps.
func counts(steps [][]int) string {
	var all []string
	for _, s := range steps {
		all = append(all, fmt.Sprint(len(s)))
	}
	return strings.Join(all, " ")
}

func TestAutoSteps(t *testing.T) {
	blind := machine(1, 1, 4)
	for i := range blind.CPUs {
		blind.CPUs[i].Cache = -1
	}
	for _, c := range []struct {
		name  string
		shape shape.Shape
		want  string
	}{
		{"one CPU", machine(1, 1, 1), "1"},
		{"two CPUs", machine(1, 1, 2), "1 2"},
		{"a node of two caches", machine(1, 2, 4), "1 4 8"},
		{"two nodes", machine(2, 1, 20), "1 20 40"},
		{"three nodes", machine(3, 1, 4), "1 4 8 12"},
		{"eight nodes of two caches", machine(8, 2, 5), "1 5 10 20 40 80"},
		{"caches of one CPU", machine(2, 2, 1), "1 2 4"},
		{"no cache known", blind, "1 4"},
	} {
		if got := counts(autoSteps(c.shape)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestNamedSteps(t *testing.T) {
	steps, err := namedSteps(machine(2, 1, 4), []int{8, 1, 4, 4})
	if err != nil || counts(steps) != "1 4 8" || !slices.Equal(steps[1], []int{0, 1, 2, 3}) {
		t.Errorf("%v, %v", steps, err)
	}
	if _, err := namedSteps(machine(1, 1, 2), []int{3}); err == nil || !strings.Contains(err.Error(), "write 1 to 2") {
		t.Errorf("three of two CPUs: %v", err)
	}
}

// planned makes a worker for each node, each cache, or all.
func planned(whole shape.Shape) planner {
	return func(per string, cpus []int) ([][]int, error) {
		at := map[string]func(shape.CPU) int{
			"node": func(c shape.CPU) int { return c.Node }, "cluster": func(c shape.CPU) int { return c.Cache }, "machine": func(shape.CPU) int { return 0 },
		}[per]
		if at == nil {
			return nil, errors.New("workers.per: what is " + per)
		}
		var workers [][]int
		last := -1
		for _, c := range whole.Only(cpus).CPUs {
			if at(c) != last {
				last, workers = at(c), append(workers, nil)
			}
			workers[len(workers)-1] = append(workers[len(workers)-1], c.ID)
		}
		return workers, nil
	}
}

func TestSizes(t *testing.T) {
	pers := []string{"node", "machine", "cluster"}
	for _, c := range []struct {
		name  string
		shape shape.Shape
		want  []string
	}{
		{"two CPUs", machine(1, 1, 2), []string{"1 CPU, per node = machine = cluster: 1", "2 CPUs, per node = machine = cluster: 1"}},
		{"two nodes", machine(2, 1, 2), []string{
			"1 CPU, per node = machine = cluster: 1", "2 CPUs, per node = machine = cluster: 1",
			"4 CPUs, per node = cluster: 2", "4 CPUs, per machine: 1"}},
		{"two nodes of two caches", machine(2, 2, 1), []string{
			"1 CPU, per node = machine = cluster: 1", "2 CPUs, per node = machine: 1", "2 CPUs, per cluster: 2",
			"4 CPUs, per node: 2", "4 CPUs, per machine: 1", "4 CPUs, per cluster: 4"}},
	} {
		all, err := sizes(c.shape, feed{}, autoSteps(c.shape), pers, planned(c.shape))
		var got []string
		for _, s := range all {
			got = append(got, fmt.Sprintf("%s: %d", s.name(), s.workers))
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	two := machine(2, 1, 1)
	all, err := sizes(two, feed{first: true}, autoSteps(two), []string{"node", "node/soft", "machine"}, planned(two))
	if err != nil || len(all) != 4 || all[0].name() != "1 CPU, per node = node/soft = machine" || all[2].name() != "2 CPUs, per node/soft" || all[2].steering != "cpu" {
		t.Errorf("with soft: %+v, %v", all, err)
	}
	if _, err := sizes(machine(1, 1, 2), feed{}, [][]int{{0}}, []string{"rack"}, planned(machine(1, 1, 2))); err == nil {
		t.Error("a plan that cannot be is no fault")
	}
}

func TestShare(t *testing.T) {
	two := machine(2, 1, 4)
	for _, c := range []struct {
		name  string
		shape shape.Shape
		from  feed
		cpus  []int
		want  string
	}{
		{"the other CPU", machine(1, 1, 2), feed{}, []int{0}, "{[0] [[1]] [[1]] false} false"},
		{"none is left", machine(1, 1, 2), feed{}, []int{0, 1}, "{[0 1] [[0 1]] [[0 1]] true} false"},
		{"shared always", machine(1, 1, 2), feed{shared: true}, []int{0}, "{[0] [[0]] [[0]] true} false"},
		{"on the first", two, feed{first: true}, []int{4, 0}, "{[0 4] [[4]] [[4]] true} false"},
		{"a pair for four CPUs that are shared", machine(1, 1, 8), feed{}, []int{0, 1, 2, 3, 4, 5, 6, 7},
			"{[0 1 2 3 4 5 6 7] [[0 1 2 3 4 5 6 7] [0 1 2 3 4 5 6 7]] [[0 1 2 3 4 5 6 7] [0 1 2 3 4 5 6 7]] true} false"},
		{"set aside on each node", two, feed{aside: []int{2, 3, 6, 7}}, []int{0, 1, 4, 5}, "{[0 1 4 5] [[2] [6]] [[3] [7]] false} false"},
		{"of the own node only", two, feed{aside: []int{2, 3, 6, 7}}, []int{0}, "{[0] [[2]] [[3]] false} false"},
		{"from afar", two, feed{}, []int{0, 1, 2, 3}, "{[0 1 2 3] [[4] [5]] [[6] [7]] false} true"},
		{"afar in part", two, feed{}, []int{0, 1, 2, 3, 4}, "{[0 1 2 3 4] [[5]] [[6]] false} true"},
	} {
		layout, afar := share(c.shape, c.from, c.cpus)
		if got := fmt.Sprint(layout, " ", afar); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
