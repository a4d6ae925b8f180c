package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/bench/secure"
)

// http3 runs a job by hb, twice: to warm up, and to measure. hb does not tell when its
// connections are there, so they are part of the measured time.
func (g Generator) http3(ctx context.Context, j Job, begin, end func()) (Sample, error) {
	if j.Warm > 0 {
		if _, err := g.hb(ctx, j, j.Warm); err != nil {
			return Sample{}, err
		}
	}
	began := time.Now()
	begin()
	s, err := g.hb(ctx, j, j.Measure)
	s.ElapsedNS = time.Since(began).Nanoseconds()
	end()
	return s, err
}

func (g Generator) hb(ctx context.Context, j Job, length time.Duration) (Sample, error) {
	r, err := g.start(g.HB, j.hb(length), nil)
	if err != nil {
		return Sample{}, err
	}
	defer r.close()
	defer context.AfterFunc(ctx, r.process.Stop)()
	said, err := r.rest()
	if err == nil {
		err = r.process.Wait()
	}
	if err != nil {
		return Sample{}, errors.Join(ctx.Err(), r.failed("ended early", err))
	}
	return readHB(said)
}

// hb is its command line.
func (j Job) hb(length time.Duration) []string {
	port := strconv.Itoa(j.Port)
	return []string{
		"--http3", "--users", strconv.Itoa(j.Conns), "--streams", strconv.Itoa(j.Streams),
		"--duration", length.String(), "--insecure", "--curves", secure.Group, "--quiet", "--json", "-",
		"--connect", "127.0.0.1:" + port, "https://" + secure.Host + ":" + port + j.Target,
	}
}

// sessions is how hb names what is agreed upon.
const sessions = "TLS 1.3, " + secure.Cipher + ", " + secure.Group

// readHB reads the result of hb, and refuses what was not agreed upon: crypto/tls offers
// every cipher of TLS 1.3.
func readHB(said string) (Sample, error) {
	var result struct {
		Protocol string `json:"protocol"`
		Total    struct {
			Good     int64            `json:"good"`
			Errors   int64            `json:"errors"`
			Failures map[string]int64 `json:"failures"`
			TLS      struct {
				Sessions map[string]int64 `json:"sessions"`
			} `json:"tls"`
		} `json:"total"`
	}
	if err := json.NewDecoder(strings.NewReader(said)).Decode(&result); err != nil {
		return Sample{}, fmt.Errorf("hb's result: %w", err)
	}
	if result.Total.Good == 0 && result.Total.Errors > 0 {
		return Sample{}, fmt.Errorf("hb was given no good answer: %v", result.Total.Failures)
	}
	agreed := result.Total.TLS.Sessions
	if result.Protocol != "HTTP/3" || len(agreed) != 1 || agreed[sessions] == 0 {
		return Sample{}, fmt.Errorf("hb spoke %s by %v, not HTTP/3 by %q alone", result.Protocol, agreed, sessions)
	}
	return Sample{Requests: result.Total.Good, Errors: result.Total.Errors}, nil
}
