package reactor

import (
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A job that watches starts at the end of the connection, however it comes, and
// not before: what the peer sends stays for who reads.
func TestWatch(t *testing.T) {
	for name, end := range map[string]func(l *Loop, c *Conn, far net.Conn){
		"the peer ends":   func(_ *Loop, _ *Conn, far net.Conn) { far.(*net.TCPConn).CloseWrite() },
		"the peer resets": func(_ *Loop, _ *Conn, far net.Conn) { far.(*net.TCPConn).SetLinger(0); far.Close() },
		"aborted":         func(l *Loop, c *Conn, _ net.Conn) { on(t, l, func() { c.Abort(os.ErrClosed) }) },
		"closed":          func(l *Loop, c *Conn, _ net.Conn) { on(t, l, func() { c.Close() }) },
		"the time is over": func(l *Loop, c *Conn, _ net.Conn) {
			on(t, l, func() { c.SetReadTimeout(30 * time.Millisecond) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := startLoop(t, Options{})
			c, far := tcpConn(t, l)
			started := make(chan struct{}, 1)
			on(t, l, func() { c.Watch(jobFunc(func() { started <- struct{}{} })) })
			far.Write([]byte("x"))
			eventually(t, l, "the byte has come", func() bool { return c.readable })
			select {
			case <-started:
				t.Fatal("the job started for a byte")
			default:
			}
			end(l, c, far)
			await(t, "the job starts", started)
		})
	}
}

// A connection that has ended before is told of at once; a wish that is taken
// back is forgotten.
func TestWatchLate(t *testing.T) {
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	far.Close()
	eventually(t, l, "the end has come", func() bool { return c.Ended() })
	started := make(chan struct{}, 1)
	on(t, l, func() { c.Watch(jobFunc(func() { started <- struct{}{} })) })
	await(t, "the job starts", started)

	c, far = tcpConn(t, l)
	on(t, l, func() {
		c.Watch(jobFunc(func() { t.Error("a job ran that was taken back") }))
		c.Watch(nil)
	})
	far.Close()
	eventually(t, l, "the end has come", func() bool { return c.Ended() })
}

// A bell wakes a sleeping loop, each time.
func TestBell(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	l := startLoop(t, Options{})
	rung := make(chan struct{}, 8)
	on(t, l, func() { err = l.Answer(fd, func() { rung <- struct{}{} }) })
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		Ring(fd)
		await(t, "the loop answers", rung)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	on(t, l, func() { err = l.Answer(int(file.Fd()), nil) })
	mustFail(t, "a file for a bell", err, unix.EPERM)
}

// A wait for the peer that lasts too long is reported once, whoever waits and for
// what; short ones are not, however many there are.
func TestSlow(t *testing.T) {
	const long, short = 50 * time.Millisecond, time.Hour
	for name, wait := range map[string]func(c *Conn){
		"a read":  func(c *Conn) { c.Read(make([]byte, 1)) },
		"a write": func(c *Conn) { c.Write(make([]byte, 16<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			l := startLoop(t, Options{})
			c, far := tcpConn(t, l)
			reported := make(chan struct{}, 8)
			on(t, l, func() { c.OnSlow(long, jobFunc(func() { reported <- struct{}{} })) })
			waiting := spawn(l, func() { wait(c) })
			await(t, "the wait is reported", reported)
			far.Close()
			await(t, "the wait ends", waiting)
		})
	}
	l := startLoop(t, Options{})
	c, far := tcpConn(t, l)
	on(t, l, func() { c.OnSlow(short, jobFunc(func() { t.Error("a short wait was reported") })) })
	reading := spawn(l, func() { c.Read(make([]byte, 1)) })
	eventually(t, l, "the task waits", func() bool { return c.reader != nil && c.slowBy != 0 })
	far.Write([]byte("x"))
	await(t, "the wait ends", reading)
	eventually(t, l, "the wait is forgotten", func() bool { return c.slowBy == 0 })
}
