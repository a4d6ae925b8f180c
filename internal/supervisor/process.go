package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"sluice/internal/affinity"
	"sluice/internal/placement"
	"sluice/internal/segment"
	"sluice/internal/spec"
)

const (
	// spareThreads is added to a worker's loops to make its GOMAXPROCS: room for the
	// goroutines that are no loop (log writer, resolver, control).
	spareThreads = 2

	// sendLimit is how long a worker may leave a message unread while the socket's
	// buffer is full. One that does not read is as good as dead.
	sendLimit = 10 * time.Second

	// exitLimit is how long a process may live on after it has closed its control
	// socket. A core dump of a large one takes its time.
	exitLimit = 5 * time.Second

	// outboxRoom is how many messages may wait for one worker.
	outboxRoom = 16
)

// process is one running worker as the event loop sees it. Two goroutines belong
// to it: write carries the outbox to the worker, watch brings its messages and at
// last its exit as events. Both end with the process.
type process struct {
	pid     int
	started time.Time
	outbox  chan *parcel // event loop sends and closes
	end     func()       // kills the process and the conversation; any goroutine, any number of times

	// The rest belongs to the event loop.
	want       uint64    // generation sent last
	have       uint64    // generation that it said is in effect
	answerBy   time.Time // want must be answered by then; zero: it has been
	pingAt     time.Time // the next ping; zero: it does not serve yet
	unanswered int       // pings since the last pong
	keysSent   uint64    // serial number of the keys in the last configuration
	keysHave   uint64    // and of those that it said are in use
}

// exited: the process is gone.
type exited struct {
	member  *member
	process *process
	cause   string // "signal: killed", "exit status 0"
}

// heard: a message came from the process.
type heard struct {
	member  *member
	process *process
	message *spec.Message
}

// launch starts the worker of m: this same binary again, in the role worker, on
// the CPUs and the memory of its node. Descriptor 3 is its control socket, 4 the
// segment.
func launch(m *member, shared *segment.Segment, deliver func(event)) (*process, error) {
	conn, theirs, err := spec.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := &exec.Cmd{
		Path:       "/proc/self/exe", // also if the file was replaced since
		Args:       []string{os.Args[0], "worker"},
		Env:        environment(os.Environ(), m.place),
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		ExtraFiles: []*os.File{theirs, shared.File()},
	}
	if err := affinity.Inherit(m.place, cmd.Start); err != nil {
		conn.Close()
		return nil, err
	}
	p := &process{
		pid:     cmd.Process.Pid,
		started: time.Now(),
		outbox:  make(chan *parcel, outboxRoom),
		end:     func() { cmd.Process.Kill(); conn.Close() },
	}
	go write(p, conn)
	go watch(m, p, conn, cmd, deliver)
	return p, nil
}

// environment is the supervisor's own, and what the Go runtime of the worker
// sizes itself by. A memory limit that the operator has set stays.
func environment(ours []string, w placement.Worker) []string {
	env := append([]string(nil), ours...)
	env = append(env, "GOMAXPROCS="+strconv.Itoa(w.Loops+spareThreads), // the last of a name counts
		"QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING=true") // quic-go would write past the log, once for each socket
	limited := func() bool {
		for _, entry := range ours {
			if strings.HasPrefix(entry, "GOMEMLIMIT=") {
				return true
			}
		}
		return false
	}
	if w.MemoryLimit > 0 && !limited() {
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(w.MemoryLimit, 10))
	}
	return env
}

// write sends the outbox until it is closed. After a failure it only discards.
func write(p *process, conn *spec.Conn) {
	failed := false
	for parcel := range p.outbox {
		if !failed {
			conn.SetSendLimit(time.Now().Add(sendLimit))
			if err := conn.Send(parcel.message); err != nil {
				slog.Debug("worker was not told", "pid", p.pid, "kind", string(parcel.message.Kind), "error", err)
				failed = true
				p.end()
			}
		}
		parcel.discard()
	}
}

// watch delivers what the process says, then its exit. When the conversation is over
// the process is about to exit; one that lives on could not be led, and is killed.
func watch(m *member, p *process, conn *spec.Conn, cmd *exec.Cmd, deliver func(event)) {
	for {
		message, err := conn.Receive()
		if err != nil {
			break
		}
		deliver(heard{m, p, message})
	}
	overdue := time.AfterFunc(exitLimit, p.end)
	err := cmd.Wait()
	overdue.Stop()
	p.end() // closes our side
	deliver(exited{m, p, cause(err)})
}

// cause says how a process ended.
func cause(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "exit status 0"
	case errors.As(err, &exit):
		return exit.String()
	}
	return fmt.Sprint(err)
}

// send hands a message to the writer. It never waits: a process whose outbox is
// full does not read, and is ended.
func (p *process) send(message *parcel) {
	select {
	case p.outbox <- message:
	default:
		message.discard()
		p.end()
	}
}

// say sends a message that is nothing but its kind.
func (p *process) say(kind spec.Kind) { p.send(&parcel{message: &spec.Message{Kind: kind}}) }
