package finding

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/bench/abuse/attack"
	"sluice/bench/abuse/ground"
)

// seen has the users' p99 in ms.
func seen(p99 ...float64) ground.Seen {
	var s ground.Seen
	for _, ms := range p99 {
		s.Users = append(s.Users, ground.Met{P99: ms / 1e3, Good: 100})
	}
	return s
}

// rounds has as many rounds, alike but for a little.
func rounds(n int, calm, attacked, control ground.Seen) Finding {
	f := Finding{Class: "ping", Does: "pings"}
	for i := range n {
		r := Round{ground.Calm: calm, ground.Attacked: attacked, ground.Control: control}
		a := attacked
		a.Users = nil
		for _, met := range attacked.Users {
			met.P99 *= 1 + float64(i)/100
			a.Users = append(a.Users, met)
		}
		r[ground.Attacked] = a
		f.Rounds = append(f.Rounds, r)
	}
	return f
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		rounds   int
		attacked ground.Seen
		users    string
		verdict  string
	}{
		{3, seen(1, 1, 3), ground.Users()[2], "held"},
		{3, seen(5, 1, 3), ground.Users()[0], "broken"},
		{3, seen(1, 3.98, 3), ground.Users()[1], "open"}, // about twice
		{1, seen(1, 1, 3), ground.Users()[2], "open"},
	} {
		f := rounds(c.rounds, seen(1, 1, 2), c.attacked, seen(1, 2, 2))
		if s := f.Sufferers(); s.Users != c.users || s.Verdict() != c.verdict {
			t.Errorf("%+v: got %+v, %s; want %s, %s", c, s, s.Verdict(), c.users, c.verdict)
		}
	}
}

func TestTable(t *testing.T) {
	calm, attacked, control := seen(1, 1, 1), seen(2, 2, 4), seen(2, 2, 2)
	calm.CPU, calm.Peak, calm.Turn = 0.25, 50<<20, 20e-6
	attacked.CPU, attacked.Peak, attacked.Turn, attacked.Left = 0.75, 70<<20, 150e-6, 3
	attacked.Users[1].Failed = 7
	attacked.Counters = map[string]float64{"http2_abuses ping_flood": 12, "http2_abuses unread_replies": 40}
	attacked.Attack = &attack.Tally{Seconds: 2, Connections: 100, Strikes: 5000, Refused: 1, Ends: map[string]int64{"ENHANCE_YOUR_CALM": 90, "RST": 5}}
	f := rounds(1, calm, attacked, control)
	var got strings.Builder
	WriteTable(&got, []Finding{f, {Class: "none"}})
	lines := strings.Split(got.String(), "\n")
	want := "| ping | new over TLS | 1.00 | 4.00 | 2.00 | open | 0, 7 of 307, 0 | 20, 150 | 0.50 | 20 | 50 | 2500 | " +
		"ENHANCE_YOUR_CALM 90, RST 5, refused 1 | http2_abuses unread_replies 40, http2_abuses ping_flood 12 | 3 |"
	if lines[2] != want {
		t.Errorf("got\n%s\nwant\n%s", lines[2], want)
	}
	if !strings.HasPrefix(lines[3], "| none | nothing was measured |") {
		t.Errorf("got %s", lines[3])
	}
	for _, line := range lines[:4] {
		if n := strings.Count(line, "|"); n != len(columns)+1 {
			t.Errorf("%d bars in %s", n, line)
		}
	}
}

func TestWriteAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	r := Results{Method: []string{"with care"}, Findings: []Finding{{Class: "ping", Faults: []string{"calm: no backend"}}}}
	if err := WriteAll(dir, r); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"results.md": "ping: a round failed: calm: no backend", "results.json": `"class": "ping"`} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has no %q: %v\n%s", file, want, err, text)
		}
	}
}
