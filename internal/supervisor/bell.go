package supervisor

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// bells wake workers: an eventfd for each (eventfd(2)). Every worker has all of
// them, as one that gives a permit back may have to wake another. They live as long
// as the supervisor, so that a worker that comes anew finds the others' unchanged.
type bells []int

// newBells makes one for each worker.
func newBells(workers int) (bells, error) {
	var b bells
	for range workers {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			b.close()
			return nil, os.NewSyscallError("eventfd", err)
		}
		b = append(b, fd)
	}
	return b, nil
}

// ring wakes a worker. The only error that there may be says that the bell rings
// already, so often that its counter is full (EAGAIN).
func (b bells) ring(worker int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(b[worker], one[:])
}

// answered says whether a worker has read its bell since it was rung last.
func (b bells) answered(worker int) bool {
	bell := []unix.PollFd{{Fd: int32(b[worker]), Events: unix.POLLIN}}
	n, err := unix.Poll(bell, 0)
	return n == 0 && err == nil
}

func (b bells) close() {
	for _, fd := range b {
		unix.Close(fd)
	}
}
