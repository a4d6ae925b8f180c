package reactor

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn is a stream socket on a loop. It is a net.Conn and a Stream; at most one
// task reads and one task writes at a time. Loop only.
//
// Readiness is remembered: epoll is edge-triggered, so readable stays true until
// a read comes up short.
type Conn struct {
	loop *Loop
	fd   int
	peer netip.AddrPort
	here *netip.AddrPort // what LocalAddr says; nil: the socket's own

	readable, writable bool
	ended              bool // the peer sends no more, or the socket has failed: a read will not wait
	hung               bool // reset, or ended both ways
	closed             bool

	reader, writer *task // parked in Read or Await, and in Write
	idle           Job   // started when a conn without a task becomes ready
	watch          Job   // started when a conn without a task ends
	hangup         Job
	slow           Job           // run when a wait has lasted for slowAfter
	slowAfter      time.Duration // since its begin
	slowBy         int64         // when that is; 0: nobody waits, or nobody asks
	failure        error         // given by Abort

	stall           time.Duration // longest wait for the peer to take anything; 0: no limit
	stallBy         int64         // end of the present such wait; 0: nobody waits
	unsent          int           // in the socket's buffer when that wait began
	readBy, writeBy int64         // deadlines, loop time; 0: none
	timer           timer         // armed for the earlier of the two, or before
}

const connEvents = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff

// Adopt makes a connected, non-blocking socket a Conn of this loop, which closes
// it when it fails. peer may be the zero AddrPort.
func (l *Loop) Adopt(fd int, peer netip.AddrPort) (*Conn, error) {
	c := &Conn{loop: l, fd: fd, peer: peer, writable: true}
	c.timer.owner = c
	if err := l.register(fd, connEvents, c); err != nil {
		closeFD(fd)
		return nil, err
	}
	return c, nil
}

// Detach takes the socket of an open connection off this loop and returns it,
// for Adopt on another. Nothing may be waiting on the connection.
func (c *Conn) Detach() (fd int) {
	epollCtl(c.loop.epoll, unix.EPOLL_CTL_DEL, c.fd, 0, 0)
	c.idle, c.watch = nil, nil
	c.retire()
	return c.fd
}

// Peer is the other end's address; zero for Unix sockets.
func (c *Conn) Peer() netip.AddrPort { return c.peer }

// Pose has Peer, RemoteAddr and LocalAddr tell the ends of another connection, of which
// this is a part: the way from a proxy before us. here may be zero, for the socket's own.
func (c *Conn) Pose(peer, here netip.AddrPort) {
	c.peer, c.here = peer, nil
	if here.IsValid() {
		c.here = &here
	}
}

// Descriptor is the socket's number, which the kernel chose as the lowest that
// was free.
func (c *Conn) Descriptor() int { return c.fd }

// events marks what has become possible and makes who waits for it ready.
func (c *Conn) events(mask uint32) {
	if mask&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.readable = true
		if mask&^uint32(unix.EPOLLIN|unix.EPOLLOUT) != 0 {
			c.ended = true
			c.wakeWatch()
		}
		c.wakeReader()
	}
	if mask&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.writable = true
		c.loop.wake(c.writer)
	}
	if mask&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.hung = true
		c.reportHangup()
	}
}

func (c *Conn) reportHangup() {
	if job := c.hangup; job != nil {
		c.hangup = nil
		job.Run()
	}
}

// wakeReader readies the task that reads, or starts the idle job.
func (c *Conn) wakeReader() {
	if job := c.idle; job != nil {
		c.idle = nil
		c.loop.Go(job)
		return
	}
	c.loop.wake(c.reader)
}

// wakeWatch starts the job that watches over the connection's end.
func (c *Conn) wakeWatch() {
	if job := c.watch; job != nil {
		c.watch = nil
		c.loop.Go(job)
	}
}

// Read implements net.Conn. It waits only if the socket has nothing.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		if err := c.Await(); err != nil {
			return 0, err
		}
		if n, err := c.TryRead(p); err != ErrWait {
			return n, err
		}
	}
}

// ErrWait is TryRead's when the socket has nothing.
var ErrWait = errors.New("nothing has come yet")

