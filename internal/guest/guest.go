package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/guest/order"
	"sluice/internal/testkit"
)

// Guest is a running machine. Its methods end the test if they cannot do what
// they say.
type Guest struct {
	t    testing.TB
	line *line
}

// line is the connection to the agent.
type line struct {
	mu     sync.Mutex // held from an order to its answer
	conn   net.Conn
	in     *json.Decoder
	out    *json.Encoder
	broken bool // guarded by mu: an answer did not come, and nothing more will be understood
}

// For is the same guest for another test, such as a part of the one that booted
// it: that test is ended, and its end stops the processes that it has started.
func (g *Guest) For(t testing.TB) *Guest { return &Guest{t: t, line: g.line} }

// hear reads an answer.
func (l *line) hear() (a order.Answer, err error) {
	l.conn.SetReadDeadline(time.Now().Add(testkit.Patience))
	err = l.in.Decode(&a)
	return a, err
}

// exchange gives an order and reads its answer, which may be a refusal.
func (l *line) exchange(o order.Order) (a order.Answer, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		return a, errors.New("it has not for some time")
	}
	if err = l.out.Encode(o); err == nil {
		a, err = l.hear()
	}
	l.broken = err != nil
	return a, err
}

// lost reports whether the guest answers no more.
func (g *Guest) lost() bool {
	g.line.mu.Lock()
	defer g.line.mu.Unlock()
	return g.line.broken
}

// try gives an order that the agent may refuse.
func (g *Guest) try(o order.Order) order.Answer {
	g.t.Helper()
	a, err := g.line.exchange(o)
	if err != nil {
		g.t.Fatalf("the guest does not answer: %v", err)
	}
	return a
}

func (g *Guest) do(o order.Order) order.Answer {
	g.t.Helper()
	a := g.try(o)
	if a.Error != "" {
		g.t.Fatalf("in the guest: %s: %s", o.Do, a.Error)
	}
	return a
}

// Read is the text of a file.
func (g *Guest) Read(path string) string {
	g.t.Helper()
	return g.do(order.Order{Do: order.Read, Path: path}).Text
}

// Line is the text of a file of one line, as most in /sys are.
func (g *Guest) Line(path string) string {
	g.t.Helper()
	return strings.TrimSpace(g.Read(path))
}

// Match is the text of each file whose path matches a pattern (path/filepath), by
// path.
func (g *Guest) Match(pattern string) map[string]string {
	g.t.Helper()
	return g.matchOnly(pattern, "")
}

// matchOnly is Match for what of each text matches a regular expression, a line for
// each match. What comes out of a guest comes byte by byte.
func (g *Guest) matchOnly(pattern, keep string) map[string]string {
	g.t.Helper()
	return g.do(order.Order{Do: order.Match, Path: pattern, Keep: keep}).Files
}

// readOnly is Read likewise.
func (g *Guest) readOnly(path, keep string) string {
	g.t.Helper()
	return g.do(order.Order{Do: order.Read, Path: path, Keep: keep}).Text
}

// List is the names in a directory, sorted.
func (g *Guest) List(dir string) []string {
	g.t.Helper()
	return g.do(order.Order{Do: order.List, Path: dir}).Names
}

// Write writes a file, as a whole and in one call, as files of the kernel want it.
func (g *Guest) Write(path, text string) {
	g.t.Helper()
	g.do(order.Order{Do: order.Write, Path: path, Text: text})
}

// Mkdir makes a directory with all above it.
func (g *Guest) Mkdir(dir string) {
	g.t.Helper()
	g.do(order.Order{Do: order.Mkdir, Path: dir})
}

// Cpuset makes a control group that has these CPUs, and memory of these nodes, in
// the kernel's list format; empty is all. It returns the group's directory.
func (g *Guest) Cpuset(name, cpus, nodes string) string {
	g.t.Helper()
	dir := "/sys/fs/cgroup/" + name
	g.Mkdir(dir)
	g.Write(dir+"/cpuset.cpus", cpus+"\n")
	g.Write(dir+"/cpuset.mems", nodes+"\n")
	return dir
}

// Page gets a page over HTTP, from network unix or tcp: its status and its body. A
// server that is not there, or cuts off, gives status 0.
func (g *Guest) Page(network, address, target string) (status int, body string) {
	g.t.Helper()
	a := g.try(order.Order{Do: order.Ask, Network: network, Address: address,
		Text: fmt.Sprintf("GET %s HTTP/1.0\r\nHost: guest\r\n\r\n", target)})
	head, body, whole := strings.Cut(a.Text, "\r\n\r\n")
	if _, err := fmt.Sscanf(head, "HTTP/1.%d %d", new(int), &status); err != nil || a.Error != "" || !whole {
		return 0, ""
	}
	return status, body
}
