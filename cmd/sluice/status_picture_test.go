package main

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sluice/internal/admin"
)

// story is a look at a Sluice whose first server was saturated for the last 20 s,
// and the history of 60 looks and pictures before.
func story(servers int) (*admin.Limits, history) {
	h := history{}
	var l *admin.Limits
	for second := range 60 {
		l = limitsAt(second, servers)
		h.note(l)
		if second < 59 {
			draw(80, 24, l, h, "")
		}
	}
	return l, h
}

// limitsAt is a look in the given second of a story.
func limitsAt(second, servers int) *admin.Limits {
	start := time.Date(2026, 11, 21, 3, 4, 0, 0, time.UTC)
	now := start.Add(time.Duration(second) * time.Second)
	climb := admin.DecisionStatus{At: start.Add(30 * time.Second), From: 46, To: 60, Reason: "climb", Half: "up", Centre: 52,
		Elasticity: 0.31, Evidence: 36, Throughput: 340, InFlight: 46, Waiting: 12}
	one := admin.AdmissionStatus{
		Kind: "adaptive", Limit: 46, Min: 2, Max: 500, InFlight: second, Half: "down", Centre: 40, Throughput: 5 * float64(second),
		Wait: admin.Distribution{Count: 100, Mean: 0.1, P50: 0.09, P99: 0.4}, Permits: admin.Permits{Good: uint64(5 * second * second / 2), Failed: 3, Ignored: 2},
	}
	if second >= 30 {
		one.Limit, one.Half, one.Centre, one.Elasticity, one.Evidence = 60, "up", 52, 0.02, 36
		one.Reason, one.Moved, one.Decisions = "climb", climb.At, []admin.DecisionStatus{climb}
	}
	if second >= 40 {
		one.InFlight, one.Waiting, one.Throughput = 60, 4*(second-40), 372
		one.Permits.Good = uint64(4000 + 372*(second-40))
		one.Wait = admin.Distribution{Count: uint64(100 * (second - 38)), Mean: 0.2, P50: 0.18, P99: 0.4}
	}
	l := &admin.Limits{Time: now, Held: int64(one.Waiting)}
	for i := range servers {
		next := one
		url := "http://127.0.0.1:900" + string(rune('0'+i))
		if i == 1 {
			next = admin.AdmissionStatus{Kind: "off", InFlight: second, Half: "level", Permits: admin.Permits{Good: uint64(50 * second)}}
		}
		l.Servers = append(l.Servers, admin.LimitStatus{Farm: "app", URL: url, AdmissionStatus: next})
	}
	return l
}

func picturedAs(t *testing.T, c *canvas, want string) {
	t.Helper()
	got := strings.TrimRight(strings.Join(c.lines(&noColours), "\n"), "\n")
	if got != strings.Trim(want, "\n") {
		t.Errorf("got\n%s\nwant%s", got, want)
	}
}

func TestPicture(t *testing.T) {
	l, h := story(1)
	picturedAs(t, draw(80, 24, l, h, ""), `
Sluice  76 held                                                         03:04:59
app  http://127.0.0.1:9000                                    adaptive, 2 to 500
   80 │                                                 ─ limit             60 ▲
      │                                                 █ in flight           60
      │                                     ▁▁▁▁▁▁▁▁▁▁    climb          29s ago
      │                                         ██████    elasticity   0.02±0.17
      │                           ▁▁▁▁▁▁▁▁▁▁   ███████    centre            52.0
      │                                        ███████
      │                                      ▁▄███████
      │                                    ▂▅█████████
      │                                  ▂▆███████████
      │                                ▃▇█████████████
      │                              ▄████████████████
    0 │                           ▁▅██████████████████
   80 │                                              ▅  █ queue               76
      │                                            ▃██    wait            200 ms
      │                                          ▂▆███
    0 │                                        ▁▅█████
  400 │                                         ▆▆▆▆▆▆  █ good/s             372
      │                                        ▄██████    failed               3
      │                                  ▁▂▃▄▅▇███████    ignored              2
    0 │                           ▁▁▃▄▅▆▇█████████████
      └─────-2m─────────────────-1m────────────────now
03:04:30  46 → 60     climb        e 0.31±0.17    340/s  46 in flight  12 held
`)
}

