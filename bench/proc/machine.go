package proc

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what figures were taken on.
type Machine struct {
	Model       string `json:"model"`  // of the CPU
	CPUs        []int  `json:"cpus"`   // that this process may use
	Nodes       int    `json:"nodes"`  // NUMA nodes
	Memory      int64  `json:"memory"` // bytes
	Kernel      string `json:"kernel"`
	System      string `json:"system"`      // distribution
	Virtualised bool   `json:"virtualised"` // under a hypervisor: other guests may take the CPU
}

// ReadMachine looks at the machine. What it cannot read it leaves empty.
func ReadMachine() Machine {
	var u unix.Utsname
	_ = unix.Uname(&u)
	cpuinfo := readText("/proc/cpuinfo")
	memory, _ := kilobytes(readText("/proc/meminfo"), "MemTotal:")
	nodes, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	return Machine{
		Model:       field(cpuinfo, "model name", ":"),
		CPUs:        AllowedCPUs(),
		Nodes:       max(1, len(nodes)),
		Memory:      memory,
		Kernel:      unix.ByteSliceToString(u.Release[:]),
		System:      strings.Trim(field(readText("/etc/os-release"), "PRETTY_NAME", "="), `"`),
		Virtualised: strings.Contains(" "+field(cpuinfo, "flags", ":")+" ", " hypervisor "),
	}
}

// ReadUsage is what each CPU has done since boot.
func ReadUsage() map[int]Usage {
	all, err := parseUsage(readText("/proc/stat"))
	if err != nil {
		return nil
	}
	return all
}

// AllowedCPUs are the CPUs that this process may use, ascending.
func AllowedCPUs() []int {
	cpus, err := CPUsOf(0)
	if err != nil {
		return []int{0}
	}
	return cpus
}

// CPUsOf are the CPUs that the kernel lets a process's first thread use, ascending;
// 0 is the thread that calls.
func CPUsOf(pid int) ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &set); err != nil {
		return nil, fmt.Errorf("CPUs of process %d: %w", pid, err)
	}
	var cpus []int
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// field is the value of the first line "key SEP value".
func field(text, key, sep string) string {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		k, v, ok := strings.Cut(lines.Text(), sep)
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func readText(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}
