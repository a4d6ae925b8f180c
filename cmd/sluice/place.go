package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/affinity"
	"sluice/internal/place"
	"sluice/internal/placement"
	"sluice/internal/topology"
)

// placeFlags are what `sluice place` was told.
type placeFlags struct {
	port   int
	node   int
	cpus   string
	memory string
	cgroup string
	watch  bool
	dryRun bool
}

// newPlace is `sluice place`: move running processes to a node.
func newPlace() *cobra.Command {
	var f placeFlags
	c := &cobra.Command{
		Use:   "place PID|--port N --node N",
		Short: "Move a running process, its children and its memory to a NUMA node",
		Long: `Move a running process to a NUMA node, with its children and all their threads: their
CPUs become the node's. Threads that their program keeps on fewer CPUs of that node stay
so. The table has CPUs and memory before and after.

--memory says what becomes of memory:
  prefer   pages move to the node. New ones come from where the thread runs, and so from
           the node, or from others when it is full. A policy that the program has set for
           itself stays, and is told if it leads elsewhere: the kernel lets nobody change
           another's (set_mempolicy(2))
  bind     as prefer; and all memory comes from the node alone, by a control group of
           version 2 with cpuset.cpus and cpuset.mems, made beside the process's own. It
           leaves that one, with its limits: systemd no longer counts it to its unit
  default  pages stay where they are

The exit code is 0 if all was done, 1 if a part failed, 2 if the command line is wrong.`,
		Example: `  sluice place 4711 --node 1
  sluice place --port 3000 --node 1 --memory bind --watch`,
		Args: f.takes,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return f.run(ctx, c.OutOrStdout(), args)
		},
	}
	flags := c.Flags()
	flags.IntVar(&f.port, "port", 0, "the processes that listen on this TCP port, instead of a PID")
	flags.IntVar(&f.node, "node", -1, "NUMA node to go to; required")
	flags.StringVar(&f.cpus, "cpus", "", `only these CPUs of the node, as "0-3,8" (default all that are not isolated)`)
	flags.StringVar(&f.memory, "memory", placement.MemoryPrefer, "prefer, bind or default")
	flags.StringVar(&f.cgroup, "cgroup", "auto", "auto: a control group where --memory bind needs one; off: none")
	flags.BoolVar(&f.watch, "watch", false, "keep new children and threads there, looking each second, until Ctrl-C")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would be done, and do nothing")
	flags.Lookup("node").DefValue = "0" // which is to show none
	return c
}

// takes checks the arguments: a PID, or --port.
func (f *placeFlags) takes(c *cobra.Command, args []string) error {
	if c.Flags().Changed("port") {
		if len(args) > 0 {
			return misuse("place takes a PID or --port, not both")
		}
		return nil
	}
	if err := takes("PID, or --port N")(c, args); err != nil {
		return err
	}
	if pid, err := strconv.ParseInt(args[0], 10, 32); err != nil || pid < 1 {
		return misuse("%q is no process number; write sluice place 4711 --node 0, or --port 3000", args[0])
	}
	return nil
}

func (f *placeFlags) check(c *cobra.Command) error {
	memories := []string{placement.MemoryPrefer, placement.MemoryBind, placement.MemoryDefault}
	_, err := topology.ParseCPUs(f.cpus)
	switch {
	case c.Flags().Changed("port") && (f.port < 1 || f.port > math.MaxUint16):
		return misuse("--port %d: write 1 to 65535", f.port)
	case !c.Flags().Changed("node"):
		return misuse("place needs --node N; sluice place %s --node 0", c.Flags().Arg(0))
	case f.node < 0:
		return misuse("--node %d: nodes are numbered from 0", f.node)
	case err != nil:
		return misuse(`--cpus: %v; write a list as "0-3,8"`, err)
	case !slices.Contains(memories, f.memory):
		return misuse("--memory %q: write prefer, bind or default", f.memory)
	case f.cgroup != "auto" && f.cgroup != "off":
		return misuse("--cgroup %q: write auto or off", f.cgroup)
	case f.cgroup == "off" && f.memory == placement.MemoryBind:
		return misuse("--memory bind needs --cgroup auto: only a control group binds another process's memory")
	case f.dryRun && f.watch:
		return misuse("--dry-run and --watch exclude each other")
	}
	return nil
}

