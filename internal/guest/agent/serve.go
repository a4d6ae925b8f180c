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
// SIGUSR1 opens it. The target /figures is answered at any time, and not counted.
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

// request is what a server reads of a request.
type request struct {
	target string
	last   bool // the client wants the connection closed after it
}

// converse is the life of a connection. A client that leaves is noticed while its
// request waits.
func (s *server) converse(conn net.Conn) {
	defer conn.Close()
	requests := make(chan request)
	over := make(chan struct{})
	defer close(over)
	go read(conn, requests, over)
	for r := range requests {
		body := s.name
		if r.target == "/figures" {
			body = s.figures()
		} else if !s.attend(requests) {
			return
		}
		if answer(conn, body) != nil || r.last {
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
func (s *server) attend(requests <-chan request) bool {
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
	case <-requests:
		return false
	}
}

func (s *server) figures() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("requests %d now %d most %d", s.requests, s.now, s.most)
}

// read hands on each request, and closes requests at the connection's end. It ends
// after over at the latest.
func read(conn net.Conn, requests chan<- request, over <-chan struct{}) {
	defer close(requests)
	lines := bufio.NewScanner(conn)
	for r := (request{}); lines.Scan(); {
		line := lines.Text()
		if first := strings.Fields(line); r.target == "" && len(first) == 3 {
			r = request{target: first[1], last: first[2] == "HTTP/1.0"}
		}
		r.last = r.last || strings.EqualFold(line, "Connection: close")
		if line != "" {
			continue
		}
		select {
		case requests <- r:
			r = request{}
		case <-over:
			return
		}
	}
}
