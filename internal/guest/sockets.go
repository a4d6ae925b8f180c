package guest

import (
	"fmt"
	"strconv"
	"strings"
)

// Socket is a TCP socket over IPv4 as the kernel shows it.
type Socket struct {
	Inode     string // names it in the whole machine; "0" once no process has it
	Local     string // address and port, in the kernel's spelling: 0100007F:1F90
	Remote    string
	Listening bool
	Queue     int // listening: connections that wait for accept; else bytes that wait to be read
}

// Sockets are all TCP sockets over IPv4 of the guest.
func (g *Guest) Sockets() []Socket {
	g.t.Helper()
	sockets, err := parseSockets(g.readOnly("/proc/net/tcp", `(?m)^([ \t]*\S+){10}`))
	if err != nil {
		g.t.Fatal(err)
	}
	return sockets
}

// parseSockets reads /proc/net/tcp (proc_pid_net(5)): a heading, then a line for
// each socket, which begins with its number, local and remote address, state (0A:
// it listens), and the lengths of its queues.
func parseSockets(text string) ([]Socket, error) {
	var sockets []Socket
	_, lines, _ := strings.Cut(text, "\n")
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) < 10 {
			return nil, fmt.Errorf("%q is no line of /proc/net/tcp", line)
		}
		_, received, _ := strings.Cut(fields[4], ":")
		queue, err := strconv.ParseInt(received, 16, 64)
		if err != nil {
			return nil, fmt.Errorf("the queues in %q: %w", line, err)
		}
		sockets = append(sockets, Socket{Local: fields[1], Remote: fields[2], Listening: fields[3] == "0A", Queue: int(queue), Inode: fields[9]})
	}
	return sockets, nil
}

// Inodes are those of a process's open files, sockets among them.
func (g *Guest) Inodes(pid int) map[string]bool {
	g.t.Helper()
	inodes := map[string]bool{}
	for _, text := range g.matchOnly(fmt.Sprintf("/proc/%d/fdinfo/*", pid), `(?m)^ino:.*`) {
		_, after, found := strings.Cut(text, "ino:")
		if fields := strings.Fields(after); found && len(fields) > 0 {
			inodes[fields[0]] = true
		}
	}
	return inodes
}
