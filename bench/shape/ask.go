package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/bench/configs"
	"sluice/bench/proc"
)

// Asker asks one Sluice.
type Asker struct {
	Sluice string // path of the program
	Dir    string // for what is written
}

// Machine asks for the machine that this process may use.
func (a Asker) Machine() (Shape, error) {
	said, err := a.ask(nil)
	if err != nil {
		return Shape{}, err
	}
	return parse(said)
}

// Workers asks for the CPUs of each worker that Sluice would start with
// `workers: {per: PER}` on these CPUs.
func (a Asker) Workers(per string, cpus []int) ([][]int, error) {
	text, err := configs.Render("sluice.yaml", configs.Setup{Dir: a.Dir, Port: 1, Backends: []int{1}, Per: per})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(a.Dir, "plan.yaml")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return nil, err
	}
	said, err := a.ask(cpus, "--config", path)
	if err != nil {
		return nil, err
	}
	var l layout
	if err := json.Unmarshal(said, &l); err != nil {
		return nil, fmt.Errorf("sluice topology: %w", err)
	}
	return l.Plan.cpus(), nil
}

// ask runs `sluice topology --json` on these CPUs; nil: on all that there are.
func (a Asker) ask(cpus []int, args ...string) ([]byte, error) {
	var out bytes.Buffer
	log := filepath.Join(a.Dir, "topology.log")
	p, err := proc.Start(proc.Command{Path: a.Sluice, Args: append([]string{"topology", "--json"}, args...), Output: &out, Log: log, CPUs: cpus})
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	if err := p.Wait(); err != nil {
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("sluice topology: %w: %s", err, strings.TrimSpace(string(text)))
	}
	return out.Bytes(), nil
}

// layout is what is read of the answer.
type layout struct {
	Machine struct {
		CPUs []struct {
			ID    int
			Node  int
			Cache int
			Core  []int
		}
		Hypervisor string
		Limits     struct{ CPUs float64 }
	}
	Plan plan
}

// plan is Sluice's for its workers.
type plan struct{ Workers []struct{ CPUs []int } }

func (p plan) cpus() [][]int {
	var all [][]int
	for _, w := range p.Workers {
		all = append(all, w.CPUs)
	}
	return all
}

// parse reads the machine. The CPUs are those of the plan.
func parse(said []byte) (Shape, error) {
	var l layout
	if err := json.Unmarshal(said, &l); err != nil {
		return Shape{}, fmt.Errorf("sluice topology: %w", err)
	}
	used := slices.Concat(l.Plan.cpus()...)
	s := Shape{Limit: l.Machine.Limits.CPUs, Hypervisor: l.Machine.Hypervisor}
	for _, c := range l.Machine.CPUs {
		if slices.Contains(used, c.ID) {
			s.CPUs = append(s.CPUs, CPU{ID: c.ID, Node: c.Node, Cache: c.Cache, Core: c.Core})
		} else {
			s.LeftOut = append(s.LeftOut, c.ID)
		}
	}
	if len(s.CPUs) == 0 {
		return s, fmt.Errorf("sluice topology plans no worker on a CPU that it knows: %.200s", said)
	}
	return s, nil
}
