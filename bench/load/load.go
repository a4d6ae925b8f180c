// Package load drives the load generators, programs of one thread: a C program for
// HTTP/1.1, plain and over TLS (load.c), since Go's own client would need the processor
// time that the backend beside it needs; h2load for HTTP/2; hb for HTTP/3.
//
// Run starts one, tells the caller when measuring begins and ends, and gives its
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
	"sluice/bench/secure"
)

// Source is the text of the program for HTTP/1.1. Compiled with FlagsTLS it speaks TLS.
//
//go:embed load.c
var Source []byte

// FlagsTLS are for the compiler.
var FlagsTLS = []string{
	"-DTLS", define("HOST", secure.Host), define("CIPHER", secure.Cipher), define("GROUP", secure.Group), "-lssl", "-lcrypto",
}

func define(name, text string) string { return fmt.Sprintf("-D%s=%q", name, text) }

// Job is one load.
type Job struct {
	Port       int
	Protocol   secure.Protocol
	Conns      int
	Streams    int           // of each connection, at once; HTTP/2 and HTTP/3
	Target     string        // path of the request
	Warm       time.Duration // load that is not measured, first
	Measure    time.Duration
	PerRequest bool      // each request has a new connection
	Rate       float64   // requests per second, open loop; 0: closed loop
	Handshakes Handshake // no requests but TLS handshakes, each of a new connection, and counted as requests
}

// Handshake is a sort of TLS handshake.
type Handshake string

// The sorts of handshakes. What is resumed is one session, that of the first connection.
const (
	Full    Handshake = "full"
	Resumed Handshake = "resumed"
)

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

// Generator is the programs; a job needs one of them.
type Generator struct {
	Path   string // load.c, compiled
	TLS    string // load.c, compiled with FlagsTLS
	H2Load string
	HB     string
	CPUs   []int
	Log    string // file for what they complain about
}

// Run runs a job. It calls begin when the measured time starts and end when it is
// over.
func (g Generator) Run(ctx context.Context, j Job, begin, end func()) (Sample, error) {
	switch j.Protocol {
	case secure.HTTP2:
		return g.http2(ctx, j, begin, end)
	case secure.HTTP3:
		return g.http3(ctx, j, begin, end)
	}
	r, err := g.start(g.http1(j.Protocol), j.args(), nil)
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

// http1 is the program for HTTP/1.1.
func (g Generator) http1(p secure.Protocol) string {
	if p == secure.HTTP1 {
		return g.TLS
	}
	return g.Path
}

// args is the command line of load.c.
func (j Job) args() []string {
	mode, last := "closed", "keep"
	switch {
	case j.Rate > 0:
		mode, last = "open", strconv.FormatFloat(j.Rate, 'f', 1, 64)
	case j.Handshakes != "":
		last = string(j.Handshakes)
	case j.PerRequest:
		last = "close"
	}
	return []string{mode, strconv.Itoa(j.Port), strconv.Itoa(j.Conns), j.Target,
		strconv.FormatInt(j.Warm.Milliseconds(), 10), strconv.FormatInt(j.Measure.Milliseconds(), 10), last}
}

// Hold opens the job's connections over HTTP/1.1, each after one request, and calls held while they
// are open. It fails if any of them was closed meanwhile.
func (g Generator) Hold(ctx context.Context, j Job, held func() error) error {
	input, release, err := os.Pipe()
	if err != nil {
		return err
	}
	defer release.Close()
	r, err := g.start(g.http1(j.Protocol), []string{"idle", strconv.Itoa(j.Port), strconv.Itoa(j.Conns), j.Target}, input)
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
	if err == nil && s.Requests != int64(j.Conns) {
		err = fmt.Errorf("%d of %d idle connections were closed by the server", int64(j.Conns)-s.Requests, j.Conns)
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

func (g Generator) start(path string, args []string, input *os.File) (running, error) {
	out, child, err := os.Pipe()
	if err != nil {
		return running{}, err
	}
	defer child.Close()
	c := proc.Command{Path: path, Args: args, Output: child, Log: g.Log, CPUs: g.CPUs}
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

// until reads up to a line that begins so.
func (r running) until(start string) (string, error) {
	var said strings.Builder
	for {
		line, err := r.out.ReadString('\n')
		said.WriteString(line)
		if err != nil {
			return "", r.failed(fmt.Sprintf("ended before it said %q", start), err)
		}
		if strings.HasPrefix(line, start) {
			return said.String(), nil
		}
	}
}

// rest reads all that is still to come.
func (r running) rest() (string, error) {
	text, err := io.ReadAll(r.out)
	return string(text), err
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
