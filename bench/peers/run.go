package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"sluice/bench/configs"
	"sluice/bench/proc"
	"sluice/bench/secure"
)

const (
	readyWithin = 20 * time.Second
	askEvery    = 20 * time.Millisecond
)

// Running is a peer that answers requests.
type Running struct {
	Port    int
	process *proc.Process // nil: no proxy
}

// Start writes the peer's configuration into s.Dir, starts it on s.CPUs and waits
// until it passes a request on. The caller ends it with Stop.
func (p Peer) Start(ctx context.Context, s Setup) (*Running, error) {
	if p.Name == Direct {
		return &Running{Port: s.Backends[0]}, nil
	}
	config, err := p.configure(s.Setup)
	if err != nil {
		return nil, err
	}
	log := filepath.Join(s.Dir, p.Name+".log")
	// Caddy keeps state in the user's directories.
	env := []string{"XDG_CONFIG_HOME=" + s.Dir, "XDG_DATA_HOME=" + s.Dir}
	if p.kind.golang {
		env = append(env, "GOMAXPROCS="+strconv.Itoa(s.Threads))
	}
	process, err := proc.Start(proc.Command{
		Path: p.Path,
		Args: p.kind.args(config, s),
		Env:  env,
		Dir:  s.Dir,
		Log:  log,
		CPUs: s.CPUs,
		Stop: p.kind.stop,
	})
	if err != nil {
		return nil, err
	}
	r := &Running{Port: s.Port, process: process}
	if err := r.ready(ctx, s.Protocol, s.Certificate); err != nil {
		r.Stop()
		text, _ := os.ReadFile(log)
		return nil, fmt.Errorf("%s: %w; its last words: %s", p.Name, err, lastLine(text))
	}
	return r, nil
}

// Check asks a peer that can tell whether it takes its configuration. The error is what
// it says. It writes the configuration into s.Dir.
func (p Peer) Check(ctx context.Context, s configs.Setup) error {
	if p.kind.check == nil {
		return nil
	}
	config, err := p.configure(s)
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, p.Path, p.kind.check(config)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s refuses its configuration for %s: %w:\n%s", p.Name, s.Protocol.Words(), err, out)
	}
	return nil
}

func (p Peer) configure(s configs.Setup) (string, error) {
	if p.kind.template == "" {
		return "", nil
	}
	text, err := configs.Render(p.kind.template, s)
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.Dir, p.kind.template)
	return path, os.WriteFile(path, text, 0o644)
}

// ready asks until the answer is 200, over TLS as it is agreed upon. HTTP/3 is not asked:
// who speaks it answers HTTP/1.1 over TLS on the same port.
func (r *Running) ready(ctx context.Context, p secure.Protocol, c secure.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: p == secure.HTTP2}}
	url := "http://" + address(r.Port) + "/1"
	if p != "" {
		client.Transport.(*http.Transport).TLSClientConfig = c.Client()
		url = "https" + strings.TrimPrefix(url, "http")
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		err := ask(ctx, client, url, p)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-r.process.Done():
			return fmt.Errorf("it ended at once: %w", r.process.Wait())
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w", readyWithin, err)
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string, p secure.Protocol) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	if p == secure.HTTP2 && response.ProtoMajor != 2 {
		return fmt.Errorf("it answers by %s instead of HTTP/2", response.Proto)
	}
	return nil
}

// PIDs are the processes of the peer; none if there is no proxy.
func (r *Running) PIDs() ([]int, error) {
	if r.process == nil {
		return nil, nil
	}
	return proc.Tree(r.process.PID())
}

// PID is the process that was started; it is not to be asked where there is no proxy.
func (r *Running) PID() int { return r.process.PID() }

// Stop ends the peer.
func (r *Running) Stop() {
	if r.process != nil {
		r.process.Stop()
	}
}

// ---- what has no configuration file ----

func reverseProxyArgs(_ string, s Setup) []string {
	var to []string
	for _, port := range s.Backends {
		to = append(to, "http://"+address(port))
	}
	args := []string{"-listen", address(s.Port), "-to", strings.Join(to, ",")}
	if s.Protocol != "" {
		args = append(args, "-cert", s.Certificate.Cert, "-key", s.Certificate.Key, "-protocol", string(s.Protocol))
	}
	return args
}

// floorArgs: the floor relays to one backend.
func floorArgs(_ string, s Setup) []string {
	args := []string{"px", strconv.Itoa(s.Port), strconv.Itoa(s.Backends[0])}
	if s.PerRequest {
		args = append(args, "close")
	}
	return args
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Ports gives out ports to listen on. They are below the range that the kernel takes
// clients' ports from, so that no outgoing connection is in the way, and above those that
// the tests of Sluice use. It counts up from any of them: others may do so at the same
// time, and a port is free until its program has started.
type Ports struct{ last int }

const firstPort, lastPort = 30000, 32768

// Next is a port on 127.0.0.1 that nobody listens on.
func (p *Ports) Next() (int, error) {
	if p.last == 0 {
		p.last = firstPort + rand.IntN(lastPort-firstPort)
	}
	for range lastPort - firstPort {
		if p.last++; p.last >= lastPort {
			p.last = firstPort
		}
		l, err := net.Listen("tcp", address(p.last))
		if err == nil {
			return p.last, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d", firstPort, lastPort)
}

// StartBackend starts the backend that all peers share; it answers GET /N with N bytes.
func StartBackend(ctx context.Context, floor, dir string, port int, cpus []int) (*Running, error) {
	return StartServer(ctx, port, proc.Command{
		Path: floor,
		Args: []string{"be", strconv.Itoa(port)},
		Log:  filepath.Join(dir, "backend.log"),
		CPUs: cpus,
	})
}

// StartServer starts a program that listens on that port of 127.0.0.1, and waits
// until it answers GET /1 with 200.
func StartServer(ctx context.Context, port int, c proc.Command) (*Running, error) {
	process, err := proc.Start(c)
	if err != nil {
		return nil, err
	}
	r := &Running{Port: port, process: process}
	if err := r.ready(ctx, "", secure.Certificate{}); err != nil {
		r.Stop()
		return nil, fmt.Errorf("%s: %w", filepath.Base(c.Path), err)
	}
	return r, nil
}