// TryRead is Read that does not wait for the peer. It may run outside a task.
func (c *Conn) TryRead(p []byte) (int, error) {
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.failure != nil:
		return 0, c.failure
	}
	for c.readable {
		n, e := recv(c.fd, p)
		switch {
		case e == 0 && n > 0:
			if n < len(p) && !c.ended {
				c.readable = false // epoll(7): a short read means that the socket is empty
			}
			c.loop.spent(n)
			return n, nil
		case e == unix.EAGAIN && c.ended:
			return 0, io.ErrUnexpectedEOF
		case e == unix.EAGAIN:
			c.readable = false
		case e == unix.EINTR:
		case e != 0:
			return 0, opError("read", e)
		case len(p) == 0:
			return 0, nil
		default:
			return 0, io.EOF
		}
	}
	return 0, ErrWait
}

// Await implements Stream.
func (c *Conn) Await() error {
	for {
		switch {
		case c.closed:
			return net.ErrClosed
		case c.failure != nil:
			return c.failure
		case c.readable:
			c.slowBy = 0
			return nil
		case c.Late():
			c.slowBy = 0
			return os.ErrDeadlineExceeded
		}
		c.reader = c.loop.current
		c.waits()
		c.loop.park()
		c.reader = nil
	}
}

// Ready implements Stream.
func (c *Conn) Ready() bool { return c.readable || c.closed || c.failure != nil }

// Ended reports that the peer sends no more: a kept connection in this state is
// of no use.
func (c *Conn) Ended() bool { return c.ended || c.closed || c.failure != nil }

// Late reports whether the read deadline has passed.
func (c *Conn) Late() bool { return c.readBy != 0 && c.loop.now >= c.readBy }

// Start runs job in a new task of the connection's loop.
func (c *Conn) Start(job Job) { c.loop.Go(job) }

// Idle implements Stream.
func (c *Conn) Idle(job Job) bool {
	late := c.Late() // its timer has fired, and will not again
	if job != nil && (late || c.Ready()) {
		c.loop.Go(job)
		return true
	}
	c.idle = job
	return true
}

// Watch implements Stream.
func (c *Conn) Watch(job Job) bool {
	if job != nil && (c.Late() || c.Ended()) {
		c.loop.Go(job)
		return true
	}
	c.watch = job
	return true
}

// Write implements net.Conn. It returns when the kernel has taken all of p.
func (c *Conn) Write(p []byte) (int, error) {
	for done := 0; ; {
		n, e := 0, syscall.Errno(unix.EAGAIN)
		if c.writable && !c.closed && c.failure == nil {
			n, e = send(c.fd, p[done:])
		}
		switch e {
		case 0:
			c.loop.spent(n)
			if done += n; done == len(p) {
				return done, nil
			}
		case unix.EAGAIN:
			c.writable = false
			if err := c.awaitWritable(); err != nil {
				return done, err
			}
		case unix.EINTR:
		default:
			return done, opError("write", e)
		}
	}
}

func (c *Conn) awaitWritable() error {
	defer func() { c.stallBy, c.slowBy = 0, 0 }()
	for {
		switch {
		case c.closed:
			return net.ErrClosed
		case c.failure != nil:
			return c.failure
		case c.writable:
			return nil
		case c.writeBy != 0 && c.loop.now >= c.writeBy, c.stall > 0 && c.stalled():
			return os.ErrDeadlineExceeded
		}
		c.writer = c.loop.current
		c.waits()
		c.loop.park()
		c.writer = nil
	}
}

// stalled reports whether the peer has taken nothing for too long. That the
// socket did not become writable does not say so: the kernel tells of room only
// when a third of the buffer is free (sk_stream_is_writeable), which takes a
// slow but steady peer long.
func (c *Conn) stalled() bool {
	if c.stallBy != 0 && c.loop.now < c.stallBy {
		return false
	}
	unsent := queued(c.fd)
	if c.stallBy != 0 && unsent >= c.unsent {
		return true
	}
	c.unsent = unsent
	c.stallBy = c.loop.now + int64(c.stall)
	c.loop.wheel.arm(&c.timer, c.stallBy)
	return false
}

// OnHangup implements Stream.
func (c *Conn) OnHangup(job Job) {
	c.hangup = job
	if c.hung {
		c.reportHangup()
	}
}

