package scene

import (
	"context"
	"net"
	"path/filepath"
	"strconv"

	"sluice/bench/overload/contender"
	"sluice/bench/overload/drive"
	"sluice/bench/proc"
)

// server is a backend that runs.
type server struct {
	port    int
	control drive.Control
	stop    func()
}

// model starts the backend that behaves as its arguments say.
func model(args ...string) func(context.Context, *Rig, string) (*server, error) {
	return func(ctx context.Context, r *Rig, dir string) (*server, error) {
		port, err := r.ports.Next()
		if err != nil {
			return nil, err
		}
		control, err := r.ports.Next()
		if err != nil {
			return nil, err
		}
		process, err := proc.Start(proc.Command{
			Path: r.Backend,
			Args: append([]string{"-listen", address(port), "-control", address(control)}, args...),
			Log:  filepath.Join(dir, "backend.log"),
		})
		if err != nil {
			return nil, err
		}
		if err := contender.Ready(ctx, port, process); err != nil {
			process.Stop()
			return nil, err
		}
		return &server{port, drive.Control("http://" + address(control)), process.Stop}, nil
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
