// Package report shows what a run has measured: as text in the manner of ab, as
// JSON, as CSV, as a percentile distribution, as a picture, and as a line of progress while it lasts.
//
//	text.go      the summary and the table over the ramp
//	document.go  JSON and CSV
//	picture.go   curves over users, or over the rate
//	progress.go  the live line
package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
)

// percents are those of the table of response times, as in ab's.
var percents = []float64{50, 66, 75, 80, 90, 95, 98, 99, 99.9, 99.99, 100}

// WriteText writes the summary; a run of several stages gets a table of them.
func WriteText(w io.Writer, r *measure.Result) error {
	out := bufio.NewWriter(w)
	total := r.Total()
	if r.Interrupted {
		fmt.Fprintln(out, "Interrupted: what follows is what was measured until then.")
	}
	writeProtocol(out, r)
	writeSummary(out, total)
	writeHandshakes(out, total)
	writeTimes(out, total)
	writeDistribution(out, total)
	if len(r.Stages) > 1 {
		writeRamp(out, r.Stages)
	}
	return out.Flush()
}

// rows writes lines of a name and what there is to say.
func rows(w io.Writer) func(name, format string, args ...any) {
	return func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-24s"+format+"\n", append([]any{name + ":"}, args...)...)
	}
}

func writeProtocol(w io.Writer, r *measure.Result) {
	if r.Streams > 1 {
		rows(w)("Protocol", "%s, %d streams per connection", r.Protocol, r.Streams)
		return
	}
	rows(w)("Protocol", "%s", r.Protocol)
}

// writeHandshakes says what those of TLS came to.
func writeHandshakes(w io.Writer, s *measure.Stage) {
	row := rows(w)
	all := handshakesOf(s)
	if all == nil {
		return
	}
	row("TLS handshakes", "%d, %s per second, %.3g %% resumed", all.Count, figure(all.Rate), 100*all.Share)
	for _, name := range slices.Sorted(maps.Keys(all.Sessions)) {
		row(fmt.Sprintf("  %d of them", all.Sessions[name]), "%s", name)
	}
}

// writeSummary is the list of counts and rates.
func writeSummary(w io.Writer, s *measure.Stage) {
	row := rows(w)
	row("Users", "%d", s.Users)
	if s.Stage.Rate > 0 {
		row("Wanted rate", "%s requests/s, open loop", figure(s.Stage.Rate))
	}
	row("Time taken", "%.3f s", s.Elapsed.Seconds())
	row("Good answers", "%d", s.Good())
	row("Errors", "%d (%.3g %%)", s.Errors(), 100*s.ErrorShare())
	for k, n := range s.Failures {
		if n > 0 {
			row("  "+client.Kind(k).String(), "%d, like: %s", n, s.Examples[k])
		}
	}
	for class, n := range s.Status {
		if n > 0 && class != 2 {
			row(fmt.Sprintf("  status %dxx", class), "%d", n)
		}
	}
	if s.Unfinished > 0 {
		row("Unfinished at the end", "%d", s.Unfinished)
	}
	if s.Overdue > 0 {
		row("Overdue at the end", "%d; no user was free, raise --users or lower --rate", s.Overdue)
	}
	row("Connections opened", "%d, at most %d at once", s.Connects, s.Open)
	if s.Reopened > 0 {
		row("Closed while idle", "%d", s.Reopened)
	}
	row("Bytes received", "%d", s.Received)
	row("Bytes sent", "%d", s.Sent)
	row("Requests per second", "%s", figure(s.Rate()))
	seconds := max(s.Elapsed.Seconds(), 1e-9)
	row("Transfer rate", "%s KiB/s received, %s KiB/s sent",
		figure(float64(s.Received)/1024/seconds), figure(float64(s.Sent)/1024/seconds))
}

// writeTimes is ab's table of connection times.
func writeTimes(w io.Writer, s *measure.Stage) {
	if s.Requests+s.Broken() == 0 {
		return
	}
	fmt.Fprintln(w, "\nTimes (ms)")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tmin\tmean\t±sd\tmedian\tp99\tmax\t")
	type row struct {
		name string
		h    *hdrhistogram.Histogram
	}
	lines := []row{{"connect", s.Connect}, {"TLS handshake", s.Handshake}, {"first byte", s.FirstByte}, {"response", s.Response}, {"error", s.Failed}}
	if s.Stage.Rate > 0 {
		lines = []row{{"connect", s.Connect}, {"TLS handshake", s.Handshake}, {"first byte", s.FirstByte},
			{"response since sent", s.Service}, {"response since due", s.Response}, {"error since due", s.Failed}}
	}
	for _, row := range lines {
		if row.h.TotalCount() == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", row.name,
			millis(time.Duration(row.h.Min())*time.Microsecond), millis(measure.Mean(row.h)),
			millis(time.Duration(row.h.StdDev()*float64(time.Microsecond))),
			millis(measure.Quantile(row.h, 50)), millis(measure.Quantile(row.h, 99)), millis(measure.Quantile(row.h, 100)))
	}
	t.Flush()
}

// writeDistribution is ab's table of percentiles.
func writeDistribution(w io.Writer, s *measure.Stage) {
	if s.Good() == 0 {
		return
	}
	fmt.Fprintln(w, "\nGood answers within a certain time (ms)")
	for _, p := range percents {
		note := ""
		if p == 100 {
			note = " (longest)"
		}
		fmt.Fprintf(w, "%7s%%%12s%s\n", strings.TrimSuffix(fmt.Sprint(p), ".0"), millis(measure.Quantile(s.Response, p)), note)
	}
}

// writeRamp has a line for each stage.
func writeRamp(w io.Writer, stages []*measure.Stage) {
	fmt.Fprintln(w, "\nOver the ramp (times in ms)")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "users\twanted/s\treq/s\tmean\tp50\tp90\tp99\tmax\terrors\topen\t")
	for _, s := range stages {
		wanted := "-"
		if s.Stage.Rate > 0 {
			wanted = figure(s.Stage.Rate)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", s.Users, wanted, figure(s.Rate()),
			millis(measure.Mean(s.Response)), millis(measure.Quantile(s.Response, 50)), millis(measure.Quantile(s.Response, 90)),
			millis(measure.Quantile(s.Response, 99)), millis(measure.Quantile(s.Response, 100)), s.Errors(), s.Open)
	}
	t.Flush()
}

// millis shows a time with three digits behind the point: microseconds are what
// is measured.
func millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

// figure shows a rate with as many digits as say something.
func figure(f float64) string {
	if f < 1000 {
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.0f", f)
}
