package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/postgres"
	"sluice/bench/proc"
	"sluice/bench/toolchain"
)

// application is what runs in two instances.
type application interface {
	// start starts instance number i, on a port and on CPUs.
	start(ctx context.Context, i, port int, cpus []int) (*instance, error)

	// load asks one port and gives the requests per second. It calls begin and end
	// around the measured time.
	load(ctx context.Context, j job, begin, end func()) (float64, error)

	// close removes what was made for it.
	close()
}

// instance is one that answers.
type instance struct {
	pid  int
	pids func() ([]int, error) // its processes; nil: they change, and their CPU time is not read
	stop func()
}

// job is the load of one part.
type job struct {
	port          int
	cpus          int   // of the part, which say how much
	on            []int // CPUs of the generator
	warm, measure time.Duration
}

// Load for each CPU of a part, and CPUs that one thread of a load generator feeds.
const (
	connsPerCPU  = 16
	cpusPerMaker = 4
)

// ---- the stand-in ----

// ledger is bench/split/ledger.
type ledger struct {
	dir, program, generator string
}

func newLedger(ctx context.Context, dir string) (*ledger, error) {
	l := &ledger{dir: dir}
	var err error
	if l.generator, err = toolchain.C(ctx, dir, "load", load.Source); err != nil {
		return nil, err
	}
	l.program, err = toolchain.Go(ctx, dir, "ledger", "sluice/bench/split/ledger")
	return l, err
}

func (l *ledger) start(ctx context.Context, i, port int, cpus []int) (*instance, error) {
	r, err := peers.StartServer(ctx, port, proc.Command{Path: l.program, Args: []string{"-listen", fmt.Sprintf("127.0.0.1:%d", port)},
		Log: filepath.Join(l.dir, fmt.Sprintf("ledger-%d.log", i)), CPUs: cpus})
	if err != nil {
		return nil, err
	}
	return &instance{pid: r.PID(), pids: r.PIDs, stop: r.Stop}, nil
}

// load runs as many generators as the part needs; the first one's times are those of all.
func (l *ledger) load(ctx context.Context, j job, begin, end func()) (float64, error) {
	makers := max(1, j.cpus/cpusPerMaker)
	rates, errs := make([]float64, makers), make([]error, makers)
	var wg sync.WaitGroup
	for i := range makers {
		b, e := begin, end
		if i > 0 {
			b, e = func() {}, func() {}
		}
		g := load.Generator{Path: l.generator, CPUs: j.on, Log: filepath.Join(l.dir, "load.log")}
		wg.Go(func() {
			s, err := g.Run(ctx, load.Job{Port: j.port, Conns: max(1, connsPerCPU*j.cpus/makers), Target: "/post", Warm: j.warm, Measure: j.measure}, b, e)
			if err == nil && (s.Errors > 0 || s.Requests == 0) {
				err = fmt.Errorf("%d requests answered, %d failed", s.Requests, s.Errors)
			}
			rates[i], errs[i] = float64(s.Requests)/max(s.Seconds(), 1e-9), err
		})
	}
	wg.Wait()
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	return sum, errors.Join(errs...)
}

func (l *ledger) close() {}

// ---- the database ----

const (
	scale         = 10 // of pgbench: 100,000 accounts each, 160 MB in all
	sharedBuffers = "shared_buffers=256MB"
	clientsPerCPU = 8
)

// database is PostgreSQL under pgbench's select-only script, with a cluster for each
// instance.
type database struct {
	tools *postgres.Tools
	dir   string
	data  [2]*postgres.Data
	most  int // connections that an instance may get
}

// newDatabase makes and fills the clusters; cpus are those of both parts.
func newDatabase(ctx context.Context, tools *postgres.Tools, dir string, cpus int) (*database, error) {
	d := &database{tools: tools, dir: dir, most: clientsPerCPU*cpus + 10}
	var ports peers.Ports
	for i := range d.data {
		var err error
		if d.data[i], err = d.fill(ctx, i, &ports); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *database) fill(ctx context.Context, i int, ports *peers.Ports) (*postgres.Data, error) {
	data, err := d.tools.Create(ctx)
	if err != nil {
		return nil, err
	}
	err = d.initialise(ctx, data, i, ports)
	if err != nil {
		data.Remove()
		return nil, err
	}
	return data, nil
}

func (d *database) initialise(ctx context.Context, data *postgres.Data, i int, ports *peers.Ports) error {
	port, err := ports.Next()
	if err != nil {
		return err
	}
	server, err := data.Start(ctx, d.server(i, port, nil))
	if err != nil {
		return err
	}
	defer server.Stop()
	return postgres.Command(ctx, append([]string{d.tools.Bench(), "--initialize", "--quiet", "--scale", strconv.Itoa(scale)}, at(port)...)...)
}

func (d *database) server(i, port int, cpus []int) postgres.Server {
	return postgres.Server{Port: port, Connections: d.most, CPUs: cpus,
		Log: filepath.Join(d.dir, fmt.Sprintf("database-%d.log", i)), Settings: []string{sharedBuffers}}
}

// at are the arguments that say which server pgbench asks.
func at(port int) []string {
	return []string{"--host=127.0.0.1", "--port=" + strconv.Itoa(port), "--username=" + postgres.User, "postgres"}
}

func (d *database) start(ctx context.Context, i, port int, cpus []int) (*instance, error) {
	server, err := d.data[i].Start(ctx, d.server(i, port, cpus))
	if err != nil {
		return nil, err
	}
	return &instance{pid: server.PID(), stop: server.Stop}, nil
}

// load runs pgbench twice, first to warm up. Its times are whole seconds.
func (d *database) load(ctx context.Context, j job, begin, end func()) (float64, error) {
	if j.warm >= time.Second {
		if _, err := d.bench(ctx, j, j.warm); err != nil {
			return 0, err
		}
	}
	begin()
	defer end()
	return d.bench(ctx, j, j.measure)
}

func (d *database) bench(ctx context.Context, j job, length time.Duration) (float64, error) {
	var out bytes.Buffer
	log := filepath.Join(d.dir, fmt.Sprintf("pgbench-%d.log", j.port))
	args := []string{"--no-vacuum", "--select-only", "--protocol=prepared", "--client=" + strconv.Itoa(clientsPerCPU*j.cpus),
		"--jobs=" + strconv.Itoa(max(1, j.cpus/cpusPerMaker)), "--time=" + strconv.Itoa(int(length/time.Second))}
	p, err := proc.Start(proc.Command{Path: d.tools.Bench(), Args: append(args, at(j.port)...), Output: &out, Log: log, CPUs: j.on})
	if err != nil {
		return 0, err
	}
	defer p.Stop()
	defer context.AfterFunc(ctx, p.Stop)()
	if err := p.Wait(); err != nil {
		text, _ := os.ReadFile(log)
		return 0, errors.Join(ctx.Err(), fmt.Errorf("pgbench: %w: %s", err, bytes.TrimSpace(text)))
	}
	return transactions(out.String())
}

// perSecond is pgbench's line of its result.
var perSecond = regexp.MustCompile(`(?m)^tps = ([0-9.]+) \(without initial connection time\)$`)

// transactions are those per second that pgbench has told.
func transactions(said string) (float64, error) {
	m := perSecond.FindStringSubmatch(said)
	if m == nil {
		return 0, fmt.Errorf("pgbench tells no tps: %q", said)
	}
	return strconv.ParseFloat(m[1], 64)
}

func (d *database) close() {
	for _, data := range d.data {
		if data != nil {
			data.Remove()
		}
	}
}
