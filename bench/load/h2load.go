package load

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sluice/bench/secure"
)

// What h2load says when its measured time begins and when it is over.
const (
	h2loadBegins = "Main benchmark duration is started"
	h2loadEnds   = "Main benchmark duration is over"
)

// http2 runs a job by h2load, whose clock is coarse: the measured time is taken between
// the two lines.
func (g Generator) http2(ctx context.Context, j Job, begin, end func()) (Sample, error) {
	r, err := g.start(g.H2Load, j.h2load(), nil)
	if err != nil {
		return Sample{}, err
	}
	defer r.close()
	defer context.AfterFunc(ctx, r.process.Stop)()
	before, err := r.until(h2loadBegins)
	if err != nil {
		return Sample{}, errors.Join(ctx.Err(), err)
	}
	began := time.Now()
	begin()
	after, err := r.until(h2loadEnds)
	elapsed := time.Since(began)
	end()
	if err != nil {
		return Sample{}, errors.Join(ctx.Err(), err)
	}
	rest, err := r.rest()
	if err != nil {
		return Sample{}, errors.Join(ctx.Err(), err)
	}
	s, err := readH2load(before + after + rest)
	s.ElapsedNS = elapsed.Nanoseconds()
	return s, err
}

// h2load is its command line.
func (j Job) h2load() []string {
	port := strconv.Itoa(j.Port)
	return []string{
		"--threads=1", "--clients=" + strconv.Itoa(j.Conns), "--max-concurrent-streams=" + strconv.Itoa(j.Streams),
		"--warm-up-time=" + milliseconds(j.Warm), "--duration=" + milliseconds(j.Measure),
		"--npn-list=h2", "--tls13-ciphers=" + secure.Cipher, "--groups=" + secure.Group,
		"--header=:authority: " + secure.Host, "--header=user-agent: sluice-bench/1", "--header=accept: */*",
		"--connect-to=127.0.0.1:" + port, "https://" + secure.Host + ":" + port + j.Target,
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

var h2loadRequests = regexp.MustCompile(`(?m)^requests: .* (\d+) succeeded, (\d+) failed, `)

// readH2load reads what h2load has said, and refuses what was not agreed upon. Bytes and
// latencies are left out: those that it tells are of the time before too.
func readH2load(said string) (Sample, error) {
	for name, want := range map[string]string{
		"TLS Protocol": "TLSv1.3", "Cipher": secure.Cipher, "Server Temp Key": secure.Group, "Application protocol": "h2",
	} {
		if !strings.Contains(said, "\n"+name+": "+want) {
			return Sample{}, fmt.Errorf("h2load has not told \"%s: %s\": the server did not agree, or did not answer", name, want)
		}
	}
	found := h2loadRequests.FindStringSubmatch(said)
	if found == nil {
		return Sample{}, errors.New("h2load has not told its requests")
	}
	good, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		return Sample{}, err
	}
	failed, err := strconv.ParseInt(found[2], 10, 64)
	return Sample{Requests: good, Errors: failed}, err
}
