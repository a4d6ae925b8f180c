package reactor

import (
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// acceptPause is how long accept rests when descriptors have run out (EMFILE,
// ENFILE) or the kernel has no memory: the connections wait in the backlog, and
// those that are being served go on.
const acceptPause = 100 * time.Millisecond

// Listener takes connections from one listening socket. Loop only.
type Listener struct {
	loop   *Loop
	fd     int
	take   func(*Conn)
	timer  timer // armed while accept rests
	closed bool
}

// Listen hands every connection that arrives at fd, a listening TCP
// socket, to take, which runs on the loop outside any task. fd stays the
// caller's until Listener.Close.
func (l *Loop) Listen(fd int, take func(*Conn)) (*Listener, error) {
	ln := &Listener{loop: l, fd: fd, take: take}
	ln.timer.owner = ln
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	// What is accepted inherits the option from the listening socket.
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err := l.register(fd, unix.EPOLLIN, ln); err != nil {
		return nil, err
	}
	return ln, nil
}

// events accepts a bounded batch; epoll tells again if more wait.
func (ln *Listener) events(uint32) { ln.accept(acceptBatch) }

func (ln *Listener) accept(batch int) {
	for ; batch > 0 && !ln.closed; batch-- { // take may close it
		var sa unix.RawSockaddrAny
		fd, e := accept(ln.fd, &sa)
		switch e {
		case 0:
			if c, err := ln.loop.Adopt(fd, addrPort(&sa)); err == nil {
				ln.take(c)
			}
		case unix.EAGAIN:
			return
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			ln.pause()
			return
		default: // ECONNABORTED and the network errors of accept(2): that connection is gone, the next may be well
		}
	}
}

func (ln *Listener) pause() {
	ln.loop.stats.AcceptPauses++
	epollCtl(ln.loop.epoll, unix.EPOLL_CTL_MOD, ln.fd, 0, ln.loop.sources[ln.fd].generation)
	ln.loop.wheel.arm(&ln.timer, ln.loop.now+int64(acceptPause))
}

func (ln *Listener) expire(int64) {
	epollCtl(ln.loop.epoll, unix.EPOLL_CTL_MOD, ln.fd, unix.EPOLLIN, ln.loop.sources[ln.fd].generation)
}

// Close takes what is still queued, so that no connection which the kernel has
// accepted is lost, and closes this process's descriptor.
func (ln *Listener) Close() {
	ln.accept(1 << 20)
	if !ln.closed {
		ln.shut()
		closeFD(ln.fd)
	}
}

func (ln *Listener) shut() {
	if ln.closed {
		return
	}
	ln.closed = true
	ln.loop.wheel.disarm(&ln.timer)
	epollCtl(ln.loop.epoll, unix.EPOLL_CTL_DEL, ln.fd, 0, 0)
	ln.loop.forget(ln.fd)
}

func addrPort(sa *unix.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case unix.AF_INET:
		in := sockaddr4(sa)
		return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), swap(in.Port))
	case unix.AF_INET6:
		in := sockaddr6(sa)
		return netip.AddrPortFrom(netip.AddrFrom16(in.Addr).Unmap(), swap(in.Port))
	}
	return netip.AddrPort{}
}

func swap(port uint16) uint16 { return port<<8 | port>>8 }
