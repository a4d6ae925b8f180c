package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/worker"
)

// This file is what the test binary is when it is started as another program: a
// supervisor, or a worker with the simplest traffic that there is. A line that a
// client sends is answered by the line "PID GENERATION". The line "wait" is
// answered only when another one has followed it: a request in progress.

// supervisorRole runs a supervisor on a configuration file and a root for sysfs.
func supervisorRole(path, root string) int {
	s, err := New(Options{Load: func() (*config.Config, error) { return config.Load(path) }, Build: "test", Root: root})
	if err == nil {
		err = s.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func workerRole() int {
	return worker.Main(3, func(*segment.Segment, int) worker.Traffic {
		return &lineTraffic{listeners: map[int]*lineListener{}, idle: map[net.Conn]bool{}}
	})
}

// lineTraffic is the traffic half of the test's worker.
type lineTraffic struct {
	mu         sync.Mutex
	generation uint64
	listeners  map[int]*lineListener // by descriptor
	idle       map[net.Conn]bool     // every connection; true: no request in progress
	draining   bool
	open       sync.WaitGroup
}

// lineListener accepts from one socket until it is closed.
type lineListener struct {
	net.Listener
	fd    int
	ended chan struct{}
}

func (tr *lineTraffic) Apply(s *spec.Spec) error {
	if len(s.Config.Trust) > 0 { // the test's way of saying: refuse this one
		return fmt.Errorf("trust is beyond a line server")
	}
	tr.mu.Lock()
	tr.generation = s.Generation
	tr.mu.Unlock()
	stay := map[int]bool{}
	for _, l := range s.Listeners {
		for _, fd := range l.Sockets {
			stay[fd] = true
			if tr.listeners[fd] == nil {
				tr.listeners[fd] = tr.listen(fd)
			}
		}
	}
	for fd, l := range tr.listeners {
		if !stay[fd] {
			tr.closeListener(l)
			delete(tr.listeners, fd)
		}
	}
	return nil
}

func (tr *lineTraffic) listen(fd int) *lineListener {
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	file := os.NewFile(uintptr(duplicate), "socket")
	defer file.Close()
	inner, err := net.FileListener(file)
	if err != nil {
		panic(err)
	}
	l := &lineListener{Listener: inner, fd: fd, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			tr.serve(c)
		}
	}()
	return l
}

// closeListener accepts what is queued first.
func (tr *lineTraffic) closeListener(l *lineListener) {
	l.Listener.(*net.TCPListener).SetDeadline(time.Unix(1, 0))
	<-l.ended
	for {
		fd, _, err := unix.Accept4(l.fd, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != nil {
			break
		}
		file := os.NewFile(uintptr(fd), "connection")
		c, err := net.FileConn(file)
		file.Close()
		if err == nil {
			tr.serve(c)
		}
	}
	l.Close()
	unix.Close(l.fd)
}

func (tr *lineTraffic) serve(c net.Conn) {
	tr.mu.Lock()
	tr.idle[c] = false // until its first line is answered: nobody is sent away unheard
	tr.mu.Unlock()
	tr.open.Go(func() {
		defer c.Close()
		lines := bufio.NewScanner(c)
		for lines.Scan() {
			tr.setIdle(c, false)
			if lines.Text() == "wait" && !lines.Scan() {
				break
			}
			tr.mu.Lock()
			generation := tr.generation
			tr.mu.Unlock()
			fmt.Fprintf(c, "%d %d\n", os.Getpid(), generation)
			if tr.setIdle(c, true) {
				break
			}
		}
		tr.mu.Lock()
		delete(tr.idle, c)
		tr.mu.Unlock()
	})
}

func (tr *lineTraffic) setIdle(c net.Conn, idle bool) (draining bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.idle[c] = idle
	return tr.draining
}

func (tr *lineTraffic) Drain(limit time.Duration) {
	for _, l := range tr.listeners {
		tr.closeListener(l)
	}
	tr.mu.Lock()
	tr.draining = true
	for c, idle := range tr.idle {
		if idle {
			c.Close()
		}
	}
	tr.mu.Unlock()
	timer := time.AfterFunc(limit, tr.Close)
	tr.open.Wait()
	timer.Stop()
}

func (tr *lineTraffic) Renew(*spec.Keys) error { return nil }

func (tr *lineTraffic) ReopenLogs() error {
	fmt.Fprintln(os.Stderr, "logs reopened")
	return nil
}

func (tr *lineTraffic) Close() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for c := range tr.idle {
		c.Close()
	}
}
