package main

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/bench/overload/sharing"
)

func blog(t *testing.T) *backend {
	c, err := sharing.Parse(sharing.Blog)
	if err != nil {
		t.Fatal(err)
	}
	return newBackend(c, 1)
}

// ask sends one request to the handler.
func ask(b *backend) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w
}

// load keeps users asking for so long, and gives the cut of that time.
func load(b *backend, users int, long time.Duration) Cut {
	end := time.Now().Add(long)
	var all sync.WaitGroup
	for range users {
		all.Go(func() {
			for time.Now().Before(end) {
				ask(b)
			}
		})
	}
	<-time.After(long)
	c := b.figures.cut(b.now())
	all.Wait()
	return c
}

// TestCurveOfTheBlog: in virtual time, the handler does what the curve says.
func TestCurveOfTheBlog(t *testing.T) {
	for users, want := range map[int]float64{10: 261, 51: 374, 222: 281} {
		synctest.Test(t, func(t *testing.T) {
			c := load(blog(t), users, time.Minute)
			if rate := float64(c.Good) / c.Seconds; math.Abs(rate-want) > 0.03*want {
				t.Errorf("%d users: %.1f requests/s, want %.0f", users, rate, want)
			}
			if c.MostHeld != users || math.Abs(c.MeanHeld-float64(users)) > 0.01*float64(users) {
				t.Errorf("%d users: at most %d held, in the mean %.2f", users, c.MostHeld, c.MeanHeld)
			}
		})
	}
}

// TestConstantWork: one request alone takes one unit of work, 1/50.4 s.
func TestConstantWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blog(t)
		b.constant = true
		begin := time.Now()
		if w := ask(b); w.Code != http.StatusOK || w.Body.String() != answer {
			t.Errorf("status %d, %q", w.Code, w.Body)
		}
		if got := time.Since(begin).Seconds(); math.Abs(got-1/50.4) > 1e-6 {
			t.Errorf("took %v s", got)
		}
	})
}

// TestDelay: what each waits for by itself does not depend on how many they are.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := sharing.Parse("servers:5000,1000")
		if err != nil {
			t.Fatal(err)
		}
		b := newBackend(c, 1)
		b.delay = 400 * time.Millisecond
		got := load(b, 100, time.Minute)
		if rate := float64(got.Good) / got.Seconds; math.Abs(rate-250) > 10 {
			t.Errorf("%.1f requests/s, want 250", rate)
		}
	})
}

// TestHangAndRecover: nothing is answered meanwhile, and nothing is lost.
func TestHangAndRecover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := blog(t)
		set(t, b, "curve=hang")
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { ask(b) })
		}
		time.Sleep(time.Hour)
		if c := b.figures.cut(b.now()); c.Good != 0 || c.Held != 20 {
			t.Errorf("while it hangs: %+v", c)
		}
		set(t, b, "curve="+sharing.Blog)
		all.Wait()
		if c := b.figures.cut(b.now()); c.Good != 20 || c.Held != 0 || c.Seconds > 5 {
			t.Errorf("afterwards: %+v", c)
		}
	})
}

// TestLies: a share of the requests has an answer without work.
func TestLies(t *testing.T) {
	for _, c := range []struct {
		lie    string
		status int
		field  string
		takes  time.Duration
	}{
		{"error:1", 500, "", 0},
		{"quiet:1", 200, "degraded", 0},
		{"trickle:1", 200, "", trickleFor},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := blog(t)
			set(t, b, "lie="+c.lie)
			begin := time.Now()
			w := ask(b)
			if w.Code != c.status || w.Header().Get("X-Status") != c.field || time.Since(begin) != c.takes {
				t.Errorf("%s: status %d, X-Status %q after %v", c.lie, w.Code, w.Header().Get("X-Status"), time.Since(begin))
			}
			if cut := b.figures.cut(b.now()); cut.Good != 0 || cut.Lies != 1 {
				t.Errorf("%s is counted as %+v", c.lie, cut)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := blog(t)
		set(t, b, "lie=error:0.25")
		c := load(b, 10, time.Minute)
		if share := float64(c.Lies) / float64(c.Lies+c.Good); math.Abs(share-0.25) > 0.02 {
			t.Errorf("a share of %.3f was lied to, want 0.25", share)
		}
	})
}

func set(t *testing.T, b *backend, query string) {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err == nil {
		err = b.set(values)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestSetRefuses(t *testing.T) {
	b := blog(t)
	for _, query := range []string{"curve=x", "lie=error", "lie=error:2", "lie=other:0.1", "delay=1", "delay=-1s", "other=1", "curve=hang&lie=x"} {
		w := httptest.NewRecorder()
		b.control().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/set?"+query, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", query, w.Code)
		}
	}
	b.station.Enter(0, 1, func(float64) {})
	if math.IsInf(b.station.Next(), 1) {
		t.Error("half of a faulty order was carried out")
	}
}

// TestCut: over HTTP, with connections counted as they come and go.
func TestCut(t *testing.T) {
	b := blog(t)
	server := httptest.NewUnstartedServer(b)
	server.Config.ConnState = b.count
	server.Start()
	client := server.Client()
	response, err := client.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	server.Close()
	w := httptest.NewRecorder()
	b.control().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/cut", nil))
	var c Cut
	if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	if c.Good != 1 || c.MostHeld != 1 || c.MostConnections != 1 || c.Connections != 0 || c.MeanHeld <= 0 {
		t.Errorf("the cut is %+v", c)
	}
}

// TestFigures is a transcript of a few requests.
func TestFigures(t *testing.T) {
	var f figures
	f.hold(1, 1)
	f.hold(2, 1)
	f.hold(4, -1)
	f.good++
	f.connect(1)
	f.connect(1)
	f.connect(-1)
	want := Cut{Seconds: 5, Good: 1, Held: 1, MostHeld: 2, MeanHeld: 6.0 / 5, Connections: 1, MostConnections: 2}
	if got := f.cut(5); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want = Cut{Seconds: 1, Held: 1, MostHeld: 1, MeanHeld: 1, Connections: 1, MostConnections: 1}
	if got := f.cut(6); got != want {
		t.Errorf("then %+v, want %+v", got, want)
	}
}
