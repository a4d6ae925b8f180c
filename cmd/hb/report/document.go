package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
)

// document is the result as JSON. Names carry their units.
type document struct {
	Interrupted bool    `json:"interrupted"`
	Protocol    string  `json:"protocol"`
	Streams     int     `json:"streams_per_connection"`
	Total       stage   `json:"total"`
	Stages      []stage `json:"stages"`
}

type stage struct {
	Users       int               `json:"users"`
	WantedRate  float64           `json:"wanted_requests_per_second,omitempty"`
	Seconds     float64           `json:"seconds"`
	Rate        float64           `json:"good_per_second"`
	Good        int64             `json:"good"`
	Errors      int64             `json:"errors"`
	ErrorShare  float64           `json:"error_share"`
	Status      map[string]int64  `json:"status"`
	Failures    map[string]int64  `json:"failures"`
	Examples    map[string]string `json:"failure_examples"` // one of each
	Unfinished  int64             `json:"unfinished"`
	Overdue     int64             `json:"overdue"`
	Connects    int64             `json:"connections_opened"`
	Open        int64             `json:"connections_at_most"`
	Reopened    int64             `json:"connections_closed_while_idle"`
	Sent        int64             `json:"bytes_sent"`
	Received    int64             `json:"bytes_received"`
	Response    times             `json:"response_seconds"`
	Service     times             `json:"service_seconds"`
	FirstByte   times             `json:"first_byte_seconds"`
	ConnectTime times             `json:"connect_seconds"`
	Failed      times             `json:"error_seconds"`
	TLS         *handshakes       `json:"tls,omitempty"` // if there were any
}

// handshakes are those of TLS.
type handshakes struct {
	Count    int64            `json:"handshakes"`
	Rate     float64          `json:"handshakes_per_second"`
	Resumed  int64            `json:"resumed"`
	Share    float64          `json:"resumed_share"`
	Sessions map[string]int64 `json:"sessions"` // by version, cipher and curve
	Times    times            `json:"handshake_seconds"`
}

// times are in seconds.
type times struct {
	Count int64   `json:"count"`
	Mean  float64 `json:"mean"`
	Min   float64 `json:"min"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99_9"`
	P9999 float64 `json:"p99_99"`
	Max   float64 `json:"max"`
}

// WriteJSON writes the whole run and each stage.
func WriteJSON(w io.Writer, r *measure.Result) error {
	d := document{Interrupted: r.Interrupted, Protocol: r.Protocol.String(), Streams: r.Streams, Total: stageOf(r.Total()), Stages: []stage{}}
	for _, s := range r.Stages {
		d.Stages = append(d.Stages, stageOf(s))
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}

func stageOf(s *measure.Stage) stage {
	status, failures, examples := map[string]int64{}, map[string]int64{}, map[string]string{}
	for class, n := range s.Status {
		if n > 0 {
			status[fmt.Sprintf("%dxx", class)] = n
		}
	}
	for kind, n := range s.Failures {
		if n > 0 {
			failures[client.Kind(kind).String()] = n
			examples[client.Kind(kind).String()] = s.Examples[kind]
		}
	}
	return stage{
		Users: s.Users, WantedRate: s.Stage.Rate, Seconds: s.Elapsed.Seconds(), Rate: s.Rate(),
		Good: s.Good(), Errors: s.Errors(), ErrorShare: s.ErrorShare(), Status: status, Failures: failures, Examples: examples,
		Unfinished: s.Unfinished, Overdue: s.Overdue,
		Connects: s.Connects, Open: s.Open, Reopened: s.Reopened, Sent: s.Sent, Received: s.Received,
		Response: timesOf(s.Response), Service: timesOf(s.Service), FirstByte: timesOf(s.FirstByte),
		ConnectTime: timesOf(s.Connect), Failed: timesOf(s.Failed), TLS: handshakesOf(s),
	}
}

func handshakesOf(s *measure.Stage) *handshakes {
	count := s.Handshake.TotalCount()
	if count == 0 {
		return nil
	}
	return &handshakes{
		Count: count, Rate: float64(count) / max(s.Elapsed.Seconds(), 1e-9),
		Resumed: s.Resumed(), Share: float64(s.Resumed()) / float64(count),
		Sessions: sessionsOf(s), Times: timesOf(s.Handshake),
	}
}

// sessionsOf counts handshakes by what they came to, full and resumed ones alike.
func sessionsOf(s *measure.Stage) map[string]int64 {
	sessions := map[string]int64{}
	for session, n := range s.Handshakes {
		sessions[session.String()] += n
	}
	return sessions
}

func timesOf(h *hdrhistogram.Histogram) times {
	if h.TotalCount() == 0 {
		return times{}
	}
	at := func(percent float64) float64 { return measure.Quantile(h, percent).Seconds() }
	return times{
		Count: h.TotalCount(), Mean: measure.Mean(h).Seconds(),
		Min: (time.Duration(h.Min()) * time.Microsecond).Seconds(),
		P50: at(50), P90: at(90), P95: at(95), P99: at(99), P999: at(99.9), P9999: at(99.99), Max: at(100),
	}
}

// csvHead names the columns; times are of good answers, since they were due.
var csvHead = []string{
	"users", "wanted_per_second", "seconds", "good_per_second", "good", "errors", "unfinished", "overdue",
	"mean_seconds", "p50_seconds", "p90_seconds", "p99_seconds", "p99_9_seconds", "max_seconds",
	"connections_opened", "connections_at_most", "bytes_sent", "bytes_received",
}

// WriteCSV writes a line for each stage.
func WriteCSV(w io.Writer, r *measure.Result) error {
	out := csv.NewWriter(w)
	out.Write(csvHead)
	for _, s := range r.Stages {
		t := timesOf(s.Response)
		out.Write([]string{
			strconv.Itoa(s.Users), float(s.Stage.Rate), float(s.Elapsed.Seconds()), float(s.Rate()),
			whole(s.Good()), whole(s.Errors()), whole(s.Unfinished), whole(s.Overdue),
			float(t.Mean), float(t.P50), float(t.P90), float(t.P99), float(t.P999), float(t.Max),
			whole(s.Connects), whole(s.Open), whole(s.Sent), whole(s.Received),
		})
	}
	out.Flush()
	return out.Error()
}

func float(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

func whole(n int64) string { return strconv.FormatInt(n, 10) }

// WriteHDR writes the percentile distribution of response times in the text form
// that HdrHistogram's plotters read; values are in milliseconds.
func WriteHDR(w io.Writer, r *measure.Result) error {
	const ticksPerHalf, microsPerMilli = 5, 1000
	_, err := r.Total().Response.PercentilesPrint(w, ticksPerHalf, microsPerMilli)
	return err
}
