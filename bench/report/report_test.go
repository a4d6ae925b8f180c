package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"sluice/bench/proc"
	"sluice/bench/stats"
)

// sample is a run of three rounds in which the peer failed once and one program was
// not there.
func sample() Results {
	t := Table{
		ID: "W1", Title: "small responses", Metric: "µs", Extras: []string{"requests/s"},
		Rows: []Row{
			{Name: "sluice", Base: "sluice", Rounds: []float64{10, 10, 10}, Extra: []string{"100"}},
			{Name: "nginx", Base: "sluice", Goal: &Goal{Max: 0.95}, Rounds: []float64{12.5, 0, 12.5}, Notes: []string{"round 2 failed"}},
			{Name: "gone", Base: "sluice", Goal: &Goal{Max: 0.95}, Rounds: []float64{0, 0, 0}},
		},
		Notes: []string{"a note"},
	}
	t.Compare()
	return Results{
		When:     time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		Machine:  proc.Machine{Model: "Some CPU", CPUs: []int{0, 1}, Nodes: 1, Memory: 8 << 30, Kernel: "6.1", System: "Debian", Virtualised: true},
		Versions: []Version{{Name: "nginx", Version: "1.22.1"}, {Name: "envoy", Missing: "no wheel"}},
		Method:   []string{"By method."},
		Tables:   []Table{t},
	}
}

