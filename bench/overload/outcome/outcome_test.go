package outcome

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/overload/contender"
	"sluice/bench/overload/drive"
	"sluice/bench/proc"
	"sluice/bench/stats"
)

// near compares figures.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 && math.IsNaN(got) == math.IsNaN(want) || math.IsNaN(got) != math.IsNaN(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestVerdict(t *testing.T) {
	at := func(lo, mean, hi float64, n int) stats.Interval {
		return stats.Interval{Mean: mean, Lo: lo, Hi: hi, N: n}
	}
	inf := math.Inf(1)
	for _, c := range []struct {
		name        string
		least, most float64
		got         stats.Interval
		want        string
	}{
		{"wholly above the least", 1.3, 0, at(1.3, 1.32, 1.34, 3), "met"},
		{"wholly below the least", 1.3, 0, at(1.2, 1.25, 1.299, 3), "missed"},
		{"across the least", 1.3, 0, at(1.29, 1.32, 1.34, 3), "open"},
		{"wholly below the most", 0, 0.75, at(0.7, 0.72, 0.75, 3), "met"},
		{"wholly above the most", 0, 0.75, at(0.76, 0.8, 0.9, 3), "missed"},
		{"across the most", 0, 0.75, at(0.7, 0.72, 0.76, 3), "open"},
		{"between both", 1, 2, at(1.1, 1.5, 1.9, 2), "met"},
		{"one round above", 1.3, 0, at(-inf, 1.31, inf, 1), "met, one round"},
		{"one round below", 1.3, 0, at(-inf, 1.29, inf, 1), "missed, one round"},
		{"no round", 1.3, 0, at(0, 2, 3, 0), "not measured"},
		{"no target", 0, 0, at(1, 2, 3, 3), ""},
	} {
		if got := (Check{Least: c.least, Most: c.most, Got: c.got}).Verdict(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// course is a course of a point each second.
func course(rates ...float64) []Point {
	points := make([]Point, len(rates))
	for i, r := range rates {
		points[i] = Point{At: float64(i+1) + 0.01, Rate: r} // cuts are late by a moment
	}
	return points
}

func TestSettle(t *testing.T) {
	same := func(rate float64, n int) []float64 { return slices.Repeat([]float64{rate}, n) }
	for _, c := range []struct {
		name  string
		rates []float64
		want  float64
	}{
		{"at once", same(100, 20), 0},
		{"after three seconds", append(same(10, 3), same(100, 17)...), 3},
		{"as good, with chance", append(same(10, 3), 95, 85, 95, 85, 95, 95, 95, 95, 95, 95, 95), 3},
		{"for a while only", append(append(same(10, 3), same(100, 6)...), same(10, 11)...), 20},
		{"never", same(10, 20), 20},
	} {
		rates := append(same(500, 10), c.rates...) // what was before must not matter
		end := float64(len(rates))
		want := c.want
		if want == 20 {
			want = end - 10
		}
		near(t, c.name, Settle(course(rates...), 10, end, 90), want)
	}
}

func TestMeanRate(t *testing.T) {
	points := course(1, 2, 3, 4)
	near(t, "two in the middle", MeanRate(points, 1, 3), 2.5)
	near(t, "all", MeanRate(points, 0, 4), 2.5)
	near(t, "none", MeanRate(points, 7, 9), 0)
}

func TestUnfairness(t *testing.T) {
	shares := func(rates ...float64) Round {
		var r Round
		for _, rate := range rates {
			r.Shares = append(r.Shares, Step{Rate: rate})
		}
		return r
	}
	near(t, "apart", Unfairness(shares(80, 110, 110)), 0.2)
	near(t, "equal", Unfairness(shares(100, 100, 100)), 0.001)
	near(t, "without shares", Unfairness(Round{}), 0)
	near(t, "without answers", Unfairness(shares(0, 0)), 0)
}

// TestWhole: steps count by what was answered in them.
func TestWhole(t *testing.T) {
	r := Round{Ramp: []Step{{Seconds: 10, Rate: 100, Mean: 0.1}, {Seconds: 10, Rate: 300, Mean: 0.5}}}
	near(t, "throughput", Whole(r), 200)
	near(t, "mean", WholeMean(r), 0.4)
	near(t, "nothing", Whole(Round{})+WholeMean(Round{}), 0)
}

// sample is a scene of two entries and two rounds, of which one failed.
func sample() Scene {
	held := func(rate float64) Round {
		s := Step{Users: 250, Seconds: 30, Rate: rate, Mean: 50 / rate, P99: 1, MostHeld: int(rate / 2), MostConnections: 100}
		return Round{Held: &s, Ramp: []Step{{Users: 10, Seconds: 10, Rate: 50}, s}, Course: course(rate, rate)}
	}
	s := Scene{Name: "blog", Title: "a backend", Entries: []Entry{
		{Name: contender.Direct, Rounds: []Round{held(200), held(100), held(100)}},
		{Name: contender.Adaptive, Rounds: []Round{held(400), {Failed: "no port"}, held(200)}},
	}}
	s.Entries[1].Rounds[2].Times = []Time{{"until it was back", 12}}
	s.Check("throughput ÷ direct", 1.3, 0, s.Ratio(contender.Adaptive, contender.Direct, Held(func(s Step) float64 { return s.Rate })))
	return s
}

// TestRatio: round by round, without the one that failed.
func TestRatio(t *testing.T) {
	s := sample()
	got := s.Checks[0].Got
	near(t, "ratio", got.Mean, 2)
	if got.N != 2 || s.Checks[0].Verdict() != "met" {
		t.Errorf("%d rounds, %s", got.N, s.Checks[0].Verdict())
	}
	if none := s.Ratio("nobody", contender.Direct, Whole); none.N != 0 {
		t.Errorf("a ratio of nobody: %+v", none)
	}
}

func TestWorst(t *testing.T) {
	s := sample()
	worst := s.Worst(contender.Adaptive, Timed("until it was back"))
	if worst.Mean != 12 || worst.N != 1 {
		t.Errorf("worst %+v", worst)
	}
	if none := s.Worst(contender.Direct, Timed("until it was back")); none.N != 0 || !math.IsNaN(none.Mean) {
		t.Errorf("of nothing: %+v", none)
	}
	near(t, "no time at all", Timed("x")(Round{Times: []Time{{"x", 0}}}), 0.001)
}

// TestMean: means of what is a mean, the most of what is a most.
func TestMean(t *testing.T) {
	got := mean([]Step{
		{Users: 10, Seconds: 5, Rate: 100, Mean: 0.1, P99: 1, MostHeld: 7, MostConnections: 9, SlowestError: 2},
		{Users: 10, Seconds: 5, Rate: 200, Mean: 0.3, P99: 2, MostHeld: 6, MostConnections: 8, SlowestError: 1},
	})
	near(t, "rate", got.Rate, 150)
	near(t, "mean", got.Mean, 0.2)
	near(t, "p99", got.P99, 1.5)
	near(t, "seconds", got.Seconds, 10)
	if got.Users != 10 || got.MostHeld != 7 || got.MostConnections != 9 || got.SlowestError != 2 {
		t.Errorf("mean %+v", got)
	}
}

func TestNewStep(t *testing.T) {
	s := drive.Stage{Users: 20, Seconds: 10, Rate: 100, Errors: 50, Response: drive.Times{Mean: 1, P50: 2, P99: 3}, Failed: drive.Times{P50: 4, Max: 5}}
	c := drive.Cut{Seconds: 10, Good: 990, MostHeld: 7, MeanHeld: 6.5, MostConnections: 8}
	want := Step{Users: 20, Seconds: 10, Rate: 100, Errors: 5, Mean: 1, P50: 2, P99: 3, MedianError: 4, SlowestError: 5,
		Worked: 99, MostHeld: 7, MeanHeld: 6.5, MostConnections: 8}
	if got := NewStep(s, c); got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestNewCourse(t *testing.T) {
	got := NewCourse([]drive.Cut{{Seconds: 1, Good: 10, MeanHeld: 3, MostConnections: 4}, {Seconds: 2, Good: 10}})
	want := []Point{{At: 1, Rate: 10, Held: 3, Connections: 4}, {At: 3, Rate: 5}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func results() Results {
	return Results{
		When:     time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		Machine:  proc.Machine{Model: "Some CPU", CPUs: []int{0, 1}, Nodes: 1, Memory: 8 << 30, Kernel: "6.1", System: "Debian"},
		Versions: []Version{{Name: "haproxy", Version: "2.6"}, {Name: "envoy", Missing: "no wheel"}},
		Method:   []string{"By method."},
		Scenes:   []Scene{sample()},
	}
}

func TestWriteMarkdown(t *testing.T) {
	var out bytes.Buffer
	WriteMarkdown(&out, results())
	for _, want := range []string{
		"# Overload, 2026-11-21\n",
		"| envoy | not measured: no wheel |\n",
		"- By method.\n",
		"| throughput ÷ direct | ≥ 1.300 | 2.000 |  | 2 | met |\n",
		"| direct | 133 | 0.417 s |  | 1.000 s | 0 | 100 | 0 | 100 | 1.000 | 108 | 0.349 s |\n",
		"- sluice, adaptive: round 2 failed: no port\n",
		"- sluice, adaptive, round 3: until it was back: 12.0 s\n",
		"### blog: sluice, adaptive, the ramp\n",
		"| 250 | 300 | 0.188 s |  | 1.000 s | 0 | 200 | 0 | 100 |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestWriteAll reads back what it can, and looks at the kinds of the others.
func TestWriteAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if err := WriteAll(dir, results()); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string]string{
		"results.md": "# Overload", "results.json": "{", "results.csv": "scene,", "blog.png": "\x89PNG", "blog.svg": "<?xml",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.HasPrefix(text, []byte(start)) {
			t.Errorf("%s begins with %.10q, %v", name, text, err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "results.json"))
	var back Results
	if err := json.Unmarshal(text, &back); err != nil || back.Scenes[0].Entries[1].Rounds[0].Held.Rate != 400 {
		t.Errorf("read back %+v, %v", back, err)
	}
	text, _ = os.ReadFile(filepath.Join(dir, "results.csv"))
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(lines) != 1+5*5 { // five rounds with two steps, one held, two points
		t.Errorf("%d lines, %v", len(lines), err)
	}
}

// TestOnePoint: a picture of a single step, and of none.
func TestOnePoint(t *testing.T) {
	dir := t.TempDir()
	s := Scene{Entries: []Entry{{Name: "a", Rounds: []Round{{Ramp: []Step{{Users: 10, Rate: 5}}}}}}}
	if err := s.writePictures(filepath.Join(dir, "one")); err != nil {
		t.Error(err)
	}
	if err := (&Scene{}).writePictures(filepath.Join(dir, "none")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "none.png")); err == nil {
		t.Error("a picture of nothing was written")
	}
}
