// Package contender knows the ways to the backend that are compared: directly, and
// through proxies that hold requests back, refuse them, or let all pass. Each has one
// configuration here, which says nothing but the limit and what all are told.
package contender

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"sluice/bench/peers"
	"sluice/bench/proc"
)

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.tmpl"))

// Contender is one way to the backend.
type Contender struct {
	Name    string
	Program string // as package peers calls it
	Limit   string // of requests at the server, as its configuration writes it
	Aside   bool   // no claim rests on it: one round will do
	Copies  int    // of the proxy, each with its part of the users; 0 is 1
}

// Direct is the backend without a proxy, Adaptive Sluice as it comes: what the
// others are compared with.
const (
	Direct   = "direct"
	Adaptive = "sluice, adaptive"
)

// Straight and Learning are the two that every scene has.
var (
	Straight = Contender{Name: Direct, Program: peers.Direct}
	Learning = Contender{Name: Adaptive, Program: peers.Sluice, Limit: "adaptive"}
)

// Fixed is Sluice with a limit that the operator has chosen.
func Fixed(n int) Contender {
	return Contender{Name: fmt.Sprintf("sluice, fixed %d", n), Program: peers.Sluice, Limit: strconv.Itoa(n)}
}

// HAProxy has a limit for the server, and a queue; 0: no limit.
func HAProxy(n int) Contender {
	if n == 0 {
		return Contender{Name: "haproxy, no limit", Program: peers.HAProxy, Aside: true}
	}
	return Contender{Name: fmt.Sprintf("haproxy, maxconn %d", n), Program: peers.HAProxy, Limit: strconv.Itoa(n), Aside: true}
}

// Three are as many Sluices, which do not know of each other.
func Three() Contender {
	return Contender{Name: "three sluices, adaptive", Program: peers.Sluice, Limit: "adaptive", Copies: 3}
}

// Envoy adapts, and refuses what is over its limit.
func Envoy() Contender {
	return Contender{Name: "envoy, adaptive concurrency", Program: peers.Envoy, Aside: true}
}

// Setup is what one start of a contender is to do.
type Setup struct {
	Dir     string // for what the proxy writes
	Port    int    // to listen on, on 127.0.0.1
	Backend int    // port on 127.0.0.1
	Asks
}

// Asks are what a scene asks of Sluice beyond its defaults, which zero values keep.
type Asks struct {
	Queue    int           // requests that it holds
	Timeout  time.Duration // that it holds them
	Failures string        // what shows that the backend is overloaded, beside its defaults: a response field
}

// configuration is what a template is filled in with.
type configuration struct {
	Setup
	Limit string
}

// program is how one is started.
type program struct {
	template string
	args     func(config string) []string
	stop     syscall.Signal
}

var programs = map[string]program{
	peers.Sluice:  {"sluice.yaml", func(c string) []string { return []string{"run", "--config", c} }, syscall.SIGINT},
	peers.HAProxy: {"haproxy.cfg", func(c string) []string { return []string{"-db", "-q", "-f", c} }, syscall.SIGTERM},
	peers.Envoy: {"envoy.yaml", func(c string) []string {
		return []string{"-c", c, "--concurrency", "2", "--use-dynamic-base-id", "-l", "error", "--disable-hot-restart"}
	}, syscall.SIGTERM},
}

// Running is a contender that passes requests on.
type Running struct {
	Port    int
	process *proc.Process // nil: no proxy
}

// Start writes the configuration into s.Dir, starts the program found at path, and
// waits until it passes a request on. The caller ends it with Stop.
func (c Contender) Start(ctx context.Context, path string, s Setup) (*Running, error) {
	if c.Program == peers.Direct {
		return &Running{Port: s.Backend}, Ready(ctx, s.Backend, nil)
	}
	text, err := c.render(s)
	if err != nil {
		return nil, err
	}
	p := programs[c.Program]
	config := filepath.Join(s.Dir, p.template)
	if err := os.WriteFile(config, text, 0o644); err != nil {
		return nil, err
	}
	log := filepath.Join(s.Dir, "log")
	process, err := proc.Start(proc.Command{Path: path, Args: p.args(config), Dir: s.Dir, Log: log, Stop: p.stop})
	if err != nil {
		return nil, err
	}
	if err := Ready(ctx, s.Port, process); err != nil {
		process.Stop()
		return nil, fmt.Errorf("%s: %w; its last words: %s", c.Name, err, lastWords(log))
	}
	return &Running{s.Port, process}, nil
}

func (c Contender) render(s Setup) ([]byte, error) {
	var out bytes.Buffer
	err := templates.ExecuteTemplate(&out, programs[c.Program].template+".tmpl", configuration{s, c.Limit})
	return out.Bytes(), err
}

// Stop ends it.
func (r *Running) Stop() {
	if r.process != nil {
		r.process.Stop()
	}
}

// Ready waits until the answer on a port is 200, at most a minute. A process that ends
// before that ends the waiting; nil: there is none to watch.
func Ready(ctx context.Context, port int, process *proc.Process) error {
	const within, askEvery = time.Minute, 20 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var ended <-chan struct{}
	if process != nil {
		ended = process.Done()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		err := ask(ctx, client, port)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("it ended at once: %w", process.Wait())
		case <-ctx.Done():
			return fmt.Errorf("not ready after %v: %w", within, err)
		}
	}
}

func ask(ctx context.Context, client *http.Client, port int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, URL(port), nil)
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
	return nil
}

// URL is where a port on 127.0.0.1 is asked.
func URL(port int) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/"
}

// lastWords is the last line of a log.
func lastWords(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := slices.Collect(strings.Lines(strings.TrimSpace(string(text))))
	if len(lines) == 0 {
		return "none"
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
