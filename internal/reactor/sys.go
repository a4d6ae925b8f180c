package reactor

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls below are made with RawSyscall: their descriptors are non-blocking,
// so they return at once and the scheduler need not be told. Only sleepPoll,
// which does block, goes through Syscall, so that the loop's P can serve others
// meanwhile.

func recv(fd int, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), 0, 0, 0)
	return int(n), e
}

// peek is recv that leaves the bytes where they are.
func peek(fd int, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_PEEK, 0, 0)
	return int(n), e
}

func send(fd int, p []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

func accept(fd int, sa *unix.RawSockaddrAny) (int, syscall.Errno) {
	size := uint32(unix.SizeofSockaddrAny)
	n, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(sa)), uintptr(unsafe.Pointer(&size)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	return int(n), e
}

// queued is how many bytes of a socket's send buffer its peer has not taken yet
// (SIOCOUTQ, tcp(7), unix(7)).
func queued(fd int) int {
	var n int32
	syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCOUTQ, uintptr(unsafe.Pointer(&n)))
	return int(n)
}

// unread is how many bytes of a socket's receive buffer have not been read yet
// (SIOCINQ, tcp(7), unix(7)).
func unread(fd int) int {
	var n int32
	syscall.RawSyscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCINQ, uintptr(unsafe.Pointer(&n)))
	return int(n)
}

func closeFD(fd int) { syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func shutdownWrite(fd int) { syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0) }

func epollCtl(ep, op, fd int, events uint32, generation uint32) syscall.Errno {
	ev := unix.EpollEvent{Events: events, Fd: int32(fd), Pad: int32(generation)}
	_, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(ep), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(&ev)), 0, 0)
	return e
}

// poll returns the events that are there, without waiting.
func poll(ep int, evs []unix.EpollEvent) int {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&evs[0])), uintptr(len(evs)), 0, 0, 0)
	if e != 0 {
		return 0
	}
	return int(n)
}

// sleepPoll waits up to ms milliseconds (-1: for ever) for events.
func sleepPoll(ep int, evs []unix.EpollEvent, ms int) int {
	n, _, e := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&evs[0])), uintptr(len(evs)), uintptr(ms), 0, 0)
	if e != 0 {
		return 0 // EINTR: the turn goes on and comes back
	}
	return int(n)
}

// splice moves up to n bytes between a socket and a pipe inside the kernel.
func splice(from, to, n int) (int, syscall.Errno) {
	const flags = unix.SPLICE_F_MOVE | unix.SPLICE_F_NONBLOCK
	r, _, e := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), flags)
	return int(r), e
}

func sockaddr4(sa *unix.RawSockaddrAny) *unix.RawSockaddrInet4 {
	return (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
}

func sockaddr6(sa *unix.RawSockaddrAny) *unix.RawSockaddrInet6 {
	return (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
}
