package topology

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
)

// cpuinfoHead is how much of /proc/cpuinfo is read: the first CPU's block. The
// file grows to half a megabyte on big machines, and says the same 256 times.
const cpuinfoHead = 16 << 10 // bytes

// cpuinfo finds a key in the first CPU's block of /proc/cpuinfo.
func (r *reader) cpuinfo(key string) (string, bool) {
	f, err := r.tree.Open("proc/cpuinfo")
	if err != nil {
		return "", false
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, cpuinfoHead))
	lines.Buffer(nil, cpuinfoHead)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(name) == key {
			return strings.TrimSpace(value), true
		}
	}
	return "", false
}

// model is what the CPU calls itself. Arm's says who made it and a part number.
func (r *reader) model() string {
	for _, key := range []string{"model name", "cpu model", "cpu", "Processor"} { // x86, MIPS, POWER, old Arm
		if name, found := r.cpuinfo(key); found {
			return name
		}
	}
	maker, found := r.cpuinfo("CPU implementer")
	part, _ := r.cpuinfo("CPU part")
	if !found {
		return ""
	}
	for _, p := range armParts {
		if p.maker == maker && p.part == part {
			return p.name
		}
	}
	return fmt.Sprintf("Arm implementer %s part %s", maker, part)
}

// armParts are CPUs of servers, by MIDR_EL1 (arch/arm64/include/asm/cputype.h of
// the kernel).
var armParts = [...]struct{ maker, part, name string }{
	{"0x41", "0xd0c", "Neoverse N1"},
	{"0x41", "0xd40", "Neoverse V1"},
	{"0x41", "0xd49", "Neoverse N2"},
	{"0x41", "0xd4f", "Neoverse V2"},
	{"0x41", "0xd84", "Neoverse V3"},
	{"0x41", "0xd8e", "Neoverse N3"},
	{"0x48", "0xd01", "Kunpeng 920"},
	{"0xc0", "0xac3", "AmpereOne"},
}

// hypervisor asks Xen's own directory, then the CPU's "hypervisor" flag (CPUID
// leaf 1, ECX bit 31), and takes the name from the firmware. A CPU without flags
// of x86 is asked by the firmware's name alone, or the device tree.
func (r *reader) hypervisor() string {
	if name, ok := r.peek("sys/hypervisor/type"); ok && name == "xen" {
		return "Xen"
	}
	flags, isX86 := r.cpuinfo("flags")
	if isX86 && !slices.Contains(strings.Fields(flags), "hypervisor") {
		return ""
	}
	product, _ := r.peek("sys/class/dmi/id/product_name")
	vendor, _ := r.peek("sys/class/dmi/id/sys_vendor")
	for _, maker := range makers {
		if strings.Contains(product+"\n"+vendor, maker.mark) && (isX86 || maker.virtual(product)) {
			return maker.name
		}
	}
	if isX86 {
		return "unknown"
	}
	if compatible, _ := r.peek("proc/device-tree/hypervisor/compatible"); strings.Contains(compatible, "kvm") {
		return "KVM"
	}
	return ""
}

// maker is a hypervisor's, known by a word in the firmware's product or vendor
// name.
type maker struct {
	mark, name string
	metal      string // what the product's name ends with on its bare machines; empty: it has none
}

// makers has the more telling word first: KVM guests of QEMU name both.
var makers = [...]maker{
	{"KVM", "KVM", ""},
	{"VMware", "VMware", ""},
	{"Microsoft Corporation", "Hyper-V", ""},
	{"Amazon EC2", "Amazon EC2", ".metal"},
	{"Google", "Google", "-metal"},
	{"QEMU", "QEMU", ""},
	{"VirtualBox", "VirtualBox", ""},
}

func (m maker) virtual(product string) bool {
	return m.metal == "" || !strings.Contains(product, m.metal)
}

// container looks for the marks that runtimes leave. One that hides itself is
// not found.
func (r *reader) container() string {
	if name, ok := r.peek("run/systemd/container"); ok && name != "" {
		return name
	}
	for _, mark := range [...]struct{ file, name string }{
		{"var/run/secrets/kubernetes.io", "kubernetes"},
		{"run/secrets/kubernetes.io", "kubernetes"},
		{"run/.containerenv", "podman"},
		{".dockerenv", "docker"},
	} {
		if _, err := fs.Stat(r.tree, mark.file); err == nil {
			return mark.name
		}
	}
	groups, _ := r.peek("proc/self/cgroup")
	for _, mark := range [...]struct{ word, name string }{
		{"kubepods", "kubernetes"}, {"docker", "docker"}, {"libpod", "podman"}, {"/lxc", "lxc"},
	} {
		if inGroup(groups, mark.word) {
			return mark.name
		}
	}
	return ""
}

// inGroup reports whether a line of /proc/self/cgroup has the word in its path.
// A service that runs containers is not in one: its group ends ".service".
func inGroup(groups, word string) bool {
	for line := range strings.Lines(groups) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, word) && !strings.HasSuffix(line, ".service") {
			return true
		}
	}
	return false
}

// switches reads the kernel's settings. The huge pages' file brackets the choice
// in force: "always [madvise] never".
func (r *reader) switches() Switches {
	choices, _ := r.peek("sys/kernel/mm/transparent_hugepage/enabled")
	_, choice, _ := strings.Cut(choices, "[")
	choice, _, _ = strings.Cut(choice, "]")
	return Switches{
		NUMABalancing:        r.peekNumber("proc/sys/kernel/numa_balancing"),
		ZoneReclaim:          r.peekNumber("proc/sys/vm/zone_reclaim_mode"),
		TransparentHugePages: choice,
	}
}
