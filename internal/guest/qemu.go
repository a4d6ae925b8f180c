package guest

import (
	"fmt"
	"slices"
	"strconv"
)

// Options is the shape of a guest. Nodes count from 0, CPUs in the order of their
// nodes. The zero value of a field is the plain case.
type Options struct {
	Nodes         int
	CPUsPerNode   int
	MemoryPerNode int // MiB; 0: 384

	Memoryless []int // these nodes have CPUs and no memory
	CPUless    []int // these nodes have memory and no CPUs

	// Absent is how many of the last nodes the firmware tells of, for CPUs that
	// are not plugged in: the kernel takes them for possible, and they have
	// neither CPU nor memory.
	Absent int

	// Distances are those of the firmware's table (ACPI SLIT), from each node to
	// each; nil: 10 to itself and 20 to any other.
	Distances [][]int

	// Files are put into the guest: path there, without its first slash, to path
	// here. They are programs, or readable as such.
	Files map[string]string
}

// defaultMemory is what a node has if nobody asks for more, MiB.
const defaultMemory = 384

// check refuses a shape that cannot boot.
func (o *Options) check() error {
	switch last := o.Nodes - o.Absent; {
	case o.Nodes < 1 || o.CPUsPerNode < 1 || o.Absent < 0:
		return fmt.Errorf("a guest of %d nodes with %d CPUs each, %d of them absent", o.Nodes, o.CPUsPerNode, o.Absent)
	case !o.hasCPUs(0) || !o.hasMemory(0) || last < 1:
		return fmt.Errorf("node 0 needs CPUs and memory to boot from")
	case o.Distances != nil && len(o.Distances) != o.Nodes:
		return fmt.Errorf("distances of %d nodes for %d nodes", len(o.Distances), o.Nodes)
	}
	for node := range o.Nodes {
		if slices.Contains(o.Memoryless, node) && slices.Contains(o.CPUless, node) {
			return fmt.Errorf("node %d has neither CPUs nor memory; count it in Absent", node)
		}
		if o.absent(node) && !o.hasCPUs(node) {
			return fmt.Errorf("node %d is absent, which only CPUs can be", node)
		}
	}
	return nil
}

func (o *Options) hasCPUs(node int) bool { return !slices.Contains(o.CPUless, node) }

func (o *Options) hasMemory(node int) bool {
	return !slices.Contains(o.Memoryless, node) && !o.absent(node)
}

func (o *Options) absent(node int) bool { return node >= o.Nodes-o.Absent }

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
	var sockets, plugged, memory int
	for node := range o.Nodes {
		text := fmt.Sprintf("node,nodeid=%d", node)
		if o.hasMemory(node) {
			nodes = append(nodes, "-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", node, o.memoryPerNode()))
			text += fmt.Sprintf(",memdev=m%d", node)
			memory += o.memoryPerNode()
		}
		nodes = append(nodes, "-numa", text)
		if o.hasCPUs(node) {
			nodes = append(nodes, "-numa", fmt.Sprintf("cpu,node-id=%d,socket-id=%d", node, sockets))
			sockets++
			if !o.absent(node) {
				plugged += o.CPUsPerNode
			}
		}
	}
	for from, row := range o.Distances {
		for to, distance := range row {
			nodes = append(nodes, "-numa", fmt.Sprintf("dist,src=%d,dst=%d,val=%d", from, to, distance))
		}
	}
	return append([]string{
		"-accel", "tcg,thread=multi", "-cpu", "max",
		"-smp", fmt.Sprintf("cpus=%d,maxcpus=%d,sockets=%d,cores=%d,threads=1", plugged, sockets*o.CPUsPerNode, sockets, o.CPUsPerNode),
		"-m", strconv.Itoa(memory) + "M",
	}, nodes...)
}

// kernelLine is what the kernel is told at its start. CPUs that are not plugged
// in would give their node a place among the online ones if they might still come.
func (o *Options) kernelLine() string {
	line := "console=ttyS0 quiet rdinit=/init panic=-1 random.trust_cpu=on"
	if o.Absent > 0 {
		present := 0
		for node := range o.Nodes - o.Absent {
			if o.hasCPUs(node) {
				present += o.CPUsPerNode
			}
		}
		line += " possible_cpus=" + strconv.Itoa(present)
	}
	return line
}
