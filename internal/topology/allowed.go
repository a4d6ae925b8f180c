package topology

import "golang.org/x/sys/unix"

// Allowed lists the CPUs that this process may use, ascending: those that
// taskset, a service manager or a container's cpuset left it
// (sched_getaffinity(2)). It asks for the main thread: the calling one may be
// changed for a moment by package affinity. It is nil, which is "all", if the
// kernel does not say.
func Allowed() []int {
	set := unix.NewCPUSet(maxID)
	if err := unix.SchedGetaffinityDynamic(unix.Getpid(), set); err != nil {
		return nil
	}
	var cpus []int
	for cpu := range maxID {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}
