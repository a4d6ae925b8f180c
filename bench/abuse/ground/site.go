package ground

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"sluice/bench/abuse/attack"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/secure"
)

//go:embed sluice.yaml.tmpl
var configText string

var config = template.Must(template.New("sluice.yaml").Parse(configText))

// site is a Sluice that runs, with its backend.
type site struct {
	configuration
	sluice, backend *peers.Running
}

// configuration is what the template is filled in with.
type configuration struct {
	Dir                             string
	Loops                           int
	Plain, Secure, Backend, Sockets int // ports on 127.0.0.1
	Certificate                     secure.Certificate
}

// build starts a site. The caller ends it by close.
func (g *Ground) build(ctx context.Context) (*site, error) {
	dir, err := os.MkdirTemp(g.Dir, "site-")
	if err != nil {
		return nil, err
	}
	s := &site{configuration: configuration{Dir: dir, Loops: len(g.layout.Proxy), Sockets: g.sockets.port(), Certificate: g.certificate}}
	if err := s.start(ctx, g); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *site) start(ctx context.Context, g *Ground) error {
	for _, port := range []*int{&s.Plain, &s.Secure, &s.Backend} {
		var err error
		if *port, err = g.ports.Next(); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	if err := config.Execute(&text, s.configuration); err != nil {
		return err
	}
	file := filepath.Join(s.Dir, "sluice.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
		return err
	}
	var err error
	if s.backend, err = peers.StartBackend(ctx, g.floor, s.Dir, s.Backend, g.layout.Backend[0]); err != nil {
		return err
	}
	log := filepath.Join(s.Dir, "sluice.log")
	s.sluice, err = peers.StartServer(ctx, s.Plain, proc.Command{
		Path: g.Sluice, Args: []string{"run", "--config", file}, Dir: s.Dir, Log: log, CPUs: g.layout.Proxy, Stop: syscall.SIGINT,
	})
	if err != nil {
		said, _ := os.ReadFile(log)
		return fmt.Errorf("%w; its log: %s", err, bytes.TrimSpace(said))
	}
	return nil
}

func (s *site) close() {
	if s.sluice != nil {
		s.sluice.Stop()
	}
	if s.backend != nil {
		s.backend.Stop()
	}
	os.RemoveAll(s.Dir)
}

// target is where it is attacked.
func (s *site) target() attack.Target {
	at := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	return attack.Target{Plain: at(s.Plain), Secure: at(s.Secure)}
}

// use is the CPU time that its processes have used, and their peak of resident memory in
// bytes.
func (s *site) use() (cpu time.Duration, peak int64, err error) {
	pids, err := s.sluice.PIDs()
	if err != nil {
		return 0, 0, err
	}
	cpu, err = proc.CPU(pids)
	if err != nil {
		return 0, 0, err
	}
	peak, err = proc.PeakOf(pids)
	return cpu, peak, err
}

// sample is a line of the text format of Prometheus: name, labels, value.
var sample = regexp.MustCompile(`(?m)^sluice_([a-z0-9_]+)(?:\{([^}]*)\})? (\S+)$`)

// telling are the metrics by which an operator sees abuse, and the label that says which.
var telling = map[string]string{
	"http2_abuses_total": "class", "http3_events_total": "class", "tls_handshake_failures_total": "cause",
	"shed_connections_total": "cause", "refused_requests_total": "reason", "accept_pauses_total": "", "tunnels": "",
	"task_panics_total": "",
}

// metrics are what the operator sees of a Sluice.
type metrics struct {
	told        map[string]float64 // those of telling that are not 0, as "name reason"
	connections float64            // of clients, that are open
	turns, busy float64            // of loops: turns, and seconds that these took
}

func (s *site) metrics(ctx context.Context) (metrics, error) {
	text, err := s.ask(ctx, "/metrics")
	if err != nil {
		return metrics{}, err
	}
	got := metrics{told: map[string]float64{}}
	for _, m := range sample.FindAllStringSubmatch(text, -1) {
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return metrics{}, fmt.Errorf("/metrics: %q: %w", m[0], err)
		}
		switch m[1] {
		case "client_connections":
			got.connections += value
		case "loop_turns_total":
			got.turns += value
		case "loop_busy_seconds_total":
			got.busy += value
		}
		if label, is := telling[m[1]]; is && value > 0 {
			got.told[strings.TrimSpace(strings.TrimSuffix(m[1], "_total")+" "+labelled(m[2], label))] += value
		}
	}
	return got, nil
}

// labelled is the value of a label.
func labelled(labels, name string) string {
	for label := range strings.SplitSeq(labels, ",") {
		if key, value, _ := strings.Cut(label, "="); key == name {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// ask gets a page of the admin interface.
func (s *site) ask(ctx context.Context, path string) (string, error) {
	office := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.Dir, "admin"))
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+path, nil)
	if err != nil {
		return "", err
	}
	answer, err := office.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(path + ": " + answer.Status)
	}
	return string(text), err
}
