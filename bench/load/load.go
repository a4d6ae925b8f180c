// Package load drives the load generator, a C program of one thread (load.c): Go's
// own would need the processor time that the backend beside it needs.
//
// Run starts it, tells the caller when measuring begins and ends, and gives its
// figures; Hold keeps idle connections open.
package load

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"sluice/bench/proc"
)

// Source is the generator's program text.
//
//go:embed load.c
var Source []byte

// Job is one load.
type Job struct {
	Port       int
	Conns      int
	Target     string        // path of the request
	Warm       time.Duration // load that is not measured, first
	Measure    time.Duration
	PerRequest bool    // each request has a new connection
	Rate       float64 // requests per second, open loop; 0: closed loop
}

// Sample is what a run has measured, from the client's side.
type Sample struct {
	Requests   int64     `json:"requests"` // answered with 200 and a whole body
	Errors     int64     `json:"errors"`
	Bytes      int64     `json:"bytes"`      // of bodies
	Reconnects int64     `json:"reconnects"` // kept-alive connections that the server closed
	Unfinished int64     `json:"unfinished"` // open loop: due, but not answered a second after the end
	ElapsedNS  int64     `json:"elapsed_ns"`
	Latency    Histogram `json:"latency"`
}

// Seconds is the measured time.
func (s Sample) Seconds() float64 { return float64(s.ElapsedNS) / 1e9 }

// Generator is the compiled program.
type Generator struct {
	Path string
	CPUs []int
	Log  string // file for what it complains about
}

// Run runs a job. It calls begin when the measured time starts and end when it is
// over.
func (g Generator) Run(ctx context.Context, j Job, begin, end func()) (Sample, error) {
	r, err := g.start(j.args(), nil)
	if err != nil {
		return Sample{}, err
	}
	defer r.close()
	defer context.AfterFunc(ctx, r.process.Stop)()
	if err := r.begun(); err != nil {
		return Sample{}, errors.Join(ctx.Err(), err)
	}
	begin()
	s, err := r.sample()
	end()
	return s, errors.Join(ctx.Err(), err)
}

// args is the command line of load.c.
func (j Job) args() []string {
	mode, last := "closed", "keep"
	switch {
	case j.Rate > 0:
		mode, last = "open", strconv.FormatFloat(j.Rate, 'f', 1, 64)
	case j.PerRequest:
		last = "close"
	}
	return []string{mode, strconv.Itoa(j.Port), strconv.Itoa(j.Conns), j.Target,
		strconv.FormatInt(j.Warm.Milliseconds(), 10), strconv.FormatInt(j.Measure.Milliseconds(), 10), last}
}

// Hold opens idle connections, each after one request, and calls held while they
// are open. It fails if any of them was closed meanwhile.
func (g Generator) Hold(ctx context.Context, port, conns int, target string, held func() error) error {
	input, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close()
	r, err := g.start([]string{"idle", strconv.Itoa(port), strconv.Itoa(conns), target}, input)
	input.Close()
	if err != nil {
		return err
	}
	defer r.close()
	defer context.AfterFunc(ctx, r.process.Stop)()
	if err := r.begun(); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if err := held(); err != nil {
		return err
	}
	release.Close()
	s, err := r.sample()
	if err == nil && s.Requests != int64(conns) {
		err = fmt.Errorf("%d of %d idle connections were closed by the server", int64(conns)-s.Requests, conns)
	}
	return errors.Join(ctx.Err(), err)
}

// running is a generator at work.
type running struct {
	process *proc.Process
	pipe    io.Closer
	out     *bufio.Reader // of pipe
	log     string
}

func (g Generator) start(args []string, input *os.File) (running, error) {
	out, child, err := os.Pipe()
	if err != nil {
		return running{}, err
	}
	defer child.Close()
	c := proc.Command{Path: g.Path, Args: args, Output: child, Log: g.Log, CPUs: g.CPUs}
	if input != nil {
		c.Input = input
	}
	p, err := proc.Start(c)
	if err != nil {
		out.Close()
		return running{}, err
	}
	return running{process: p, pipe: out, out: bufio.NewReader(out), log: g.Log}, nil
}

// close ends the generator, if it has not ended yet.
func (r running) close() {
	r.process.Stop()
	r.pipe.Close()
}

func (r running) begun() error {
	line, err := r.out.ReadString('\n')
	if err != nil || line != "begin\n" {
		return r.failed("ended before it began", err)
	}
	return nil
}

func (r running) sample() (Sample, error) {
	var s Sample
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return s, r.failed("gave no figures", err)
	}
	return s, json.Unmarshal(line, &s)
}

// failed is the error of a generator that did not do its work, with its last words.
func (r running) failed(how string, err error) error {
	text, _ := os.ReadFile(r.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Errorf("load generator %s: %w; its last words: %s", how, err, lines[len(lines)-1])
}
