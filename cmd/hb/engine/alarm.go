package engine

import (
	"context"
	"os"
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
	fd   int
	buf  [8]byte
}

// newTimer makes one that no longer waits when ctx has ended.
func newTimer(ctx context.Context) (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	t := &timer{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	context.AfterFunc(ctx, func() { t.file.SetReadDeadline(time.Unix(1, 0)) })
	return t, nil
}

func (t *timer) Wait(d time.Duration) {
	if d <= 0 {
		return
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if unix.TimerfdSettime(t.fd, 0, &spec, nil) != nil {
		return
	}
	t.file.Read(t.buf[:]) // a run that ends fails it, which is what is wanted
}
