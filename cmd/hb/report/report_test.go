package report

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/engine"
	"sluice/cmd/hb/measure"
	"sluice/cmd/hb/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// measured is a stage with good answers of 1 ms, 2 ms, … and some errors.
func measured(load plan.Stage, good, errs int) *measure.Stage {
	s := &measure.Stage{Stage: load, Elapsed: 10 * time.Second, Open: int64(load.Users), Sample: measure.NewSample()}
	begin := time.Unix(1000, 0)
	var due time.Time
	if load.Rate > 0 {
		due = begin.Add(-time.Millisecond)
	}
	for i := range good {
		a := &client.Answer{Status: 200, Begin: begin, First: begin.Add(time.Millisecond), End: begin.Add(time.Duration(i+1) * time.Millisecond), Sent: 100, Received: 1000}
		if i < load.Users {
			a.Connects, a.Connect = 1, 250*time.Microsecond
		}
		s.Add(a, nil, due)
	}
	for i := range errs {
		a := &client.Answer{Status: 503, Begin: begin, First: begin, End: begin.Add(5 * time.Millisecond), Sent: 100, Received: 50}
		var failure *client.Failure
		if i%2 == 1 {
			a.Status, failure = 0, &client.Failure{Kind: client.Kind(i % client.Kinds), Err: errors.New("x")}
		}
		s.Add(a, failure, due)
	}
	return s
}

// results are what the golden files show.
var results = map[string]func() *measure.Result{
	"single": func() *measure.Result {
		return &measure.Result{Streams: 1, Stages: []*measure.Stage{measured(plan.Stage{Users: 10, For: 10 * time.Second}, 20_000, 0)}}
	},
	"ramp": func() *measure.Result {
		r := &measure.Result{Streams: 1, Interrupted: true}
		for i := 1; i <= 3; i++ {
			r.Stages = append(r.Stages, measured(plan.Stage{Users: 10 * i, For: 10 * time.Second}, 100*i, 4*(i-1)))
		}
		r.Stages[2].Reopened, r.Stages[2].Unfinished = 2, 7
		return r
	},
	"open": func() *measure.Result {
		r := &measure.Result{Streams: 1}
		for i := 1; i <= 2; i++ {
			r.Stages = append(r.Stages, measured(plan.Stage{Users: 50, Rate: 5.5 * float64(i), For: 10 * time.Second}, 50*i, 0))
		}
		r.Stages[1].Overdue = 9
		return r
	},
	"secure": func() *measure.Result {
		s := measured(plan.Stage{Users: 4, For: 10 * time.Second}, 100, 0)
		full := client.Terms{Version: tls.VersionTLS13, Cipher: tls.TLS_AES_128_GCM_SHA256, Curve: tls.X25519}
		resumed, old := full, client.Terms{Version: tls.VersionTLS12, Cipher: tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, Resumed: true}
		resumed.Resumed = true
		for i, session := range []client.Terms{full, resumed, resumed, old} {
			a := &client.Answer{Status: 200, Handshake: time.Duration(i+1) * time.Millisecond, Terms: session}
			s.Add(a, nil, time.Time{})
		}
		return &measure.Result{Protocol: client.HTTP2, Streams: 8, Stages: []*measure.Stage{s}}
	},
	"nothing": func() *measure.Result { return &measure.Result{Streams: 1} },
}

func TestGolden(t *testing.T) {
	for name, result := range results {
		for form, write := range map[string]func(io.Writer, *measure.Result) error{
			"txt": WriteText, "json": WriteJSON, "csv": WriteCSV, "hdr": WriteHDR,
		} {
			t.Run(name+"."+form, func(t *testing.T) {
				var got bytes.Buffer
				if err := write(&got, result()); err != nil {
					t.Fatal(err)
				}
				golden(t, name+"."+form, got.Bytes())
			})
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; go test -update writes it anew. Got:\n%s", path, got)
	}
}

func TestJSONIsRead(t *testing.T) {
	var text bytes.Buffer
	if err := WriteJSON(&text, results["ramp"]()); err != nil {
		t.Fatal(err)
	}
	var got document
	if err := json.Unmarshal(text.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Interrupted || len(got.Stages) != 3 || got.Total.Good != 600 || got.Total.Failures["reset"] != 2 || got.Total.Status["5xx"] != 6 {
		t.Errorf("%+v", got)
	}
}

// A picture is whole, and shows each curve's name and what it is over.
func TestPicture(t *testing.T) {
	for name, axis := range map[string]string{"ramp": "users", "open": "wanted requests/s", "single": "users", "nothing": "users"} {
		var svg bytes.Buffer
		if err := WritePicture(&svg, "a.svg", results[name]()); err != nil {
			t.Fatal(err)
		}
		if err := xml.Unmarshal(svg.Bytes(), new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		wanted := []string{axis, "Throughput (requests/s)", "Response time (s)", "Connections"}
		if name != "nothing" {
			wanted = append(wanted, "good", "errors", "mean", "p99", "open at most")
		}
		for _, text := range wanted {
			if !strings.Contains(svg.String(), ">"+text+"<") {
				t.Errorf("%s: no %q", name, text)
			}
		}
		var raster bytes.Buffer
		if err := WritePicture(&raster, "a.png", results[name]()); err != nil {
			t.Fatal(err)
		}
		if image, err := png.Decode(&raster); err != nil || image.Bounds().Dx() < 800 || image.Bounds().Dy() < 900 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := WritePicture(io.Discard, "a.gif", results["ramp"]()); err == nil || !strings.HasSuffix(err.Error(), "must end in .svg or .png") {
		t.Errorf("a.gif: %v", err)
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, 25, 80)
	load := plan.Stage{Users: 30, For: 10 * time.Second}
	p.Show(engine.Tick{Stage: -1, Load: load, Elapsed: 1500 * time.Millisecond, Last: measure.NewSample(), Span: time.Second})
	load.For = 0
	tick := engine.Tick{Stage: 2, Load: load, Elapsed: 71 * time.Second, Open: 29, Last: measured(load, 100, 3).Sample, Span: time.Second}
	p.Show(tick)
	NewProgress(&out, 25, 20).Show(tick)
	p.End()
	want := clearLine + "warm-up, 1s of 10s: 30 users, 0.00 req/s, 0 errors, p50 0.000 ms, p99 0.000 ms," +
		clearLine + "3/25, 1m11s: 30 users, 100.00 req/s, 3 errors, p50 50.015 ms, p99 99.007 ms, 29" +
		clearLine + "3/25, 1m11s: 30 use" + clearLine
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}
