// Package tune says which CPU serves which queue of a network card, and makes it so.
// It is what Set-NetAdapterRss does on Windows.
//
//	tune.go   machine and workers → settings: pure
//	homes.go  on which nodes a card delivers: pure
//	files.go  compares settings with files, writes them, and takes them back
//
// A connection is served on the node on which it arrives, so where a card's packets
// arrive decides which worker gets them. The plan in order:
//
//  1. a card delivers on its own node, and on those nodes with workers that have no
//     card and to which it is the nearest: else these would get nothing
//  2. the interrupt of each queue goes to one CPU of these nodes, in turn: to those
//     that are left to interrupts if there are such, else to those of workers, whole
//     cores before their other threads
//  3. XPS: each CPU of a worker sends by one queue, its own, or one of its node
//  4. RPS and RFS, which share out in software what queues do not: only for a card
//     that has one receive queue, or fewer than nodes to deliver on
//
// The sources are Documentation/networking/scaling.rst and
// Documentation/core-api/irq/irq-affinity.rst of the kernel.
package tune

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/placement"
	"sluice/internal/process"
	"sluice/internal/topology"
)

// Form is how a file writes its value.
type Form int

// Forms of values.
const (
	List  Form = iota // CPUs as "0-3,8"
	Mask              // CPUs as "10f"
	Count             // a number
	Floor             // a number that may as well be larger
)

// Setting is the value that a file of the kernel should have.
type Setting struct {
	File  string // below the root: "proc/irq/40/smp_affinity_list"
	Value string
	Form  Form
}

// Plan is what should be.
type Plan struct {
	Cards    []string  // a line for each: where it delivers
	Settings []Setting // in order of the cards
	Notes    []string  // what stands against it, and what would help
}

// flows is the size of the tables of RFS, as scaling.rst advises for a server of
// moderate load; the one of a card with a single queue is as large as that of all.
const flows = 32768

// flowsFile has the size of the table of all cards.
const flowsFile = "proc/sys/net/core/rps_sock_flow_entries"

// Make plans for the cards of a machine that are up, or for the one that is named
// alone. The error says which cards there are.
func Make(m *topology.Machine, a *placement.Assignment, card string) (*Plan, error) {
	p := &planner{machine: m, workers: map[int][]int{}, spare: map[int][]int{}, plan: &Plan{}}
	for _, w := range a.Workers {
		p.deal(p.workers, w.CPUs)
		p.deal(p.spare, w.Reserved)
	}
	var names []string
	for i := range m.NICs {
		n := &m.NICs[i]
		names = append(names, n.Name)
		if n.Up && (card == "" || card == n.Name) || card == n.Name {
			p.card(n)
		} else if card == "" {
			p.note("%s is down: left as it is", n.Name)
		}
	}
	if card != "" && !slices.Contains(names, card) {
		if len(names) == 0 {
			return nil, fmt.Errorf("there is no network card %q, nor any other with a device behind it", card)
		}
		return nil, fmt.Errorf("there is no network card %q with a device behind it; there are: %s", card, strings.Join(names, ", "))
	}
	if len(names) == 0 {
		p.note("there is no network card with a device behind it")
	}
	return p.plan, nil
}

// Balancer notes a running irqbalance, which would undo it all.
func Balancer(tree fs.FS) []string {
	all, _ := process.All(tree)
	for _, p := range all {
		if p.Name == "irqbalance" && !p.Ended() {
			return []string{fmt.Sprintf("irqbalance runs (process %d) and moves interrupts as it likes: systemctl disable --now irqbalance", p.PID)}
		}
	}
	return nil
}

// planner is one plan under way.
type planner struct {
	machine *topology.Machine
	workers map[int][]int // CPUs of workers, by node
	spare   map[int][]int // CPUs that are left to interrupts, by node
	plan    *Plan
}

// deal sorts CPUs by node: whole cores before their other threads.
func (p *planner) deal(into map[int][]int, cpus []int) {
	first := func(cpu int) bool {
		c, known := p.machine.CPU(cpu)
		return !known || c.Core[0] == cpu || !slices.Contains(cpus, c.Core[0])
	}
	for _, wanted := range []bool{true, false} {
		for _, cpu := range cpus {
			if node := p.machine.NodeOf(cpu); node >= 0 && first(cpu) == wanted {
				into[node] = append(into[node], cpu)
			}
		}
	}
}

// card plans for one.
func (p *planner) card(n *topology.NIC) {
	homes := p.homes(n) // 1
	targets := p.targets(homes)
	queues := queuesOf(n)
	if len(targets) == 0 || len(queues) == 0 && len(n.Rx) == 0 {
		p.note("%s: neither its queues nor its interrupts are known: left as it is", n.Name)
		return
	}
	p.plan.Cards = append(p.plan.Cards, p.tell(n, homes, targets[:min(max(len(queues), len(n.Rx)), len(targets))]))
	p.interrupts(n, queues, targets) // 2
	p.transmit(n, targets)           // 3
	p.receive(n, homes)              // 4
	if cpus := p.on(homes); len(n.Rx) > 0 && len(n.Rx) < len(cpus) {
		p.note("%s has %s for %s: ethtool -l %s says whether it can have more", n.Name, counted(len(n.Rx), "receive queue"), counted(len(cpus), "CPU"), n.Name)
	}
}

