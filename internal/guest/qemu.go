package guest

import (
	"fmt"
	"slices"
	"strconv"
)

// Options is the shape of a guest. Nodes count from 0, CPUs in the order of their
// nodes. The zero value of a field is the plain case.
type Options struct {
	Nodes         int // with CPUs
	CPUsPerNode   int
	MemoryPerNode int // MiB; 0: 384

	Memoryless []int // these nodes have CPUs and no memory

	// CPUless is how many more nodes there are, with memory alone. The kernel numbers
	// nodes as the firmware's table (ACPI SRAT) names them, which is CPUs first, so
	// these come after all others.
	CPUless int

	// Absent is how many of the last nodes with CPUs are only known to the firmware:
	// their CPUs are not plugged in, and they have no memory. To the kernel they are
	// possible, and not online.
	Absent int

	// Distances are those of the firmware's table (ACPI SLIT), from each node to
	// each; nil: 10 to itself and 20 to any other.
	Distances [][]int

	// Card puts a network card with several queues on a node. It has no line to
	// anywhere: what counts is its interrupts.
	Card   bool
	CardOn int // node

	// Files are put into the guest: path there, without its first slash, to path
	// here. They are programs, or readable as such.
	Files map[string]string
}

// defaultMemory is what a node has if nobody asks for more, MiB.
const defaultMemory = 384

// check refuses a shape that cannot boot.
func (o *Options) check() error {
	switch {
	case o.Nodes < 1 || o.CPUsPerNode < 1 || o.CPUless < 0 || o.Absent < 0:
		return fmt.Errorf("a guest of %d nodes with %d CPUs each, %d absent, and %d without CPUs", o.Nodes, o.CPUsPerNode, o.Absent, o.CPUless)
	case o.absent(0) || !o.hasMemory(0):
		return fmt.Errorf("node 0 needs CPUs and memory to boot from")
	case o.Card && (o.CardOn < 0 || o.CardOn >= o.all()):
		return fmt.Errorf("a card on node %d of %d nodes", o.CardOn, o.all())
	case o.Distances != nil && len(o.Distances) != o.all():
		return fmt.Errorf("distances of %d nodes for %d nodes", len(o.Distances), o.all())
	}
	return nil
}

func (o *Options) all() int { return o.Nodes + o.CPUless }

func (o *Options) hasCPUs(node int) bool { return node < o.Nodes }

func (o *Options) absent(node int) bool { return o.hasCPUs(node) && node >= o.Nodes-o.Absent }

func (o *Options) hasMemory(node int) bool {
	return !slices.Contains(o.Memoryless, node) && !o.absent(node)
}

func (o *Options) memoryPerNode() int {
	if o.MemoryPerNode > 0 {
		return o.MemoryPerNode
	}
	return defaultMemory
}

// arguments are those of QEMU that make the shape: a socket for each node with
// CPUs, a piece of memory for each node with memory.
func (o *Options) arguments() []string {
	var nodes []string
	memory := 0 // MiB
	for node := range o.all() {
		text := fmt.Sprintf("node,nodeid=%d", node)
		if o.hasMemory(node) {
			nodes = append(nodes, "-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", node, o.memoryPerNode()))
			text += fmt.Sprintf(",memdev=m%d", node)
			memory += o.memoryPerNode()
		}
		nodes = append(nodes, "-numa", text)
		if o.hasCPUs(node) {
			nodes = append(nodes, "-numa", fmt.Sprintf("cpu,node-id=%d,socket-id=%d", node, node))
		}
	}
	for from, row := range o.Distances {
		for to, distance := range row {
			nodes = append(nodes, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", from, to, distance))
		}
	}
	if o.Card {
		// A bus of its own, of which the firmware tells the node (ACPI _PXM).
		nodes = append(nodes, "-device", fmt.Sprintf("pxb,id=bus%d,bus=pci.0,bus_nr=64,numa_node=%d", o.CardOn, o.CardOn),
			"-device", fmt.Sprintf("vmxnet3,bus=bus%d,addr=1", o.CardOn))
	}
	// A plain CPU: what newer ones can do besides takes longer to emulate than it saves.
	return append([]string{
		"-accel", "tcg,thread=multi", "-cpu", "qemu64,+rdrand",
		"-smp", fmt.Sprintf("cpus=%d,maxcpus=%d,sockets=%d,cores=%d,threads=1",
			o.plugged(), o.Nodes*o.CPUsPerNode, o.Nodes, o.CPUsPerNode),
		"-m", strconv.Itoa(memory) + "M",
	}, nodes...)
}

// plugged is the number of CPUs at the start.
func (o *Options) plugged() int { return (o.Nodes - o.Absent) * o.CPUsPerNode }

// kernelLine is what the kernel is told at its start. Were more CPUs possible than
// are there, it would bring their nodes online at once. It need not measure the
// speed of each emulated CPU (lpj), nor try its own ciphers, nor hide its address,
// nor guard against other guests (mitigations). It shall believe the CPUs' counter of
// time, which is the host's: any other clock is a device, to emulate at each look.
func (o *Options) kernelLine() string {
	return "console=ttyS0 quiet rdinit=/init panic=-1 random.trust_cpu=on" +
		" lpj=4000000 cryptomgr.notests nokaslr mitigations=off tsc=reliable possible_cpus=" + strconv.Itoa(o.plugged())
}
