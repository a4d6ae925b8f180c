package topology

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Directories below the root (Documentation/ABI/stable/sysfs-devices-node and
// Documentation/admin-guide/cputopology.rst of the kernel).
const (
	nodeDir = "sys/devices/system/node"
	cpuDir  = "sys/devices/system/cpu"
)

// cpuinfoHead is how much of /proc/cpuinfo is read: the first CPU's block. The
// file grows to half a megabyte on big machines, and says the same 256 times.
const cpuinfoHead = 16 << 10 // bytes

// Read says what the machine below root is; "" and "/" are the real one. What
// cannot be read is left out and named in Machine.Unknown. The only error is a
// root that is no directory.
func Read(root string) (*Machine, error) {
	if root == "" {
		root = "/"
	}
	info, err := os.Stat(root)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("topology: %s is not a directory", root)
	}
	return read(os.DirFS(root)), nil
}

// reader collects the facts, and what was missing on the way.
type reader struct {
	tree    fs.FS
	unknown []string
}

func read(tree fs.FS) *Machine {
	r := &reader{tree: tree}
	m := &Machine{Online: r.online(), Limits: r.limits(), Hypervisor: r.hypervisor()}
	m.Nodes = r.nodes(m.Online)
	m.NUMA = len(m.Nodes) > 0
	if !m.NUMA {
		m.Nodes = []Node{r.onlyNode(m.Online)}
	}
	adopt(m.Nodes, m.Online)
	m.Unknown = r.unknown
	return m
}

// online lists the CPUs that can run threads: sysfs knows them, /proc/stat has
// a line for each, and the runtime knows at least how many this process has.
func (r *reader) online() []int {
	if cpus, ok := r.list(cpuDir + "/online"); ok && len(cpus) > 0 {
		return cpus
	}
	if cpus := r.statCPUs(); len(cpus) > 0 {
		return cpus
	}
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus
}

