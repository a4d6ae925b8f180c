package reactor

import "golang.org/x/sys/unix"

// bell is an eventfd that belongs to somebody else, perhaps to another process.
type bell struct {
	fd   int
	rung func()
}

// Answer has rung run on the loop, outside any task, each time that the
// non-blocking eventfd is written to; several writes may count as one. The
// descriptor stays the caller's. It fails if epoll does not take it. Loop only.
func (l *Loop) Answer(eventfd int, rung func()) error {
	return l.register(eventfd, unix.EPOLLIN, &bell{eventfd, rung})
}

func (b *bell) events(uint32) {
	var count [8]byte
	unix.Read(b.fd, count[:])
	b.rung()
}

func (b *bell) shut() {}

// Ring writes to an eventfd on which some loop answers. One that is rung already
// cannot take more, and need not.
func Ring(eventfd int) {
	one := [8]byte{1}
	unix.Write(eventfd, one[:])
}
