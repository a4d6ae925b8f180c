package ground

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sluice/bench/proc"
)

// users are virtual clients who behave well.
type users struct {
	name string
	rate int // requests per second
	hb   []string
	path func(s *site) string
}

func plain(s *site) string  { return "http://" + s.target().Plain + "/53" }
func secret(s *site) string { return "https://" + s.target().Secure + "/53" }

// crowd are all users.
var crowd = []users{
	{"HTTP/1.1", 400, []string{"--users", "32"}, plain},
	{"HTTP/2 over TLS", 400, []string{"--http2", "--insecure", "--users", "16"}, secret},
	{"new over TLS", 60, []string{"--insecure", "--no-keep-alive", "--resume", "off", "--users", "60"}, secret},
}

// Users are the names of the sorts of users.
func Users() []string {
	var all []string
	for _, u := range crowd {
		all = append(all, u.name)
	}
	return all
}

func usersText() string {
	return fmt.Sprintf("%d/s over connections that stay, HTTP/1.1 without TLS; %d/s by HTTP/2 over TLS; %d/s by HTTP/1.1 over TLS, each with a connection and a full handshake of its own",
		crowd[0].rate, crowd[1].rate, crowd[2].rate)
}

// Met is what users have met, in seconds.
type Met struct {
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	Good   int64   `json:"good"`
	Failed int64   `json:"failed"` // and those that were not answered at all

	Failures map[string]int64 `json:"failures,omitempty"` // by their kind, as hb has it
}

// visit has users ask a site; it ends by itself.
func (g *Ground) visit(ctx context.Context, u users, s *site) (Met, error) {
	var out bytes.Buffer
	log := filepath.Join(s.Dir, "hb.log")
	args := append([]string{
		"--quiet", "--json", "-", "--rate", strconv.Itoa(u.rate), "--arrivals", "poisson", "--seed", "1",
		"--timeout", "5s", "--warm-up", g.Warm.String(), "--duration", g.Measure.String(),
	}, u.hb...)
	p, err := proc.Start(proc.Command{Path: g.hb, Args: append(args, u.path(s)), Output: &out, Log: log, CPUs: g.layout.Load[0]})
	if err != nil {
		return Met{}, err
	}
	defer p.Stop()
	select {
	case <-p.Done():
	case <-ctx.Done():
		return Met{}, ctx.Err()
	}
	if err := p.Wait(); err != nil {
		said, _ := os.ReadFile(log)
		return Met{}, fmt.Errorf("hb for %s: %w: %s", u.name, err, bytes.TrimSpace(said))
	}
	return readMet(out.Bytes(), g.Measure)
}

// readMet reads what hb says of a run. If nobody was answered, all have waited for its
// whole time at least.
func readMet(text []byte, lasted time.Duration) (Met, error) {
	var said struct {
		Total struct {
			Good       int64            `json:"good"`
			Errors     int64            `json:"errors"`
			Unfinished int64            `json:"unfinished"`
			Failures   map[string]int64 `json:"failures"`
			Response   struct {
				P50 float64 `json:"p50"`
				P99 float64 `json:"p99"`
			} `json:"response_seconds"`
		} `json:"total"`
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return Met{}, fmt.Errorf("hb's result: %w", err)
	}
	t := said.Total
	met := Met{P50: t.Response.P50, P99: t.Response.P99, Good: t.Good, Failed: t.Errors + t.Unfinished, Failures: t.Failures}
	switch {
	case met.Good > 0:
	case met.Failed > 0:
		met.P50, met.P99 = lasted.Seconds(), lasted.Seconds()
	default:
		return Met{}, errors.New("hb has asked for nothing")
	}
	return met, nil
}