// statCPUs reads the numbers of the lines "cpuN …" of /proc/stat.
func (r *reader) statCPUs() []int {
	data, ok := r.file("proc/stat")
	if !ok {
		return nil
	}
	var cpus []int
	for line := range bytes.Lines(data) {
		word, _, _ := strings.Cut(string(line), " ")
		if id, found := strings.CutPrefix(word, "cpu"); found && id != "" {
			if cpu, err := parseID(id); err == nil {
				cpus = append(cpus, cpu)
			}
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}

// nodes reads every online node; nil if the kernel names none.
func (r *reader) nodes(online []int) []Node {
	ids, ok := r.list(nodeDir + "/online")
	if !ok {
		return nil
	}
	withMemory, known := r.list(nodeDir + "/has_memory")
	nodes := make([]Node, 0, len(ids))
	for _, id := range ids {
		n := r.node(id, online)
		if n.MemTotal == 0 && known {
			n.HasMemory = slices.Contains(withMemory, id)
		}
		if len(n.Distance) != len(ids) {
			n.Distance = nil // a node came or went while we read
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func (r *reader) node(id int, online []int) Node {
	dir := fmt.Sprintf("%s/node%d", nodeDir, id)
	n := Node{ID: id, HasMemory: true, Distance: r.distance(dir + "/distance")}
	if cpus, ok := r.list(dir + "/cpulist"); ok {
		n.CPUs = intersect(cpus, online)
	}
	if memory, ok := r.file(dir + "/meminfo"); ok {
		n.MemTotal, n.MemFree = meminfo(memory)
		n.HasMemory = n.MemTotal > 0
	}
	return n
}

// distance reads one row of the distance table, which has a number for each
// online node.
func (r *reader) distance(name string) []int {
	data, ok := r.file(name)
	if !ok {
		return nil
	}
	var row []int
	for _, word := range strings.Fields(string(data)) {
		d, err := parseID(word)
		if err != nil {
			r.missing(name, err)
			return nil
		}
		row = append(row, d)
	}
	return row
}

// onlyNode stands for a machine whose kernel names no nodes.
func (r *reader) onlyNode(online []int) Node {
	n := Node{ID: 0, CPUs: online, HasMemory: true, Distance: []int{10}}
	if memory, ok := r.file("proc/meminfo"); ok {
		n.MemTotal, n.MemFree = meminfo(memory)
	}
	return n
}

// meminfo reads total and free memory in bytes. A node's file has "Node 0 " in
// front of each line, /proc/meminfo has not.
func meminfo(data []byte) (total, free int64) {
	for line := range bytes.Lines(data) {
		words := strings.Fields(string(line))
		if len(words) > 2 && words[0] == "Node" {
			words = words[2:]
		}
		if len(words) < 2 {
			continue
		}
		kib, err := strconv.ParseInt(words[1], 10, 53)
		if err != nil {
			continue
		}
		switch words[0] {
		case "MemTotal:":
			total = kib << 10
		case "MemFree:":
			free = kib << 10
		}
	}
	return total, free
}

// adopt gives each online CPU that no node claims to the first node that has
// CPUs, so that an unreadable file costs locality and not a CPU. It also takes a
// CPU that two nodes claim from the later one.
func adopt(nodes []Node, online []int) {
	claimed := make(map[int]bool, len(online))
	for i := range nodes {
		nodes[i].CPUs = slices.DeleteFunc(slices.Clone(nodes[i].CPUs), func(cpu int) bool { return claimed[cpu] })
		for _, cpu := range nodes[i].CPUs {
			claimed[cpu] = true
		}
	}
	home := max(0, slices.IndexFunc(nodes, func(n Node) bool { return len(n.CPUs) > 0 }))
	for _, cpu := range online {
		if !claimed[cpu] {
			nodes[home].CPUs = append(nodes[home].CPUs, cpu)
		}
	}
	slices.Sort(nodes[home].CPUs)
}

// hypervisor asks Xen's own directory, then the CPU's "hypervisor" flag (CPUID
// leaf 1, ECX bit 31), and takes the name from the firmware.
func (r *reader) hypervisor() string {
	if name, ok := r.peek("sys/hypervisor/type"); ok && name == "xen" {
		return "Xen"
	}
	if !r.hypervisorFlag() {
		return ""
	}
	product, _ := r.peek("sys/class/dmi/id/product_name")
	vendor, _ := r.peek("sys/class/dmi/id/sys_vendor")
	for _, maker := range makers {
		if strings.Contains(product+"\n"+vendor, maker.mark) {
			return maker.name
		}
	}
	return "unknown"
}

// makers are known by a word in the firmware's product or vendor name. The more
// telling word comes first: KVM guests of QEMU name both.
var makers = [...]struct{ mark, name string }{
	{"KVM", "KVM"},
	{"VMware", "VMware"},
	{"Microsoft Corporation", "Hyper-V"},
	{"Amazon EC2", "Amazon EC2"},
	{"Google", "Google"},
	{"QEMU", "QEMU"},
}

func (r *reader) hypervisorFlag() bool {
	f, err := r.tree.Open("proc/cpuinfo")
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, cpuinfoHead))
	lines.Buffer(nil, cpuinfoHead)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == "flags" {
			return slices.Contains(strings.Fields(value), "hypervisor")
		}
	}
	return false
}

// list reads a file in the kernel's list format.
func (r *reader) list(name string) ([]int, bool) {
	data, ok := r.file(name)
	if !ok {
		return nil, false
	}
	ids, err := ParseCPUs(string(data))
	if err != nil {
		r.missing(name, err)
		return nil, false
	}
	return ids, true
}

// file reads a file that ought to be there.
func (r *reader) file(name string) ([]byte, bool) {
	data, err := fs.ReadFile(r.tree, name)
	if err != nil {
		r.missing(name, err)
		return nil, false
	}
	return data, true
}

// peek reads a one-line file that many machines do not have.
func (r *reader) peek(name string) (string, bool) {
	data, err := fs.ReadFile(r.tree, name)
	return strings.TrimSpace(string(data)), err == nil
}

func (r *reader) missing(name string, err error) {
	if pathErr, ok := err.(*fs.PathError); ok {
		err = pathErr.Err
	}
	r.unknown = append(r.unknown, fmt.Sprintf("/%s: %v", path.Clean(name), err))
}

// intersect keeps those of cpus that are also in set; both are ascending.
func intersect(cpus, set []int) []int {
	var both []int
	for _, cpu := range cpus {
		if _, found := slices.BinarySearch(set, cpu); found {
			both = append(both, cpu)
		}
	}
	return both
}
