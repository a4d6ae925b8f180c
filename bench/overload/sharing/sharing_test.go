package sharing

import (
	"math"
	"math/rand/v2"
	"testing"
)

// within compares with a share of the wanted figure.
func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s: %.4g, want %.4g within %g", what, got, want, share)
	}
}

// TestCurves holds the curves against the figures that they are for.
func TestCurves(t *testing.T) {
	for _, c := range []struct {
		curve string
		n     int
		work  float64
	}{
		{Blog, 1, 50.4}, {Blog, 110, 347}, {Blog, 222, 281}, {Blog, 51, 374},
		{"servers:10,32", 1, 10}, {"servers:10,32", 32, 320}, {"servers:10,32", 250, 320},
		{"cliff:16,0.03,60,600", 1, 16}, {"cliff:16,0.03,60,600", 60, 346}, {"cliff:16,0.03,60,600", 250, 7.72},
		{"hang", 7, 0},
	} {
		curve, err := Parse(c.curve)
		if err != nil {
			t.Fatal(err)
		}
		within(t, c.curve, curve(c.n), c.work, 0.01)
	}
}

func TestBest(t *testing.T) {
	for text, want := range map[string]int{Blog: 51, "servers:10,32": 32, "cliff:16,0.03,60,600": 61, "hang": 0} {
		curve, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := curve.Best(250); n < want-1 || n > want+1 {
			t.Errorf("%s is best with %d, want %d", text, n, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "usl", "usl:1,2", "usl:1,2,3,4", "usl:1,2,x", "servers:-1,2", "servers:NaN,2", "hang:1", "other:1"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q was taken for a curve", text)
		}
	}
}

// script is a station under test, and when which request was finished.
type script struct {
	*Station
	ends map[string]float64
}

func newScript(t *testing.T, curve string) *script {
	c, err := Parse(curve)
	if err != nil {
		t.Fatal(err)
	}
	return &script{New(c), map[string]float64{}}
}

func (s *script) enter(now, work float64, name string) {
	s.Advance(now)
	s.Enter(now, work, func(at float64) { s.ends[name] = at })
}

// TestSharing: with two workers of one unit a second, three requests get two thirds each.
func TestSharing(t *testing.T) {
	s := newScript(t, "servers:1,2")
	s.enter(0, 2, "a")
	s.enter(1, 1, "b")   // a has 1 left; both at full rate
	s.enter(1.5, 3, "c") // 0.5 left of a and of b, at 2/3: until 2.25
	s.Advance(2.2)
	if len(s.ends) != 0 || s.Held() != 3 {
		t.Errorf("finished too early: %v", s.ends)
	}
	s.Advance(100) // late, which changes no end: c has 2.5 left at 2.25
	for name, want := range map[string]float64{"a": 2.25, "b": 2.25, "c": 4.75} {
		within(t, name, s.ends[name], want, 1e-9)
	}
	if s.Held() != 0 || !math.IsInf(s.Next(), 1) {
		t.Errorf("%d are left, the next at %v", s.Held(), s.Next())
	}
}

// TestSetCurve: what hangs goes on where it was.
func TestSetCurve(t *testing.T) {
	s := newScript(t, "servers:1,1")
	s.enter(0, 2, "a")
	s.SetCurve(1, hang(nil))
	s.Advance(50)
	if !math.IsInf(s.Next(), 1) || s.Held() != 1 {
		t.Errorf("%d held, the next at %v: it does not hang", s.Held(), s.Next())
	}
	s.SetCurve(50, servers([]float64{2, 1}))
	s.Advance(60)
	within(t, "a", s.ends["a"], 50.5, 1e-9)
}

// TestClosedLoop: with so many users who come again at once, the station does the
// curve's work, whatever the work of a single request.
func TestClosedLoop(t *testing.T) {
	for _, c := range []struct {
		users int
		rate  float64
	}{{10, 261}, {51, 374}, {110, 347}, {222, 281}} {
		for name, draw := range map[string]func(*rand.Rand) float64{
			"exponential": (*rand.Rand).ExpFloat64,
			"constant":    func(*rand.Rand) float64 { return 1 },
		} {
			s, random := newScript(t, Blog), rand.New(rand.NewPCG(1, 2))
			done := 0
			var again func(at float64)
			again = func(at float64) {
				done++
				s.Enter(at, draw(random), again)
			}
			for range c.users {
				s.Enter(0, draw(random), again)
			}
			const seconds = 100
			s.Advance(seconds)
			within(t, name, float64(done)/seconds, c.rate, 0.02)
		}
	}
}
