package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// server answers each GET with its name. While it is closed requests wait;
// SIGUSR1 opens it. The target /figures is answered at any time, not counted, and
// the last of its connection.
type server struct {
	name   string
	opened chan struct{} // closed when it is open

	mu       sync.Mutex
	requests int // guarded by mu: that came
	now      int // guarded by mu: in progress
	most     int // guarded by mu: in progress at once, so far
}

func serve(address, name string, open bool) error {
	s := &server{name: name, opened: make(chan struct{})}
	if open {
		close(s.opened)
	} else {
		told := make(chan os.Signal, 1)
		signal.Notify(told, unix.SIGUSR1)
		go func() {
			<-told
			close(s.opened)
		}()
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go s.converse(conn)
	}
}

// converse is the life of a connection. A client that leaves is noticed while its
// request waits.
func (s *server) converse(conn net.Conn) {
	defer conn.Close()
	targets := make(chan string)
	over := make(chan struct{})
	defer close(over)
	go read(conn, targets, over)
	for target := range targets {
		if target == "/figures" {
			answer(conn, s.figures())
			return
		}
		if !s.attend(targets) || answer(conn, s.name) != nil {
			return
		}
	}
}

func answer(conn net.Conn, body string) error {
	_, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return err
}

// attend counts a request and waits until the server is open; false means that
// the client has gone. None of our clients sends a second request before it has
// the answer to its first.
func (s *server) attend(targets <-chan string) bool {
	s.mu.Lock()
	s.requests++
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	select {
	case <-s.opened:
		return true
	case <-targets:
		return false
	}
}

func (s *server) figures() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("requests %d now %d most %d", s.requests, s.now, s.most)
}

// read hands on the target of each request, and closes targets at the
// connection's end. It ends after over at the latest.
func read(conn net.Conn, targets chan<- string, over <-chan struct{}) {
	defer close(targets)
	lines := bufio.NewScanner(conn)
	target := ""
	for lines.Scan() {
		if first := strings.Fields(lines.Text()); len(first) == 3 && target == "" {
			target = first[1]
			continue
		}
		if lines.Text() != "" {
			continue
		}
		select {
		case targets <- target:
			target = ""
		case <-over:
			return
		}
	}
}
