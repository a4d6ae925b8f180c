package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// efficientBelow is the share of the strongest CPU's capacity below which one is
// an efficiency core. Arm's little cores have 0.25 to 0.55 of the big ones'
// capacity; of three tiers the middle one has 0.65 and more, and counts as big.
const efficientBelow = 0.6

// maxCacheIndexes bounds the caches of a CPU that are looked at. There are 4 or 5.
const maxCacheIndexes = 16

// cpus reads what is known of each online CPU, and groups them. It needs m's
// Online and Nodes.
func (r *reader) cpus(m *Machine) {
	m.CPUs = make([]CPU, len(m.Online))
	for i, id := range m.Online {
		m.CPUs[i] = r.cpu(id, m.Online)
	}
	for _, n := range m.Nodes {
		for _, cpu := range n.CPUs {
			i, _ := slices.BinarySearch(m.Online, cpu)
			m.CPUs[i].Node = n.ID
		}
	}
	m.Sockets = sockets(m.CPUs)
	m.Dies = dies(m.CPUs)
	m.Caches = r.caches(m.CPUs, m.Online)
	r.kinds(m.CPUs)
}

// cpu reads one CPU's own directory. Siblings have had two names, and were once
// masks only (Documentation/admin-guide/cputopology.rst).
func (r *reader) cpu(id int, online []int) CPU {
	dir := fmt.Sprintf("%s/cpu%d", cpuDir, id)
	c := CPU{
		ID: id, Cache: -1,
		Socket:   r.peekNumber(dir + "/topology/physical_package_id"),
		Die:      r.peekNumber(dir + "/topology/die_id"),
		Capacity: max(0, r.peekNumber(dir+"/cpu_capacity")),
	}
	siblings := r.sharers(dir+"/topology/core_cpus", dir+"/topology/thread_siblings")
	c.Core = intersect(siblings, online)
	if _, found := slices.BinarySearch(c.Core, id); !found {
		c.Core = []int{id}
	}
	return c
}

// sharers reads the first set that is there of several names, as a list or, from
// old kernels, as a mask.
func (r *reader) sharers(names ...string) []int {
	for _, name := range names {
		if cpus, ok := r.peekList(name + "_list"); ok {
			return cpus
		}
		if cpus, ok := r.peekMask(name); ok {
			return cpus
		}
	}
	return nil
}

// sockets groups CPUs by physical package. Those that name none are in none.
func sockets(cpus []CPU) []Socket {
	found := map[int]*Socket{}
	for _, c := range cpus {
		if c.Socket < 0 {
			continue
		}
		s := found[c.Socket]
		if s == nil {
			s = &Socket{ID: c.Socket}
			found[c.Socket] = s
		}
		s.CPUs = append(s.CPUs, c.ID)
		s.Nodes = append(s.Nodes, c.Node)
	}
	var list []Socket
	for _, s := range found {
		slices.Sort(s.Nodes)
		s.Nodes = slices.Compact(s.Nodes)
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Socket) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// dies groups CPUs by die.
func dies(cpus []CPU) []Die {
	type key struct{ socket, die int }
	found := map[key][]int{}
	for _, c := range cpus {
		if c.Die >= 0 && c.Socket >= 0 {
			k := key{c.Socket, c.Die}
			found[k] = append(found[k], c.ID)
		}
	}
	var list []Die
	for k, cpus := range found {
		list = append(list, Die{Socket: k.socket, ID: k.die, CPUs: cpus})
	}
	slices.SortFunc(list, func(a, b Die) int {
		return cmp.Or(cmp.Compare(a.Socket, b.Socket), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// caches finds the last-level cache of each CPU and notes it there. A cache is
// read once, from the first of those that share it.
func (r *reader) caches(cpus []CPU, online []int) []Cache {
	var list []Cache
	for i := range cpus {
		if cpus[i].Cache >= 0 {
			continue
		}
		cache, ok := r.lastLevel(cpus[i].ID, online)
		if !ok {
			continue
		}
		cache.CPUs = slices.DeleteFunc(cache.CPUs, func(cpu int) bool {
			at, _ := slices.BinarySearch(online, cpu)
			return cpus[at].Cache >= 0
		})
		for _, cpu := range cache.CPUs {
			at, _ := slices.BinarySearch(online, cpu)
			cpus[at].Cache = len(list)
		}
		list = append(list, cache)
	}
	return list
}

// lastLevel reads a CPU's cache of the highest level that holds data.
func (r *reader) lastLevel(cpu int, online []int) (Cache, bool) {
	var last Cache
	var dir string
	for i := range maxCacheIndexes {
		at := fmt.Sprintf("%s/cpu%d/cache/index%d", cpuDir, cpu, i)
		level := r.peekNumber(at + "/level")
		if level < 0 {
			break
		}
		if kind, _ := r.peek(at + "/type"); level > last.Level && kind != "Instruction" {
			last.Level, dir = level, at
		}
	}
	if dir == "" {
		return Cache{}, false
	}
	size, _ := r.peek(dir + "/size")
	last.Size = cacheSize(size)
	shared, ok := r.peekList(dir + "/shared_cpu_list")
	if !ok {
		shared, _ = r.peekMask(dir + "/shared_cpu_map")
	}
	last.CPUs = intersect(shared, online)
	_, found := slices.BinarySearch(last.CPUs, cpu)
	return last, found
}

// cacheSize reads "107520K" or "32M" as bytes; 0 if it is neither.
func cacheSize(text string) int64 {
	shift := 0
	switch {
	case strings.HasSuffix(text, "K"):
		shift = 10
	case strings.HasSuffix(text, "M"):
		shift = 20
	default:
		return 0
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 40)
	if err != nil || n < 0 {
		return 0
	}
	return n << shift
}

// kinds tells efficiency cores from performance cores: Intel's hybrids have a
// counter unit for each kind and list its CPUs there
// (Documentation/ABI/testing/sysfs-bus-event_source-devices), Arm's name their
// capacity. Where all are alike none is efficient.
func (r *reader) kinds(cpus []CPU) {
	strong, _ := r.peekList("sys/devices/cpu_core/cpus")
	if len(strong) > 0 {
		weak, _ := r.peekList("sys/devices/cpu_atom/cpus")
		weakest, _ := r.peekList("sys/devices/cpu_lowpower/cpus")
		for i := range cpus {
			cpus[i].Efficient = slices.Contains(weak, cpus[i].ID) || slices.Contains(weakest, cpus[i].ID)
		}
		return
	}
	most := 0
	for _, c := range cpus {
		most = max(most, c.Capacity)
	}
	for i := range cpus {
		cpus[i].Efficient = cpus[i].Capacity > 0 && float64(cpus[i].Capacity) < efficientBelow*float64(most)
	}
}

// offline lists the CPUs that are there and cannot run threads. The kernel's own
// list of that name is not used: it has those too that could be plugged in.
func (r *reader) offline(online []int) []int {
	present, _ := r.peekList(cpuDir + "/present")
	return slices.DeleteFunc(present, func(cpu int) bool {
		_, found := slices.BinarySearch(online, cpu)
		return found
	})
}

// isolated lists the CPUs that were taken from the scheduler at boot, or by an
// isolated cpuset partition (Documentation/admin-guide/cgroup-v2.rst).
func (r *reader) isolated() []int {
	atBoot, _ := r.peekList(cpuDir + "/isolated")
	since, _ := r.peekList(cgroupDir + "/cpuset.cpus.isolated")
	all := slices.Sorted(slices.Values(append(atBoot, since...)))
	return slices.Compact(all)
}
