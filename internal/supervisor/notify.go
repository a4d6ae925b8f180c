package supervisor

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// notifier tells the service manager how we are, by the protocol of sd_notify(3):
// datagrams of NAME=value lines. Without a manager it is silent. It belongs to the
// event loop, so the watchdog is fed only while that turns.
type notifier struct {
	socket *net.UnixConn // nil: nobody listens
	every  time.Duration // between two feeds of the watchdog; 0: there is none
	feedAt time.Time
}

// newNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID.
func newNotifier(getenv func(string) string) *notifier {
	n := new(notifier)
	path := getenv("NOTIFY_SOCKET")
	if path == "" {
		return n
	}
	// A first "@" means the abstract name space, for systemd as for package net.
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		slog.Warn("the service manager cannot be told", "NOTIFY_SOCKET", path, "error", err)
		return n
	}
	n.socket = socket
	n.every = watchdogInterval(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"))
	if n.every > 0 {
		n.feedAt = time.Now()
	}
	return n
}

// watchdogInterval is half of what the manager allows, as sd_watchdog_enabled(3)
// advises; 0 if the watchdog is not meant for this process.
func watchdogInterval(usec, pid string) time.Duration {
	if pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	allowed, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || allowed <= 0 {
		return 0
	}
	return time.Duration(allowed) * time.Microsecond / 2
}

// feed lets the watchdog know that the event loop turns.
func (n *notifier) feed(a *alarm) {
	if a.due(n.feedAt) {
		n.send("WATCHDOG=1")
		n.feedAt = a.now.Add(n.every)
	}
}

func (n *notifier) ready(generation uint64) {
	n.send(fmt.Sprintf("READY=1\nSTATUS=serving configuration %d", generation))
}

// reloading must carry the time, for a unit of Type=notify-reload.
func (n *notifier) reloading() {
	n.send(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d\nSTATUS=reloading", monotonicMicros()))
}

func (n *notifier) refused(generation uint64) {
	n.send(fmt.Sprintf("READY=1\nSTATUS=the last reload was refused; serving configuration %d", generation))
}

func (n *notifier) stopping() { n.send("STOPPING=1\nSTATUS=stopping") }

// send tells the manager, if there is one. A manager that does not listen is its
// own trouble.
func (n *notifier) send(state string) {
	if n.socket == nil {
		return
	}
	if _, err := n.socket.Write([]byte(state)); err != nil {
		slog.Debug("the service manager was not told", "error", err)
	}
}

func (n *notifier) close() {
	if n.socket != nil {
		n.socket.Close()
	}
}

// monotonicMicros is CLOCK_MONOTONIC, which package time does not show.
func monotonicMicros() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0
	}
	return now.Nano() / int64(time.Microsecond)
}
