package affinity

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MoveThread lets a thread of any process run on these CPUs only, from now on
// (sched_setaffinity(2)). The error is EPERM for a thread of another user without
// CAP_SYS_NICE, EINVAL if its cpuset has none of the CPUs, ESRCH if it has ended.
func MoveThread(thread int, cpus []int) error {
	return unix.SchedSetaffinityDynamic(thread, cpuSet(cpus))
}

// MoveMemory moves the pages of any process from some nodes to another
// (migrate_pages(2)), and returns how many stayed. Pages that it shares with others
// move only with CAP_SYS_NICE. Which node new pages come from does not change: that
// policy belongs to each thread, and only it can set it. The error is EPERM without
// the right to the process, or if its cpuset has not the node, ENOSYS from a kernel
// without NUMA, ESRCH if it has ended.
func MoveMemory(pid int, from []int, to int) (stayed int, err error) {
	var source, target unix.CPUSet // plain masks of 1024 bits, as in policy
	for _, node := range from {
		source.Set(node)
	}
	target.Set(to)
	if !target.IsSet(to) {
		return 0, fmt.Errorf("node %d: %w", to, unix.EINVAL)
	}
	const maskBits = uintptr(len(source)) * unsafe.Sizeof(source[0]) * 8
	n, _, errno := unix.Syscall6(unix.SYS_MIGRATE_PAGES, uintptr(pid), maskBits,
		uintptr(unsafe.Pointer(&source)), uintptr(unsafe.Pointer(&target)), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
