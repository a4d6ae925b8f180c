package load

import (
	"bufio"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestArgs(t *testing.T) {
	base := Job{Port: 20001, Conns: 64, Target: "/53", Warm: time.Second, Measure: 1500 * time.Millisecond}
	closed, perRequest, open, full, resumed := base, base, base, base, base
	perRequest.PerRequest = true
	full.Handshakes, resumed.Handshakes = Full, Resumed
	open.Rate = 20000.25
	for _, c := range []struct {
		job  Job
		want string
	}{
		{closed, "closed 20001 64 /53 1000 1500 keep"},
		{perRequest, "closed 20001 64 /53 1000 1500 close"},
		{open, "open 20001 64 /53 1000 1500 20000.2"},
		{full, "closed 20001 64 /53 1000 1500 full"},
		{resumed, "closed 20001 64 /53 1000 1500 resumed"},
	} {
		if got := strings.Join(c.job.args(), " "); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func read(text string) running { return running{out: bufio.NewReader(strings.NewReader(text))} }

func TestSample(t *testing.T) {
	r := read("begin\n" + `{"requests":10,"errors":1,"bytes":530,"reconnects":2,"unfinished":3,"elapsed_ns":2000000000,"latency":[[100,6],[200,4]]}` + "\n")
	if err := r.begun(); err != nil {
		t.Fatal(err)
	}
	s, err := r.sample()
	if err != nil {
		t.Fatal(err)
	}
	if s.Requests != 10 || s.Errors != 1 || s.Bytes != 530 || s.Reconnects != 2 || s.Unfinished != 3 || s.Seconds() != 2 {
		t.Errorf("got %+v", s)
	}
	if !slices.Equal(s.Latency, Histogram{{100, 6}, {200, 4}}) {
		t.Errorf("latency %v", s.Latency)
	}
}

func TestGeneratorThatDies(t *testing.T) {
	for _, text := range []string{"", "begin", "other\n"} {
		if read(text).begun() == nil {
			t.Errorf("%q is taken for a beginning", text)
		}
	}
	for _, text := range []string{"", `{"requests":1`, "words\n"} {
		if _, err := read(text).sample(); err == nil {
			t.Errorf("%q is taken for a sample", text)
		}
	}
}

func TestMerge(t *testing.T) {
	h := Merge(Histogram{{1000, 50}, {2000, 40}}, Histogram{{2000, 5}, {3000, 4}, {1 << 62, 1}})
	if h.TotalCount() != 100 {
		t.Errorf("%d latencies, want 100", h.TotalCount())
	}
	for q, want := range map[float64]int64{50: 1000, 51: 2000, 95: 2000, 99: 3000, 100: longest.Nanoseconds()} {
		if got := h.ValueAtQuantile(q); !h.ValuesAreEquivalent(got, want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if Merge().TotalCount() != 0 {
		t.Error("nothing was merged to something")
	}
}
