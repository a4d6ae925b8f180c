package topology

import (
	"bytes"
	"cmp"
	"fmt"
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
	return ReadFS(os.DirFS(root)), nil
}

// ReadFS is Read for a tree that is no directory. Symbolic links are followed as
// the tree does; where a device hangs is only known if it can read them
// (fs.ReadLinkFS).
func ReadFS(tree fs.FS) *Machine {
	r := &reader{tree: tree}
	m := &Machine{
		Online: r.online(), Limits: r.limits(), Cpuset: r.cpuset(), Affinity: r.affinity(),
		Hypervisor: r.hypervisor(), Container: r.container(), Model: r.model(), Switches: r.switches(),
	}
	m.Nodes = r.nodes(m.Online)
	m.NUMA = len(m.Nodes) > 0
	if !m.NUMA {
		m.Nodes = []Node{r.onlyNode(m.Online)}
	}
	adopt(m.Nodes, m.Online)
	m.Offline = r.offline(m.Online)
	m.Isolated = r.isolated()
	m.OfflineNodes = r.offlineNodes(m.Nodes)
	r.cpus(m)
	m.NICs = r.nics()
	m.Unknown = r.unknown
	return m
}

// reader collects the facts, and what was missing on the way.
type reader struct {
	tree    fs.FS
	unknown []string
}

// online lists the CPUs that can run threads: sysfs knows them, /proc/stat has
// a line for each, sysfs has a directory for each, and the runtime knows at least
// how many this process has.
func (r *reader) online() []int {
	if cpus, ok := r.list(cpuDir + "/online"); ok && len(cpus) > 0 {
		return cpus
	}
	if cpus := r.statCPUs(); len(cpus) > 0 {
		return cpus
	}
	if cpus := r.numbered(cpuDir, "cpu"); len(cpus) > 0 {
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
		ids = r.numbered(nodeDir, "node")
	}
	withMemory, known := r.peekList(nodeDir + "/has_memory")
	nodes := make([]Node, 0, len(ids))
	for _, id := range ids {
		n := r.node(id, online)
		if n.HasMemory && n.MemTotal == 0 && known { // its meminfo could not be read
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
	n := Node{
		ID: id, HasMemory: true, CPUs: intersect(r.nodeCPUs(dir), online),
		Distance: r.distance(dir + "/distance"), HugePages: r.hugePages(dir + "/hugepages"),
	}
	if memory, ok := r.file(dir + "/meminfo"); ok {
		n.memoryFrom(memory)
		n.HasMemory = n.MemTotal > 0
	}
	return n
}

// nodeCPUs reads a node's CPUs, from kernels before 2.6.25 as a mask.
func (r *reader) nodeCPUs(dir string) []int {
	if _, err := fs.Stat(r.tree, dir+"/cpulist"); err != nil {
		if cpus, ok := r.peekMask(dir + "/cpumap"); ok {
			return cpus
		}
	}
	cpus, _ := r.list(dir + "/cpulist")
	return cpus
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

// offlineNodes are those that the kernel has room for and that are not there.
func (r *reader) offlineNodes(nodes []Node) []int {
	possible, _ := r.peekList(nodeDir + "/possible")
	return slices.DeleteFunc(possible, func(id int) bool {
		return slices.ContainsFunc(nodes, func(n Node) bool { return n.ID == id })
	})
}

// onlyNode stands for a machine whose kernel names no nodes.
func (r *reader) onlyNode(online []int) Node {
	n := Node{ID: 0, CPUs: online, HasMemory: true, Distance: []int{10}, HugePages: r.hugePages("sys/kernel/mm/hugepages")}
	if memory, ok := r.file("proc/meminfo"); ok {
		n.memoryFrom(memory)
	}
	return n
}

// hugePages reads a directory of "hugepages-2048kB/nr_hugepages" and the like.
func (r *reader) hugePages(dir string) []HugePages {
	var pages []HugePages
	for _, name := range r.names(dir) {
		size, isPages := strings.CutPrefix(name, "hugepages-")
		kib, err := strconv.ParseInt(strings.TrimSuffix(size, "kB"), 10, 53)
		if !isPages || err != nil {
			continue
		}
		h := HugePages{Size: kib << 10, Total: r.peekCount(dir + "/" + name + "/nr_hugepages"), Free: r.peekCount(dir + "/" + name + "/free_hugepages")}
		if h.Total > 0 {
			pages = append(pages, h)
		}
	}
	slices.SortFunc(pages, func(a, b HugePages) int { return cmp.Compare(a.Size, b.Size) })
	return pages
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

// peekList reads a list that many machines do not have. One that is there and is
// no list is noted.
func (r *reader) peekList(name string) ([]int, bool) {
	return r.peekIDs(name, ParseCPUs)
}

// peekMask is peekList for a mask.
func (r *reader) peekMask(name string) ([]int, bool) {
	return r.peekIDs(name, ParseMask)
}

func (r *reader) peekIDs(name string, parse func(string) ([]int, error)) ([]int, bool) {
	text, ok := r.peek(name)
	if !ok {
		return nil, false
	}
	ids, err := parse(text)
	if err != nil {
		r.missing(name, err)
		return nil, false
	}
	return ids, true
}

// peekNumber reads a small number; -1 if there is none, or less.
func (r *reader) peekNumber(name string) int {
	text, _ := r.peek(name)
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return -1
	}
	return int(n)
}

// peekCount reads a count; 0 if there is none.
func (r *reader) peekCount(name string) int64 {
	text, _ := r.peek(name)
	n, err := strconv.ParseInt(text, 10, 40)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// numbered lists the numbers of a directory's entries of one kind: 3 of "cpu3".
// It is nil if there is no such directory.
func (r *reader) numbered(dir, kind string) []int {
	var ids []int
	for _, name := range r.names(dir) {
		if number, is := strings.CutPrefix(name, kind); is {
			if id, err := parseID(number); err == nil {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// names lists a directory that many machines do not have.
func (r *reader) names(dir string) []string {
	entries, err := fs.ReadDir(r.tree, dir)
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names
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
