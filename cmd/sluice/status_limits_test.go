package main

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/admin"
)

func TestPrintLimits(t *testing.T) {
	l := limitsAt(55, 2)
	l.Servers[0].Decisions = append(l.Servers[0].Decisions, admin.DecisionStatus{
		At: l.Time, From: 60, To: 44, Reason: "collapse", Centre: 44, Throughput: 200, InFlight: 60, Waiting: 80,
	})
	var got strings.Builder
	if err := printLimits(&got, l); err != nil {
		t.Fatal(err)
	}
	want := `
FARM  SERVER                 KIND      LIMIT  IN-FLIGHT  QUEUE  WAIT-P50  WAIT-P99  GOOD/S   ELASTICITY  LAST-MOVE
app   http://127.0.0.1:9000  adaptive     60         60     60    180 ms    400 ms     372  0.02 ± 0.17  climb 25s ago
app   http://127.0.0.1:9001  off           -         55      0         -         -       -            -  -

TIME      FARM  SERVER                 LIMIT    REASON    CENTRE   ELASTICITY  GOOD/S  IN-FLIGHT  QUEUE
03:04:30  app   http://127.0.0.1:9000  46 → 60  climb       52.0  0.31 ± 0.17     340         46     12
03:04:55  app   http://127.0.0.1:9000  60 → 44  collapse    44.0            -     200         60     80

60 requests held now.
`
	if got.String() != want[1:] {
		t.Errorf("got\n%s\nwant%s", got.String(), want)
	}

	got.Reset()
	if err := printLimits(&got, &admin.Limits{Leaks: 1, Stranded: 2}); err != nil {
		t.Fatal(err)
	}
	if end := "\n0 requests held now. Mended by the supervisor: 1 permit leaked, 2 queues stranded.\n"; !strings.HasSuffix(got.String(), end) {
		t.Errorf("no word of what was mended:\n%s", got.String())
	}
}

func TestLastMovesAreInOrderOfTime(t *testing.T) {
	l := limitsAt(55, 4)
	for i, at := range []int{50, 30, 40} { // of three servers
		l.Servers[i].Decisions = []admin.DecisionStatus{{At: limitsAt(at, 0).Time, To: at}, {At: limitsAt(at+5, 0).Time, To: at + 5}}
	}
	l.Servers[3].Decisions = nil
	var got []int
	for _, m := range lastMoves(l, 4) {
		got = append(got, m.To)
	}
	if len(got) != 4 || got[0] != 40 || got[1] != 45 || got[2] != 50 || got[3] != 55 {
		t.Errorf("the last four went to %v", got)
	}
}

// teller answers /limits second by second of the story. A client that is gone may
// leave a request behind, so others ask it under its lock.
type teller struct {
	mu     sync.Mutex
	second int                 // of the next answer
	asked  []string            // the URLs so far
	fails  func(look int) bool // which looks are refused; nil: none
	last   int                 // end is called at this look, from 0
	end    func()              // nil: never
}

func (a *teller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	look := len(a.asked)
	a.asked = append(a.asked, r.URL.String())
	if a.end != nil && look == a.last {
		a.end()
	}
	if a.fails != nil && a.fails(look) {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return
	}
	json.NewEncoder(w).Encode(limitsAt(a.second, 1))
	a.second++
}

func (a *teller) urls() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

func TestStatusLimits(t *testing.T) {
	for _, c := range []struct {
		args, asked, want string
	}{
		{"--limits", "/limits", "60         60     60    180 ms"},
		{"--limits --farm a&b", "/limits?farm=a%26b", "LAST-MOVE"},
		{"--limits --json", "/limits", `"in_flight":60`},
		{"--limits --json --farm app", "/limits?farm=app", `"in_flight":60`},
	} {
		sluice := &teller{second: 55}
		address := pretend(t, sluice.ServeHTTP)
		args := append([]string{"status", "--admin", address}, strings.Fields(c.args)...)
		code, stdout, stderr := command(t.Context(), args...)
		if asked := sluice.urls(); code != 0 || len(asked) != 1 || asked[0] != c.asked || !strings.Contains(stdout, c.want) {
			t.Errorf("%s: exit code %d, asked %q: %s%s", c.args, code, asked, stdout, stderr)
		}
	}
	address := pretend(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) })
	if code, _, stderr := command(t.Context(), "status", "--limits", "--admin", address); code != 1 || !strings.Contains(stderr, "not the limits of a Sluice") {
		t.Errorf("another program: exit code %d: %s", code, stderr)
	}
}

// Without a terminal there are lines: one for each look, one for each move that
// came after the first look.
func TestWatchLimitsAsLines(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sluice := &teller{second: 28, last: 5, end: cancel}
	var out strings.Builder
	w := &watcher{address: pretend(t, sluice.ServeHTTP), out: &out, every: 1}
	if err := w.untilSignal(ctx, w.watchLimits); err != nil {
		t.Error(err)
	}
	want := `
03:04:28  app http://127.0.0.1:9000  limit 46  in flight 28  queue 0  wait -  good/s 140  elasticity -
03:04:29  app http://127.0.0.1:9000  limit 46  in flight 29  queue 0  wait -  good/s 142  elasticity -
03:04:30  app http://127.0.0.1:9000  moved 46 → 60  climb  elasticity 0.31 ± 0.17
03:04:30  app http://127.0.0.1:9000  limit 60  in flight 30  queue 0  wait -  good/s 148  elasticity 0.02 ± 0.17
03:04:31  app http://127.0.0.1:9000  limit 60  in flight 31  queue 0  wait -  good/s 152  elasticity 0.02 ± 0.17
`
	if !strings.HasPrefix(out.String(), want[1:]) {
		t.Errorf("got\n%s\nwant%s", &out, want)
	}
	if asked := sluice.urls(); asked[0] != "/limits" || asked[1] != "/limits?decisions=12" {
		t.Errorf("asked %q", asked)
	}
}

// A picture goes on while Sluice does not answer, and says so.
func TestWatchLimitsAsPicture(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	sluice := &teller{second: 30, last: 10, end: cancel, fails: func(look int) bool { return look >= 4 && look < 8 }}
	var out strings.Builder
	w := &watcher{address: pretend(t, sluice.ServeHTTP), out: &out, every: looksPerPicture}
	paint := func(ctx context.Context) error {
		l, err := w.lookAtLimits(ctx, everyDecision)
		if err != nil {
			return err
		}
		return w.paintLimits(ctx, l, &screen{&out, func() (int, int) { return 80, 24 }, &noColours})
	}
	if err := w.untilSignal(ctx, paint); err != nil {
		t.Error(err)
	}
	pictures := strings.Split(strings.TrimSuffix(strings.TrimPrefix(out.String(), enterScreen), leaveScreen), home)[1:]
	if len(pictures) < 3 || !strings.HasPrefix(out.String(), enterScreen) || !strings.HasSuffix(out.String(), leaveScreen) {
		t.Fatalf("%d pictures in %q", len(pictures), out.String())
	}
	for i, want := range []string{"03:04:30", "answers 503: starting", "03:04:3"} {
		if !strings.Contains(pictures[i], want) {
			t.Errorf("picture %d does not say %q:\n%s", i, want, pictures[i])
		}
	}
	if strings.Contains(pictures[2], "503") {
		t.Errorf("Sluice answers again, and the picture does not know:\n%s", pictures[2])
	}
}
