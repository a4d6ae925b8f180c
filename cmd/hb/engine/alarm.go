package engine

import (
	"context"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm wakes its only user after a time.
type Alarm interface {
	// Wait returns after the time, or early when the run ends.
	Wait(time.Duration)
}

// timer is an alarm that wakes to the microsecond: a timer of the kernel as a
// file (timerfd_create(2)). The runtime's own timers end in epoll_wait, whose
// time-out is in whole milliseconds; that would be a fault of up to a
// millisecond in each response time of an open loop.
type timer struct {
	file *os.File
	raw  syscall.RawConn
	set  func(fd uintptr) // applies spec; made once, so that Wait allocates nothing
	spec unix.ItimerSpec
	buf  [8]byte // the kernel's count of expirations
}

// newTimer makes one that no longer waits when ctx has ended.
func newTimer(ctx context.Context) (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	t := &timer{file: os.NewFile(uintptr(fd), "timerfd")}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		return nil, err
	}
	t.set = func(fd uintptr) { unix.TimerfdSettime(int(fd), 0, &t.spec, nil) }
	context.AfterFunc(ctx, func() { t.file.Close() })
	return t, nil
}

// Wait passes over errors: only a closed file has any, and that is the run's end.
func (t *timer) Wait(d time.Duration) {
	if d <= 0 {
		return // a time of zero would disarm the timer
	}
	t.spec.Value = unix.NsecToTimespec(int64(d))
	if t.raw.Control(t.set) == nil {
		t.file.Read(t.buf[:])
	}
}
