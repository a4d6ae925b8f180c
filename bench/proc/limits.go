package proc

import "syscall"

// AllowFiles raises this process's limit on open files to n, which children
// inherit; beyond the hard limit only root can, and others get what there is.
func AllowFiles(n uint64) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < n {
		raised := syscall.Rlimit{Cur: n, Max: n}
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
			return nil
		}
	}
	limit.Cur = min(n, limit.Max)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}