// OnSlow implements Stream.
func (c *Conn) OnSlow(d time.Duration, job Job) { c.slow, c.slowAfter = job, d }

// waits notes that a task begins to wait for the peer.
func (c *Conn) waits() {
	if c.slow != nil && c.slowBy == 0 {
		c.slowBy = c.loop.now + int64(c.slowAfter)
		c.loop.wheel.arm(&c.timer, c.slowBy)
	}
}

func (c *Conn) reportSlow() {
	c.slowBy = 0
	if job := c.slow; job != nil {
		c.slow = nil
		job.Run()
	}
}

// Abort implements Stream.
func (c *Conn) Abort(err error) {
	if c.failure == nil {
		c.failure = err
	}
	c.wakeWatch()
	c.wakeReader()
	c.loop.wake(c.writer)
}

// SetReadTimeout implements Stream.
func (c *Conn) SetReadTimeout(d time.Duration) {
	if c.readBy = 0; d > 0 {
		c.readBy = c.loop.now + int64(d)
		c.loop.wheel.arm(&c.timer, c.readBy)
	}
}

// SetWriteTimeout implements Stream.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	if c.writeBy = 0; d > 0 {
		c.writeBy = c.loop.now + int64(d)
		c.loop.wheel.arm(&c.timer, c.writeBy)
	}
}

// SetStall implements Stream.
func (c *Conn) SetStall(d time.Duration) { c.stall = d }

// SetReadDeadline implements net.Conn; a time in the past ends a waiting Read at
// once, without the wheel.
func (c *Conn) SetReadDeadline(t time.Time) error {
	d := untilDeadline(t)
	if c.SetReadTimeout(d); d < 0 {
		c.readBy = c.loop.now
		c.wakeWatch()
		c.wakeReader()
	}
	return nil
}

// SetWriteDeadline implements net.Conn, as SetReadDeadline does.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	d := untilDeadline(t)
	if c.SetWriteTimeout(d); d < 0 {
		c.writeBy = c.loop.now
		c.loop.wake(c.writer)
	}
	return nil
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// untilDeadline is the time left until t: negative if it has passed, 0 if t is
// none.
func untilDeadline(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	if d := time.Until(t); d > 0 {
		return d
	}
	return -1
}

// expire wakes whoever has waited for too long, and arms the timer for the
// deadline that is still to come.
func (c *Conn) expire(now int64) {
	next := int64(0)
	for i, by := range [...]int64{c.readBy, c.writeBy, c.stallBy, c.slowBy} {
		switch {
		case by == 0:
		case now < by:
			if next == 0 || by < next {
				next = by
			}
		case i == 0:
			c.wakeWatch()
			c.wakeReader()
		case i == 3:
			c.reportSlow()
		default:
			c.loop.wake(c.writer)
		}
	}
	if next != 0 {
		c.loop.wheel.arm(&c.timer, next)
	}
}

// Close implements net.Conn. Who waits on the connection sees net.ErrClosed.
func (c *Conn) Close() error {
	if c.closed {
		return net.ErrClosed
	}
	c.retire()
	closeFD(c.fd)
	return nil
}

// retire ends the Conn but not its socket.
func (c *Conn) retire() {
	c.closed = true
	c.hangup = nil
	c.loop.forget(c.fd)
	c.loop.wheel.disarm(&c.timer)
	c.wakeWatch()
	c.wakeReader()
	c.loop.wake(c.writer)
}

func (c *Conn) shut() { c.Close() }

// CloseWrite tells the peer that nothing more will be sent; it may still send.
func (c *Conn) CloseWrite() error {
	if c.closed {
		return net.ErrClosed
	}
	shutdownWrite(c.fd)
	return nil
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr {
	if c.here != nil {
		return net.TCPAddrFromAddrPort(*c.here)
	}
	sa, err := unix.Getsockname(c.fd)
	if err != nil {
		return &net.TCPAddr{}
	}
	return tcpAddr(sa)
}

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.peer) }

func tcpAddr(sa unix.Sockaddr) net.Addr {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: a.Addr[:], Port: a.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: a.Addr[:], Port: a.Port}
	case *unix.SockaddrUnix:
		return &net.UnixAddr{Name: a.Name, Net: "unix"}
	}
	return &net.TCPAddr{}
}

func opError(op string, e syscall.Errno) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, e)}
}