// tell says where a card will deliver.
func (p *planner) tell(n *topology.NIC, homes, targets []int) string {
	at := ""
	if n.Node >= 0 && len(p.machine.Nodes) > 1 {
		at = fmt.Sprintf(" on node %d", n.Node)
	}
	ascending := func(ids []int) string { return topology.FormatCPUs(slices.Sorted(slices.Values(ids))) }
	return fmt.Sprintf("%s%s, %s: interrupts for node %s go to CPU %s", n.Name, at, counted(len(n.Rx), "receive queue"), ascending(homes), ascending(targets))
}

// counted is "1 CPU", "2 CPUs".
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprint(n, " ", noun)
}

// queuesOf lists the queues that have an interrupt, ascending.
func queuesOf(n *topology.NIC) []int {
	var queues []int
	for _, irq := range n.IRQs {
		if irq.Queue >= 0 {
			queues = append(queues, irq.Queue)
		}
	}
	slices.Sort(queues)
	return slices.Compact(queues)
}

// interrupts gives each queue's to the CPU whose turn it is.
func (p *planner) interrupts(n *topology.NIC, queues, targets []int) {
	for _, irq := range n.IRQs {
		if irq.Queue < 0 {
			continue
		}
		cpu := strconv.Itoa(targets[slices.Index(queues, irq.Queue)%len(targets)])
		channel, isChannel := strings.CutPrefix(irq.Name, "channel ")
		if irq.Number == 0 && isChannel {
			p.set(fmt.Sprintf("sys/class/net/%s/device/channels/%s/cpu", n.Name, channel), cpu, Count)
			continue
		}
		p.set(fmt.Sprintf("proc/irq/%d/smp_affinity_list", irq.Number), cpu, List)
	}
}

// transmit says by which queue each CPU sends. A card with one has no choice, and
// its file cannot be read.
func (p *planner) transmit(n *topology.NIC, targets []int) {
	if len(n.Tx) < 2 {
		return
	}
	senders := make([][]int, len(n.Tx))
	var used []int
	for i := range n.Tx {
		senders[i] = []int{targets[i%len(targets)]}
		used = append(used, senders[i][0])
	}
	away := 0 // CPUs of nodes that have no queue, which take what comes
	for _, node := range p.machine.Nodes {
		near := queuesOn(p.machine, senders, node.ID)
		for i, cpu := range without(p.workers[node.ID], used) {
			queue := away % len(n.Tx)
			if len(near) > 0 {
				queue = near[i%len(near)]
			} else {
				away++
			}
			senders[queue] = append(senders[queue], cpu)
		}
	}
	for i, q := range n.Tx {
		p.set(fmt.Sprintf("sys/class/net/%s/queues/tx-%d/xps_cpus", n.Name, q.Index), mask(senders[i]), Mask)
	}
}

// queuesOn lists the queues whose first CPU is on a node.
func queuesOn(m *topology.Machine, senders [][]int, node int) []int {
	var near []int
	for i := range senders {
		if m.NodeOf(senders[i][0]) == node {
			near = append(near, i)
		}
	}
	return near
}

// receive turns RPS on where queues are too few: queue i shares its packets out to
// the CPUs of every len(queues)-th node. Elsewhere RPS that leads to nodes on which
// the card should not deliver is turned off.
func (p *planner) receive(n *topology.NIC, homes []int) {
	few := len(n.Rx) == 1 && len(p.on(homes)) > 1 || len(n.Rx) < len(homes)
	for i, q := range n.Rx {
		dir := fmt.Sprintf("sys/class/net/%s/queues/rx-%d/", n.Name, q.Index)
		if !few {
			if len(q.CPUs) > 0 && len(without(q.CPUs, p.on(homes))) > 0 {
				p.set(dir+"rps_cpus", "0", Mask)
			}
			continue
		}
		var nodes []int
		for j := i; j < len(homes); j += len(n.Rx) {
			nodes = append(nodes, homes[j])
		}
		p.set(dir+"rps_cpus", mask(p.on(nodes)), Mask)
		p.set(dir+"rps_flow_cnt", strconv.Itoa(flows/len(n.Rx)), Floor)
	}
	if few && len(n.Rx) > 0 {
		p.set(flowsFile, strconv.Itoa(flows), Floor)
	}
}

// set adds a setting, unless another card's is the same.
func (p *planner) set(file, value string, form Form) {
	s := Setting{File: file, Value: value, Form: form}
	if !slices.Contains(p.plan.Settings, s) {
		p.plan.Settings = append(p.plan.Settings, s)
	}
}

func (p *planner) note(format string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(format, args...))
}

func mask(cpus []int) string { return topology.FormatMask(cpus) }

func without(cpus, others []int) []int {
	return slices.DeleteFunc(slices.Clone(cpus), func(cpu int) bool { return slices.Contains(others, cpu) })
}
