package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"sluice/internal/affinity"
	"sluice/internal/placement"
)

// Role is the hidden subcommand by which this binary becomes an app worker.
const Role = "demo-app"

// When an app worker dies it is started again: at once after a good life, else
// after a pause that doubles.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	goodLife   = 10 * time.Second
	stopLimit  = 5 * time.Second // then an app worker that was asked to end is killed
)

// farm is all app workers.
type farm struct {
	instances []*instance // immutable
	cancel    context.CancelFunc
	keepers   sync.WaitGroup // one for each instance
}

// instance is one app worker: a place, a listening socket, and whatever process
// answers on it now. The socket is ours, so that a connection which arrives while
// the process is dead waits for the next one.
type instance struct {
	name   string
	place  placement.Worker
	url    string
	socket *os.File
	first  *process // started by startFarm; then the keeper's
}

// process is one life of an instance.
type process struct {
	cmd     *exec.Cmd
	started time.Time
}

// startFarm starts one app worker on each place. After an error none runs.
func startFarm(places []placement.Worker) (*farm, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &farm{cancel: cancel}
	for i, place := range places {
		in, err := newInstance(ctx, fmt.Sprintf("demo-%d", i), place)
		if err != nil {
			f.stop()
			return nil, fmt.Errorf("demo app worker %d: %w", i, err)
		}
		f.instances = append(f.instances, in)
		f.keepers.Go(func() { in.keep(ctx) })
	}
	return f, nil
}

// stop ends every app worker and returns when all are gone.
func (f *farm) stop() {
	f.cancel()
	f.keepers.Wait()
	for _, in := range f.instances {
		in.socket.Close()
	}
}

// newInstance opens the socket and starts the first process.
func newInstance(ctx context.Context, name string, place placement.Worker) (*instance, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	in := &instance{name: name, place: place, url: "http://" + l.Addr().String(), socket: socket}
	if in.first, err = in.start(ctx); err != nil {
		socket.Close()
		return nil, err
	}
	return in, nil
}

// start runs a process on the instance's node, until ctx ends.
//
// Its standard input is a pipe that nobody writes to: the end of that pipe is the
// sign to end. The kernel gives it too, however the supervisor dies. (Pdeathsig
// would not do: it is sent when the thread that forked ends, prctl(2), and Go's
// threads come and go.)
func (in *instance) start(ctx context.Context) (*process, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", Role, in.name, strconv.Itoa(in.place.Node))
	cmd.Args[0] = os.Args[0] // what ps shows
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{in.socket}
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.Cancel = lifeline.Close
	cmd.WaitDelay = stopLimit
	if err := affinity.Inherit(in.place, cmd.Start); err != nil {
		return nil, errors.Join(err, lifeline.Close())
	}
	return &process{cmd: cmd, started: time.Now()}, nil
}

// keep is the life of an instance: it waits for the process, and starts another,
// until ctx ends.
func (in *instance) keep(ctx context.Context) {
	p, pause := in.first, time.Duration(0)
	for {
		if p != nil {
			err := p.cmd.Wait()
			if ctx.Err() != nil {
				return
			}
			slog.Warn("demo app worker died", "name", in.name, "pid", p.cmd.Process.Pid, "cause", cause(err))
			pause = nextPause(pause, time.Since(p.started))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		var err error
		if p, err = in.start(ctx); err != nil {
			slog.Error("demo app worker does not start", "name", in.name, "error", err)
			pause = nextPause(pause, 0)
		}
	}
}

// nextPause is how long to wait before a start, after a life that lasted so long.
func nextPause(last, lived time.Duration) time.Duration {
	switch {
	case lived >= goodLife:
		return 0
	case last == 0:
		return firstPause
	}
	return min(2*last, lastPause)
}

// cause says how a process ended.
func cause(err error) string {
	if err == nil {
		return "it ended by itself"
	}
	return err.Error()
}
