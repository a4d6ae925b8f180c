//go:build !race

package e2e

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/guest"
)

// The card of a guest has a queue for each CPU, and is on one node: the kernel has
// all its interrupts there. sluice tune gives each CPU that has a loop a queue, and
// takes that back.
func interruptsTuned(t *testing.T, g *guest.Guest) {
	const card, near = "eth0", "2-3"
	c := &tuned{t: t, g: g.For(t)}
	before := c.files()
	irqs := c.queues(card)
	if len(irqs) != 8 {
		t.Fatalf("the interrupts of the card's queues are %v", irqs)
	}
	for queue, irq := range irqs {
		if got := before[affinityOf(irq)]; got != near {
			t.Errorf("before, queue %d goes to CPUs %s", queue, got)
		}
	}

	c.run("tune")
	if now := c.files(); !maps.Equal(now, before) {
		t.Errorf("without --apply these files change: %v", changed(before, now))
	}
	c.run("tune", "--apply")
	c.spread(card, irqs, 0, 1, 2, 3, 4, 5, 6, 7)

	// Workers on two nodes only, neither the card's: the next plan goes over the first.
	c.g.Write("/run/tune.yaml", "workers: {nodes: 2-3}\n"+farm("http://"+guestServer))
	c.run("tune", "--config", "/run/tune.yaml", "--apply")
	c.spread(card, irqs, 4, 5, 6, 7)

	c.run("tune", "--undo")
	if now := c.files(); !maps.Equal(now, before) {
		t.Errorf("after --undo these files are not as before: %v", changed(before, now))
	}
}

// tuned is a guest whose interrupts are looked at.
type tuned struct {
	t testing.TB
	g *guest.Guest
}

func (c *tuned) run(args ...string) {
	c.t.Helper()
	if r := c.g.Run(guest.Command{Path: "/sluice", Args: args}); r.Code != 0 {
		c.t.Errorf("sluice %s ended with %d: %s%s", strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
}

// files are all that say where interrupts and packets go, by path.
func (c *tuned) files() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{
		affinityOf("*"), "/sys/class/net/*/queues/*/xps_cpus", "/sys/class/net/*/queues/*/rps_*", "/proc/sys/net/core/rps_sock_flow_entries",
	} {
		for path, text := range c.g.Match(pattern) {
			all[path] = strings.TrimSpace(text)
		}
	}
	return all
}

func affinityOf(irq string) string { return "/proc/irq/" + irq + "/smp_affinity_list" }

// queues are the interrupts of a card's queues, as its driver names them.
func (c *tuned) queues(card string) []string {
	c.t.Helper()
	var irqs []string
	for _, line := range regexp.MustCompile(`(?m)^ *(\d+):.* `+card+`-rxtx-\d+$`).FindAllStringSubmatch(c.g.Read("/proc/interrupts"), -1) {
		irqs = append(irqs, line[1])
	}
	return irqs
}

// spread checks that each queue's interrupt goes to one of some CPUs, each of these
// has as many queues as any other, and each sends by a queue that interrupts it.
func (c *tuned) spread(card string, irqs []string, cpus ...int) {
	c.t.Helper()
	now, queues := c.files(), map[int]int{} // by CPU
	for queue, irq := range irqs {
		goes := c.g.CPUs(now[affinityOf(irq)])
		if len(goes) != 1 || !slices.Contains(cpus, goes[0]) {
			c.t.Errorf("queue %d goes to CPUs %v, want one of %v", queue, goes, cpus)
			continue
		}
		queues[goes[0]]++
	}
	sends := map[int]bool{}
	for queue, irq := range irqs {
		var mask int
		fmt.Sscanf(now[fmt.Sprintf("/sys/class/net/%s/queues/tx-%d/xps_cpus", card, queue)], "%x", &mask) // else 0, which is told
		for cpu := range 8 {
			if mask>>cpu&1 == 0 {
				continue
			}
			sends[cpu] = true
			if now[affinityOf(irq)] != fmt.Sprint(cpu) {
				c.t.Errorf("CPU %d sends by queue %d, whose interrupt goes to %s", cpu, queue, now[affinityOf(irq)])
			}
		}
	}
	for _, cpu := range cpus {
		if queues[cpu] != len(irqs)/len(cpus) || !sends[cpu] {
			c.t.Errorf("CPU %d has %d queues; it sends by one of the card's: %t", cpu, queues[cpu], sends[cpu])
		}
	}
}

// changed are the paths whose texts differ.
func changed(before, now map[string]string) (paths []string) {
	for path, text := range now {
		if before[path] != text {
			paths = append(paths, fmt.Sprintf("%s: %q, was %q", path, text, before[path]))
		}
	}
	slices.Sort(paths)
	return paths
}