func (f *placeFlags) run(ctx context.Context, out io.Writer, args []string) error {
	const root = "/"
	roots, err := f.roots(root, args)
	if err != nil {
		return err
	}
	machine, err := topology.Read(root)
	if err != nil {
		return err
	}
	only, _ := topology.ParseCPUs(f.cpus)
	target, err := place.Aim(machine, f.node, only, f.memory)
	if err != nil {
		return err
	}
	kernel := place.Kernel{MoveThread: affinity.MoveThread, MoveMemory: affinity.MoveMemory}
	m := &place.Mover{Root: root, Kernel: kernel, Target: target, Groups: f.cgroup == "auto"}
	if f.dryRun {
		outcomes, err := m.Plan(roots...)
		if err != nil {
			return err
		}
		return printPlan(out, target, outcomes)
	}
	outcomes, err := m.Place(roots...)
	if err != nil {
		return err
	}
	if err := printPlaced(out, target, outcomes); err != nil {
		return err
	}
	failed := faulty(outcomes)
	if f.watch {
		return watchPlaced(ctx, out, m, time.Second, failed)
	}
	return partFailed(failed)
}

// roots are the processes that were named.
func (f *placeFlags) roots(root string, args []string) ([]int, error) {
	tree := os.DirFS(root)
	if len(args) == 0 {
		return place.ByPort(tree, uint16(f.port))
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return nil, err
	}
	return []int{pid}, place.ByPID(tree, pid)
}

// watchPlaced looks again and again, until ctx ends, or the last of the processes.
func watchPlaced(ctx context.Context, out io.Writer, m *place.Mover, every time.Duration, failed int) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return partFailed(failed)
		case <-tick.C:
		}
		moved, size, err := m.Look()
		if err != nil {
			return err
		}
		for _, o := range moved {
			if o.Moved > 0 {
				fmt.Fprintf(out, "%s: %s moved to node %d\n", who(o), plural(o.Moved, "thread"), m.Target.Node)
			}
		}
		printFaults(out, moved)
		failed += faulty(moved)
		if size == 0 {
			fmt.Fprintln(out, "all its processes have ended")
			return partFailed(failed)
		}
	}
}

func faulty(outcomes []place.Outcome) (n int) {
	for _, o := range outcomes {
		n += min(1, len(o.Faults))
	}
	return n
}

func partFailed(processes int) error {
	if processes == 0 {
		return nil
	}
	return fmt.Errorf("a part was not done, of %s: see above", processCount(processes))
}

func printPlan(w io.Writer, t place.Target, outcomes []place.Outcome) error {
	fmt.Fprintf(w, "Would move %s to node %d, CPUs %s; nothing is changed.\n\n", processCount(len(outcomes)), t.Node, topology.FormatCPUs(t.CPUs))
	return placeTable(outcomes).print(w)
}

func printPlaced(w io.Writer, t place.Target, outcomes []place.Outcome) error {
	fmt.Fprintf(w, "Node %d, CPUs %s\n\n", t.Node, topology.FormatCPUs(t.CPUs))
	if err := placeTable(outcomes).print(w); err != nil {
		return err
	}
	for _, note := range t.Notes {
		fmt.Fprintln(w, "Note:", note)
	}
	for _, o := range outcomes {
		if o.Stayed > 0 {
			fmt.Fprintf(w, "%s: %s stayed, being locked or in use\n", who(o), plural(o.Stayed, "page"))
		}
		if len(o.Policies) > 0 && !o.Ended {
			fmt.Fprintf(w, "%s: its program has a memory policy of its own, %s: new pages come from there; --memory bind overrules it\n", who(o), strings.Join(o.Policies, ", "))
		}
	}
	printFaults(w, outcomes)
	return nil
}

func printFaults(w io.Writer, outcomes []place.Outcome) {
	for _, o := range outcomes {
		for _, fault := range o.Faults {
			fmt.Fprintf(w, "%s: %s\n", who(o), fault)
		}
	}
}

// who names a process.
func who(o place.Outcome) string {
	return fmt.Sprintf("%d %s", o.Process.PID, place.Printable(o.Process.Name))
}

func processCount(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprint(n, " processes")
}

func placeTable(outcomes []place.Outcome) *table {
	t := newTable(">PID NAME >THREADS CPUS MEMORY")
	for _, o := range outcomes {
		cpus, memory := topology.FormatCPUs(o.After), byNode(o.Holds)
		if o.Ended {
			cpus, memory = "ended", "ended"
		}
		t.add(whole(o.Process.PID), place.Printable(o.Process.Name), whole(o.Threads),
			topology.FormatCPUs(o.Before)+" → "+cpus, byNode(o.Held)+" → "+memory)
	}
	return t
}

// byNode is memory by node: "N0 12 MiB, N2 300 KiB"; "-" if it is unknown, or none.
func byNode(memory map[int]int64) string {
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(memory)) {
		parts = append(parts, fmt.Sprintf("N%d %s", node, bytesText(memory[node])))
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ", ")
}
