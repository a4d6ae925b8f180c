package shape

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine has nodes of caches of cores of threads; CPUs are numbered as on bare
// metal, the first threads of all cores first.
func machine(nodes, caches, cores, threads int) Shape {
	var s Shape
	total := nodes * caches * cores
	for id := range total * threads {
		core := id % total
		c := CPU{ID: id, Node: core / (caches * cores), Cache: core / cores}
		for t := range threads {
			c.Core = append(c.Core, core+t*total)
		}
		s.CPUs = append(s.CPUs, c)
	}
	return s
}

func TestOrder(t *testing.T) {
	unknown := machine(1, 1, 3, 1)
	for i := range unknown.CPUs {
		unknown.CPUs[i].Cache = -1
	}
	adjacent := machine(1, 1, 4, 1) // as hypervisors number the threads of a core
	for i := range adjacent.CPUs {
		adjacent.CPUs[i].Core = []int{i &^ 1, i | 1}
	}
	for _, c := range []struct {
		name  string
		shape Shape
		want  string
		says  string
	}{
		{"threads side by side", adjacent, "[0 2 1 3]", "4 CPUs, 1 node, 1 cache"},
		{"two CPUs", machine(1, 1, 2, 1), "[0 1]", "2 CPUs, 1 node, 1 cache"},
		{"two nodes with threads", machine(2, 1, 2, 2), "[0 1 4 5 2 3 6 7]", "8 CPUs, 2 nodes, 2 caches"},
		{"two caches with threads", machine(1, 2, 2, 2), "[0 1 4 5 2 3 6 7]", "8 CPUs, 1 node, 2 caches"},
		{"no cache known", unknown, "[0 1 2]", "3 CPUs, 1 node"},
	} {
		if got := fmt.Sprint(c.shape.Order()); got != c.want || c.shape.String() != c.says {
			t.Errorf("%s: %s, %s; want %s, %s", c.name, got, c.shape, c.want, c.says)
		}
	}
}

func TestAside(t *testing.T) {
	uneven := machine(2, 1, 5, 1).Without([]int{9})
	for _, c := range []struct {
		name  string
		shape Shape
		want  []int
	}{
		{"two CPUs", machine(1, 1, 2, 1), nil},
		{"three on each node", machine(2, 1, 3, 1), nil},
		{"four", machine(1, 1, 4, 1), []int{2, 3}},
		{"two cores of two threads", machine(1, 1, 2, 2), []int{1, 3}},
		{"two nodes of four cores of two threads", machine(2, 1, 4, 2), []int{2, 3, 6, 7, 10, 11, 14, 15}},
		{"whole caches", machine(1, 4, 2, 1), []int{4, 5, 6, 7}},
		{"five and four", uneven, []int{3, 4, 7, 8}},
		{"two threads of four cannot be halved", machine(1, 1, 1, 4), nil},
	} {
		if got := c.shape.Aside(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestParts(t *testing.T) {
	s := machine(2, 2, 2, 2)
	if got := fmt.Sprint(s.Cores()); got != "[[0 8] [1 9] [2 10] [3 11] [4 12] [5 13] [6 14] [7 15]]" {
		t.Errorf("cores %s", got)
	}
	if s.Threads() != 2 || s.Only([]int{0, 1}).Threads() != 1 {
		t.Errorf("threads in a core: %d, %d", s.Threads(), s.Only([]int{0, 1}).Threads())
	}
	if got := fmt.Sprint(s.On(1), s.Without(s.On(1)).Nodes(), s.Only(s.On(1)).Caches()); got != "[4 5 12 13 6 7 14 15] [0] [2 3]" {
		t.Errorf("parts %s", got)
	}
}

// said is what Sluice says of a machine of two nodes, of which it uses three CPUs.
const said = `{"machine": {"nodes": [{"id": 0}], "cpus": [
  {"id": 0, "node": 0, "cache": 0, "core": [0]}, {"id": 1, "node": 0, "cache": 0, "core": [1], "efficient": true},
  {"id": 2, "node": 1, "cache": -1, "core": [2, 3]}, {"id": 3, "node": 1, "cache": -1, "core": [2, 3]}],
  "hypervisor": "KVM", "limits": {"cpus": 1.5}},
 "plan": {"workers": [{"index": 0, "cpus": [0]}, {"index": 1, "cpus": [2, 3]}]}}`

func TestParse(t *testing.T) {
	s, err := parse([]byte(said))
	if got := fmt.Sprintf("%v %v %v %s %v", s.Order(), s.LeftOut, s.Limit, s.Hypervisor, s.Caches()); err != nil || got != "[0 2 3] [1] 1.5 KVM [0]" {
		t.Errorf("%s, %v", got, err)
	}
	for _, text := range []string{"", "{}", `{"machine": {"cpus": [{"id": 0}]}, "plan": null}`} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is a machine", text)
		}
	}
}

// TestAsk: a program that stands for Sluice is asked on the CPUs that are meant, and
// for the workers that are meant.
func TestAsk(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "sluice")
	script := "#!/bin/sh\ngrep -q 'per: \"none\"' \"$4\" 2>/dev/null && { echo 'workers.per: none of them' >&2; exit 1; }\ncat <<'END'\n" + said + "\nEND\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	a := Asker{Sluice: program, Dir: dir}
	if s, err := a.Machine(); err != nil || len(s.CPUs) != 3 {
		t.Errorf("%v, %v", s, err)
	}
	workers, err := a.Workers("node", nil)
	if err != nil || fmt.Sprint(workers) != "[[0] [2 3]]" {
		t.Errorf("%v, %v", workers, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "plan.yaml")); err != nil || !strings.Contains(string(text), `workers: {per: "node"}`) {
		t.Errorf("asked with %s, %v", text, err)
	}
	if _, err := a.Workers("none", nil); err == nil || !strings.Contains(err.Error(), "none of them") {
		t.Errorf("a refusal is %v", err)
	}
}
