// Package worker is one listener process: the only one that knows all of traffic.
//
// It has two halves that meet at the interface Traffic. The control half (run.go,
// control.go) opens what the supervisor has left it, follows the supervisor's
// messages one at a time, and ends the process. The traffic half runs the loops.
// The control half knows no request, the traffic half no supervisor.
//
// A worker never ends by itself while its supervisor lives. Without one it drains
// and ends.
package worker

import (
	"log/slog"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"sluice/internal/segment"
	"sluice/internal/spec"
)

// Main is the life of a worker process, and returns its exit code: 0 after an
// orderly end, 1 if it was not started by a supervisor. Descriptor number control
// is the control socket, the one after it the shared segment. build makes the
// traffic half of worker index; it is called once, when the first spec has come.
func Main(control int, build func(shared *segment.Segment, index int) Traffic) int {
	ignoreSignals()
	level := new(slog.LevelVar)
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))

	conn, err := spec.Open(control)
	if err != nil {
		slog.Error("a worker is started by sluice run, not by hand", "error", err)
		return 1
	}
	defer conn.Close()
	unix.CloseOnExec(control + 1)
	shared, err := segment.Open(control + 1)
	if err != nil {
		slog.Error("a worker is started by sluice run, not by hand", "error", err)
		return 1
	}
	defer shared.Close()
	defer collectLess()()
	newControl(conn, shared, level, build).run()
	return 0
}

func newControl(conn *spec.Conn, shared *segment.Segment, level *slog.LevelVar, build func(*segment.Segment, int) Traffic) *control {
	return &control{conn: conn, shared: shared, level: level, build: build, probed: make(chan struct{}, 1)}
}

// ignoreSignals leaves every order to the supervisor. A terminal sends Ctrl-C to
// all processes of the program at once, and a service manager may send SIGTERM
// to each; a worker that left by itself would leave the connections in its
// sockets' queues without an answer. SIGPIPE: once the supervisor is gone nobody
// may read our standard output, and a log line shall not end us.
func ignoreSignals() {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE)
}
