package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sluice/internal/admin"
	"sluice/internal/topology"
)

// nodes prints the nodes once.
func (w *watcher) nodes(ctx context.Context) error {
	n, err := w.lookAtNodes(ctx)
	if err != nil {
		return err
	}
	return printNodes(w.out, n)
}

// watchNodes prints the nodes after each look, until ctx ends.
func (w *watcher) watchNodes(ctx context.Context) error {
	for {
		n, err := w.lookAtNodes(ctx)
		if err != nil {
			return err
		}
		var screen strings.Builder
		screen.WriteString(clearScreen)
		if err := printNodes(&screen, n); err != nil {
			return err
		}
		if _, err := io.WriteString(w.out, screen.String()); err != nil {
			return err
		}
		if !w.pause(ctx, w.every) {
			return nil
		}
	}
}

func (w *watcher) lookAtNodes(ctx context.Context) (*admin.Nodes, error) {
	body, err := w.fetch(ctx, "/nodes")
	if err != nil {
		return nil, err
	}
	n := new(admin.Nodes)
	if err := json.Unmarshal(body, n); err != nil {
		return nil, fmt.Errorf("%s: the answer is not the nodes of a Sluice: %w", w.address, err)
	}
	return n, nil
}

// printNodes writes a table of nodes and one of workers, with the memory of each
// on each node.
func printNodes(w io.Writer, n *admin.Nodes) error {
	for _, t := range []*table{trafficByNode(n), memoryByWorker(n)} {
		if err := t.print(w); err != nil {
			return err
		}
	}
	if n.MemoryUnknown != "" {
		_, err := fmt.Fprintf(w, "The kernel does not tell where memory is: %s.\n", n.MemoryUnknown)
		return err
	}
	return nil
}

func trafficByNode(n *admin.Nodes) *table {
	t := newTable(">NODE >WORKERS >LOOPS >CONNS >ACTIVE >REQUESTS >REQ/S >OWN-SERVERS >SPILLED >BUSY >MEMORY >LOCAL >REMOTE")
	for _, one := range n.Nodes {
		t.add(node(one.Node), whole(len(one.Workers)), whole(one.Loops), whole(one.Connections), whole(one.Active), whole(one.Requests),
			perSecond(one.RequestsPerSecond), shareText(int64(one.Crossings.Local), int64(one.Crossings.Remote)), whole(one.Crossings.Spilled),
			percent(one.Utilisation), bytesText(one.MemoryBytes),
			shareText(one.LocalBytes, one.RemoteBytes), shareText(one.RemoteBytes, one.LocalBytes))
	}
	return t
}

// shareText is a part of a whole in per cent, given the rest of it; "-" if there
// is nothing.
func shareText(part, rest int64) string {
	if part+rest == 0 {
		return "-"
	}
	return percent(float64(part) / float64(part+rest))
}

// memoryByWorker has a column for each node that has memory of some worker.
func memoryByWorker(n *admin.Nodes) *table {
	titles := ">WORKER >PID >NODE CPUS >LOOPS >AWAY STATE >BUSY"
	var on []int
	for _, one := range n.Nodes {
		if one.MemoryBytes > 0 {
			on = append(on, one.Node)
			titles += fmt.Sprintf(" >ON-NODE-%d", one.Node)
		}
	}
	t := newTable(titles)
	for _, w := range n.Workers {
		cells := []string{whole(w.Index), whole(w.PID), topology.FormatCPUs(w.Nodes), topology.FormatCPUs(w.CPUs), whole(w.Loops), whole(w.Away), w.State, percent(w.Utilisation)}
		for _, id := range on {
			cell := "-"
			if i := slices.IndexFunc(w.Memory, func(m admin.NodeMemory) bool { return m.Node == id }); i >= 0 {
				cell = bytesText(w.Memory[i].Bytes)
			}
			cells = append(cells, cell)
		}
		t.add(cells...)
	}
	return t
}