func TestPictureOfTwoServers(t *testing.T) {
	l, h := story(2)
	picturedAs(t, draw(80, 14, l, h, ""), `
Sluice  76 held                                                         03:04:59
app  http://127.0.0.1:9000                                    adaptive, 2 to 500
   80 │                                     ━━━━▁▁▁▁▁▁  ─ limit             60 ▲
      │                           ━━━━━━━━━━▁▂▃███████  █ in flight           60
    0 │                           ▁▁▂▃▄▅▆▇████████████    climb          29s ago
   80 │                                        ▁▁▂▄▅▆▇  █ queue               76
  400 │                           ▁▁▁▁▁▂▂▂▂▃▃▃▄▅▇▇▇▇▇▇  █ good/s             372
app  http://127.0.0.1:9001                                                   off
   80 │                                             ▁▁  ─ limit                -
      │                                     ▁▂▃▄▅▆▇███  █ in flight           59
    0 │                           ▁▁▂▃▄▅▆▇████████████
    4 │                                                 █ queue                0
   60 │                           ▄▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇  █ good/s              50
      └─────-2m─────────────────-1m────────────────now
`)
}

func TestPictureOfTwoServersInANarrowTerminal(t *testing.T) {
	l, h := story(2)
	l.Leaks, l.Stranded = 1, 2
	picturedAs(t, draw(56, 15, l, h, ""), `
Sluice  76 held  1 permit leaked, 2 queues stranded
app  http://127.0.0.1:9000              60/60 +76 200 ms
   80 │                                       ━━━━▁▁▁▁▁▁
      │                             ━━━━━━━━━━▁▂▃███████
    0 │                             ▁▁▂▃▄▅▆▇████████████
   80 │                                          ▁▁▂▄▅▆▇
  400 │                             ▁▁▁▁▁▂▂▂▂▃▃▃▄▅▇▇▇▇▇▇
app  http://127.0.0.1:9001                     59/- +0 -
   80 │                                               ▁▁
      │                                       ▁▂▃▄▅▆▇███
    0 │                             ▁▁▂▃▄▅▆▇████████████
    4 │
   60 │                             ▄▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇
      └───────-2m─────────────────-1m────────────────now
03:04:30  46 → 60     climb        e 0.31±0.17    340/s 
`)
}

func TestPictureWithoutALimit(t *testing.T) {
	l, h := story(0)
	picturedAs(t, draw(40, 5, l, h, "nobody answers"), `
Sluice  76 held  nobody answers 03:04:59

No server has a limit yet.
`)
}

// A picture fits into every terminal, and with more servers than there is room for
// it shows those where most requests wait.
func TestPictureFits(t *testing.T) {
	for servers := range 9 {
		l, h := story(servers)
		if servers == 8 {
			l.Servers[6].Waiting = 10_000
		}
		for width := 1; width <= 200; width += 7 {
			for height := 1; height <= 60; height += 3 {
				lines := draw(width, height, l, h, "nobody answers").lines(&noColours)
				if len(lines) != height {
					t.Fatalf("%d lines on a terminal of %d", len(lines), height)
				}
				for _, line := range lines {
					if n := utf8.RuneCountInString(line); n > width {
						t.Fatalf("%d characters on a terminal of %d: %q", n, width, line)
					}
				}
				if servers == 8 && width > 60 && height >= 8 && !strings.Contains(strings.Join(lines, "\n"), ":9006") {
					t.Errorf("%d × %d: the server where most wait is not shown", width, height)
				}
			}
		}
	}
}

func TestRoof(t *testing.T) {
	for _, c := range []struct{ value, want float64 }{
		{-1, 4}, {0, 4}, {4, 5}, {9, 10}, {10, 12}, {51, 60}, {62, 80}, {94, 100}, {96, 120}, {1000, 1200}, {8e6, 10e6},
	} {
		if got := roof(4, []float64{-1, c.value}); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("above %g: %g, want %g", c.value, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{short(5), "5"}, {short(2.5), "2.5"}, {short(8000), "8000"}, {short(12_000), "12k"}, {short(250_000), "250k"}, {short(1.5e6), "1.5M"},
		{shorten("http://a", 8), "http://a"}, {shorten("http://a", 7), "http:/…"}, {shorten("http://a", 0), ""}, {shorten("http://a", -3), ""},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