func TestWriteText(t *testing.T) {
	var out bytes.Buffer
	WriteText(&out, sample())
	const want = `2026-11-21 10:00 UTC: 2 CPUs (Some CPU, virtual), 1 NUMA node(s), 8 GiB, Linux 6.1, Debian

  nginx          1.22.1
  envoy          not measured: no wheel

- By method.

W1: small responses
µs
          value  base ÷ it            95 %     goal  verdict  requests/s
  sluice   10.0                                                      100
  nginx    12.5      0.800  [0.800, 0.800]  ≤ 0.950      met
  gone                                      ≤ 0.950
  nginx: round 2 failed
  a note
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWriteMarkdown(t *testing.T) {
	var out bytes.Buffer
	WriteMarkdown(&out, sample())
	for _, want := range []string{
		"# Benchmark, 2026-11-21\n",
		"| envoy | not measured: no wheel |\n",
		"|  | value | base ÷ it | 95 % | goal | verdict | requests/s |\n|---|--:|--:|--:|--:|--:|--:|\n",
		"| nginx | 12.5 | 0.800 | [0.800, 0.800] | ≤ 0.950 | met |  |\n",
		"- nginx: round 2 failed\n- a note\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestWriteSummary: a line for each workload that Sluice took part in, a column
// for each peer, and no claim where the interval holds 1.
func TestWriteSummary(t *testing.T) {
	noisy := Table{ID: "W9", Title: "connections", Metric: "µs", Rows: []Row{
		{Name: "sluice", Base: "sluice", Rounds: []float64{10, 10}},
		{Name: "sluice again (A/A)", Base: "sluice", Rounds: []float64{10, 10}},
		{Name: "nginx", Base: "sluice", Rounds: []float64{9, 11}},
		{Name: "floor", Base: "sluice", Rounds: []float64{5, 0}},
	}}
	alone := Table{ID: "W12", Rows: []Row{{Name: "nginx, CPUs: 1", Base: "nginx, CPUs: 1", Rounds: []float64{1}}}}
	noisy.Compare()
	alone.Compare()
	var out bytes.Buffer
	r := sample()
	r.Tables = append(r.Tables, noisy, alone)
	WriteSummary(&out, r)
	const want = `|  | Sluice | ÷ nginx | ÷ floor |
|---|--:|--:|--:|
| W1: small responses; µs | 10.0 | 0.80 [0.80, 0.80] |  |
| W9: connections; µs | 10.0 | ~1.01 [0.28, 3.60] | 2.00 |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestVerdict(t *testing.T) {
	at := func(lo, hi float64, n int) stats.Interval {
		return stats.Interval{Mean: (lo + hi) / 2, Lo: lo, Hi: hi, N: n}
	}
	goal := &Goal{Max: 0.95}
	for _, c := range []struct {
		name string
		row  Row
		want string
	}{
		{"wholly below", Row{Goal: goal, Ratio: at(0.90, 0.95, 10)}, "met"},
		{"wholly above", Row{Goal: goal, Ratio: at(0.951, 0.99, 10)}, "missed"},
		{"across", Row{Goal: goal, Ratio: at(0.90, 0.96, 10)}, "open"},
		{"one round", Row{Goal: goal, Ratio: at(0, math.Inf(1), 1)}, "open"},
		{"no round", Row{Goal: goal, Ratio: at(0.1, 0.2, 0)}, ""},
		{"no goal", Row{Ratio: at(0.90, 0.95, 10)}, ""},
		{"of the value", Row{Goal: &Goal{Max: 1024, Value: true}, Value: at(900, 1000, 3), Ratio: at(2, 3, 3)}, "met"},
	} {
		if got := c.row.Verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestCompareWithAnotherBase(t *testing.T) {
	table := Table{Rows: []Row{
		{Name: "a", Base: "a", Rounds: []float64{2, 4}},
		{Name: "b", Base: "a", Rounds: []float64{4, 8}},
		{Name: "c", Base: "b", Rounds: []float64{2, 4}},
		{Name: "d", Base: "nobody", Rounds: []float64{1, 1}},
	}}
	table.Compare()
	for i, want := range []float64{math.NaN(), 0.5, 2, math.NaN()} {
		got := table.Rows[i].Ratio
		if math.IsNaN(want) != (got.N == 0) || got.N > 0 && math.Abs(got.Mean-want) > 1e-9 {
			t.Errorf("row %s: %+v, want %v", table.Rows[i].Name, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 0.0123: "0.012", 0.95: "0.950", 9.876: "9.88", 12.34: "12.3", 123.4: "123", 25126: "25126", math.Inf(1): "",
	} {
		if got := number(x); got != want {
			t.Errorf("number(%v) = %q, want %q", x, got, want)
		}
	}
	if number(math.NaN()) != "" {
		t.Error("NaN is a number")
	}
}

// TestWriteAll reads back what it can, and looks at the kinds of the others.
func TestWriteAll(t *testing.T) {
	dir := Directory(t.TempDir(), sample())
	if filepath.Base(dir) != "2026-11-21-2cpu-1node" {
		t.Errorf("directory %s", dir)
	}
	if err := WriteAll(dir, sample()); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]string{
		"results.txt": "2026-11-21", "results.md": "# Benchmark", "results.json": "{", "results.png": "\x89PNG", "results.svg": "<?xml",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.HasPrefix(text, []byte(start)) {
			t.Errorf("%s begins with %.10q, %v", name, text, err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "results.json"))
	var back struct {
		Tables []struct {
			Rows []struct {
				Name  string
				Ratio struct{ Mean *float64 }
			}
		}
	}
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	rows := back.Tables[0].Rows
	if rows[0].Ratio.Mean != nil || rows[1].Ratio.Mean == nil || *rows[1].Ratio.Mean != 0.8 {
		t.Errorf("ratios of %+v", rows)
	}
}

func TestLatencyFiles(t *testing.T) {
	h := hdrhistogram.New(1, 1e9, 3)
	for _, us := range []int64{10, 20, 30, 40} {
		if err := h.RecordValue(us * 1000); err != nil {
			t.Fatal(err)
		}
	}
	r := Results{Tables: []Table{{Rows: []Row{{Name: "sluice again (A/A)", Latency: h}, {Name: "none"}}}}}
	dir := t.TempDir()
	if err := writeLatencies(dir, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "latency-sluice-again-A-A.hgrm"))
	if err != nil || !strings.Contains(string(text), "40.0") {
		t.Errorf("got %q, %v", text, err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("%d files, want one", len(all))
	}
}

func TestPicturesOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none")
	if err := WritePictures(path, Results{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".png"); err == nil {
		t.Error("a picture of no table was written")
	}
}
