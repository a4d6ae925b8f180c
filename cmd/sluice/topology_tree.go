package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/topology"
)

// branch is a thing with what is in it.
type branch struct {
	text  string
	below []branch
}

// print draws a branch and all below it.
func (b branch) print(w io.Writer) error {
	var text strings.Builder
	text.WriteString(b.text + "\n")
	b.draw(&text, "")
	_, err := io.WriteString(w, text.String())
	return err
}

// draw writes what is below a branch, each line after margin.
func (b branch) draw(to *strings.Builder, margin string) {
	for i, child := range b.below {
		mark, next := "├─ ", "│  "
		if i == len(b.below)-1 {
			mark, next = "└─ ", "   "
		}
		to.WriteString(margin + mark + child.text + "\n")
		child.draw(to, margin+next)
	}
}

// tree draws the machine: sockets, nodes, caches, cores and CPUs. What is unknown
// is no level. A node that spans sockets stands in each.
func (l *layout) tree() branch {
	t := &treeMaker{layout: l, users: l.users()}
	m := l.Machine
	top := branch{text: summary(m)}
	for _, socket := range groups(m.CPUs, func(c topology.CPU) int { return c.Socket }) {
		nodes := t.nodes(socket)
		if socket[0].Socket < 0 {
			top.below = append(top.below, nodes...)
			continue
		}
		top.below = append(top.below, branch{"socket " + strconv.Itoa(socket[0].Socket), nodes})
	}
	for i := range m.Nodes {
		if n := &m.Nodes[i]; len(n.CPUs) == 0 {
			top.below = append(top.below, branch{nodeText(n) + ", no CPU", t.cards(n.ID)})
		}
	}
	top.below = append(top.below, t.cards(-1)...)
	return top
}

// treeMaker draws one machine.
type treeMaker struct {
	*layout
	users map[int]string // a CPU: who runs on it
	drawn []int          // nodes that were drawn with all that is on them
}

// nodes draws the nodes of some CPUs.
func (t *treeMaker) nodes(cpus []topology.CPU) []branch {
	var made []branch
	for _, group := range groups(cpus, func(c topology.CPU) int { return c.Node }) {
		n := t.Machine.Node(group[0].Node)
		if n == nil {
			made = append(made, t.caches(group)...)
			continue
		}
		b := branch{text: nodeText(n), below: t.caches(group)}
		if slices.Contains(t.drawn, n.ID) {
			b.text = fmt.Sprintf("node %d, another part", n.ID)
		} else {
			b.below = append(b.below, t.cards(n.ID)...)
		}
		t.drawn = append(t.drawn, n.ID)
		made = append(made, b)
	}
	return made
}

func nodeText(n *topology.Node) string {
	text := "node " + strconv.Itoa(n.ID)
	switch memory := memoryText(n); {
	case memory == "none":
		text += ", no memory"
	case memory != "-":
		text += ", memory " + memory
	}
	if n.MemAvailable > 0 {
		text += ", available " + bytesText(n.MemAvailable)
	}
	return text
}

// caches draws the last-level caches of some CPUs of one node.
func (t *treeMaker) caches(cpus []topology.CPU) []branch {
	var made []branch
	for _, group := range groups(cpus, func(c topology.CPU) int { return c.Cache }) {
		cores := t.cores(group)
		if i := group[0].Cache; i >= 0 && i < len(t.Machine.Caches) {
			made = append(made, branch{cacheText(t.Machine.Caches[i]), cores})
		} else {
			made = append(made, cores...)
		}
	}
	return made
}

// cores draws each core as a line with its CPUs.
func (t *treeMaker) cores(cpus []topology.CPU) []branch {
	var made []branch
	for _, core := range groups(cpus, func(c topology.CPU) int { return c.Core[0] }) {
		name := "core:"
		if core[0].Efficient {
			name = "efficiency core:"
		}
		var threads []string
		for _, c := range core {
			threads = append(threads, fmt.Sprintf("CPU %d %s", c.ID, t.user(c.ID)))
		}
		made = append(made, branch{text: name + " " + strings.Join(threads, ", ")})
	}
	return made
}

// user says who runs on a CPU.
func (t *treeMaker) user(cpu int) string {
	text := t.users[cpu]
	if text == "" {
		text = "unused"
	}
	if slices.Contains(t.Machine.Isolated, cpu) {
		text += ", isolated"
	}
	return "(" + text + ")"
}

// users says of each CPU that the plan names what it is for.
func (l *layout) users() map[int]string {
	users := map[int]string{}
	if l.Plan == nil {
		return users
	}
	for _, w := range l.Plan.Workers {
		for _, cpu := range w.Reserved {
			users[cpu] = "interrupts"
		}
		for i, cpu := range w.CPUs {
			users[cpu] = "worker " + strconv.Itoa(w.Index)
			var loops []int
			for loop := i; w.Pin && loop < w.Loops; loop += len(w.CPUs) {
				loops = append(loops, loop)
			}
			if len(loops) > 0 {
				users[cpu] += " loop " + topology.FormatCPUs(loops)
			}
		}
	}
	return users
}

// cards draws the network cards of a node; -1: those whose node is unknown.
func (t *treeMaker) cards(id int) []branch {
	var made []branch
	for i := range t.Machine.NICs {
		n := &t.Machine.NICs[i]
		if n.Node != id && (id >= 0 || t.Machine.Node(n.Node) != nil) {
			continue
		}
		text := "card " + n.Name
		if n.Driver != "" {
			text += ", " + n.Driver
		}
		if !n.Up {
			text += ", down"
		}
		text += fmt.Sprintf(", %s to receive, %d to send", plural(len(n.Rx), "queue"), len(n.Tx))
		if to := interrupts(t.Machine, n); to != "-" {
			text += "; interrupts " + to
		}
		made = append(made, branch{text: text})
	}
	return made
}

// groups parts CPUs by a key, in the order of each key's first CPU.
func groups(cpus []topology.CPU, key func(topology.CPU) int) [][]topology.CPU {
	var made [][]topology.CPU
	at := map[int]int{}
	for _, c := range cpus {
		i, seen := at[key(c)]
		if !seen {
			i = len(made)
			at[key(c)] = i
			made = append(made, nil)
		}
		made[i] = append(made[i], c)
	}
	return made
}
