package admin

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sluice/internal/segment"
)

// work puts figures into the segment: some of each kind, on several loops.
func (v *fakeView) work() {
	for worker := range 2 {
		for loop := range 2 {
			l := v.segment.Loop(worker, loop)
			l.Accepted.Add(10)
			l.Connections.Set(4)
			l.Idle.Set(3)
			l.Active.Set(1)
			l.Requests.Add(100)
			l.Status[0].Add(2)
			l.Status[2].Add(90)
			l.Status[5].Add(8)
			l.Refused[segment.NoServer].Add(5)
			l.BytesIn.Add(1000)
			l.BytesOut.Add(50_000)
			l.BusyNanos.Add(1_500_000_000)
			l.Hybrid.Add(7)
			l.Crossings.Local.Add(80)
			l.Crossings.Remote.Add(15)
			l.Crossings.Spilled.Add(11)
			for range 98 {
				l.Duration.Observe(int64(100 * time.Microsecond))
			}
			s := v.segment.Server(worker, loop, v.servers[1].Slot)
			s.Requests.Add(95)
			s.Failures.Add(3)
			s.Crossings.Local.Add(70)
			s.Crossings.Remote.Add(25)
			s.Crossings.Spilled.Add(5)
			s.Reused.Add(90)
			s.Connects.Add(5)
			s.Open.Set(2)
			s.InFlight.Set(1)
			s.Response.Observe(int64(3 * time.Millisecond))
		}
	}
}

func scrape(t *testing.T, v *fakeView) string {
	t.Helper()
	got := request(v, "GET", "/metrics")
	if got.Code != 200 {
		t.Fatalf("%d %s", got.Code, got.Body)
	}
	return got.Body.String()
}

// busy works until procfs, which counts in ticks of 10 ms, shows CPU time of this
// process.
func busy(t *testing.T) {
	t.Helper()
	for used := (Usage{}); used.CPUSeconds == 0; {
		var err error
		if used, err = readUsage("/proc", os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMetricsTellTheSegment(t *testing.T) {
	v := newFakeView(t)
	v.work()
	busy(t)
	v.keys = CertificatesView{All: []CertificateView{{File: "a.crt", Expires: time.Unix(1_900_000_000, 5)}}, Taken: 4, Refused: 3, Issued: 2, Failed: 1}
	roaming := v.segment.Worker(1)
	roaming.LetOut.Store(9)
	roaming.CalledBack.Store(7)
	roaming.Away.Store(2)
	lines := strings.Split(scrape(t, v), "\n")
	for _, want := range []string{
		`sluice_build_info{version="1.2.3"} 1`,
		`sluice_config_generation 7`,
		`sluice_ready 1`,
		`sluice_certificate_expiry_timestamp_seconds{file="a.crt"} 1.9e+09`,
		`sluice_certificate_changes_total{outcome="taken"} 4`,
		`sluice_certificate_changes_total{outcome="refused"} 3`,
		`sluice_certificate_orders_total{outcome="issued"} 2`,
		`sluice_certificate_orders_total{outcome="failed"} 1`,
		`sluice_tls_hybrid_handshakes_total{node="0",worker="0"} 14`,
		`sluice_client_connections_accepted_total{node="0",worker="0"} 20`,
		`sluice_client_connections{node="1",worker="1"} 8`,
		`sluice_client_idle_connections{node="1",worker="1"} 6`,
		`sluice_requests_total{node="0",worker="0"} 200`,
		`sluice_active_requests{node="0",worker="0"} 2`,
		`sluice_responses_total{code="2xx",node="0",worker="0"} 180`,
		`sluice_responses_total{code="none",node="0",worker="0"} 4`,
		`sluice_responses_total{code="1xx",node="0",worker="0"} 0`,
		`sluice_refused_requests_total{node="1",reason="no_server",worker="1"} 10`,
		`sluice_refused_requests_total{node="1",reason="bad_request",worker="1"} 0`,
		`sluice_client_received_bytes_total{node="0",worker="0"} 2000`,
		`sluice_client_sent_bytes_total{node="0",worker="0"} 100000`,
		`sluice_loop_busy_seconds_total{node="0",worker="0"} 3`,
		`sluice_requests_local_total{node="0",worker="0"} 160`,
		`sluice_requests_remote_total{node="0",worker="0"} 30`,
		`sluice_requests_spilled_total{node="1",worker="1"} 22`,
		`sluice_server_requests_local_total{farm="app",server="http://127.0.0.1:9002"} 280`,
		`sluice_server_requests_remote_total{farm="app",server="http://127.0.0.1:9002"} 100`,
		`sluice_server_requests_spilled_total{farm="app",server="http://127.0.0.1:9002"} 20`,
		`sluice_worker_serving{node="0",worker="0"} 1`,
		`sluice_worker_loops{node="0",worker="0"} 2`,
		`sluice_worker_restarts_total{node="1",worker="1"} 3`,
		`sluice_loops_let_out_total{node="1",worker="1"} 9`,
		`sluice_loops_called_back_total{node="1",worker="1"} 7`,
		`sluice_loops_away{node="1",worker="1"} 2`,
		`sluice_loops_away{node="0",worker="0"} 0`,
		`sluice_server_requests_total{farm="app",server="http://127.0.0.1:9001"} 0`,
		`sluice_server_requests_total{farm="app",server="http://127.0.0.1:9002"} 380`,
		`sluice_server_failures_total{farm="app",server="http://127.0.0.1:9002"} 12`,
		`sluice_server_connections{farm="app",server="http://127.0.0.1:9002"} 8`,
		`sluice_server_active_requests{farm="app",server="http://127.0.0.1:9002"} 4`,
		`sluice_request_duration_seconds_count{node="0",worker="0"} 196`,
		`sluice_request_duration_seconds_sum{node="0",worker="0"} 0.0196`,
		`sluice_request_duration_seconds_bucket{node="0",worker="0",le="6.5536e-05"} 0`,
		`sluice_request_duration_seconds_bucket{node="0",worker="0",le="0.000131072"} 196`,
		`sluice_request_duration_seconds_bucket{node="0",worker="0",le="+Inf"} 196`,
		`sluice_server_response_seconds_count{farm="app",server="http://127.0.0.1:9002"} 4`,
	} {
		if !slices.Contains(lines, want) {
			name, _, _ := strings.Cut(want, "{")
			near := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.HasPrefix(l, name) })
			t.Errorf("no line %s among\n%s", want, strings.Join(near, "\n"))
		}
	}
	for _, prefix := range []string{"process_cpu_seconds_total ", "go_goroutines ", "sluice_worker_resident_memory_bytes{", "sluice_worker_cpu_seconds_total{"} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, prefix) && !strings.HasSuffix(l, " 0") }) {
			t.Errorf("no %s, or it is 0", prefix)
		}
	}
}

// The names follow Prometheus' own rules: units, _total, help for each.
func TestMetricsPassPromlint(t *testing.T) {
	v := newFakeView(t)
	v.work()
	v.hold()
	problems, err := promlint.New(strings.NewReader(scrape(t, v))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A pedantic registry compares what is collected with what was described.
func TestMetricsAreDescribed(t *testing.T) {
	v := newFakeView(t)
	v.work()
	v.hold()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector{v})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	allowed := []string{"worker", "node", "farm", "server", "code", "reason", "version", "outcome", "cause", "result", "end", "class", "memory_node", "place", "file"}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "sluice_") {
			t.Errorf("%s: not ours", f.GetName())
		}
		for _, label := range f.Metric[0].Label {
			if !slices.Contains(allowed, label.GetName()) {
				t.Errorf("%s has label %s, whose values may be unbounded", f.GetName(), label.GetName())
			}
		}
	}
}

// Every figure of the layout is shown: a new counter must not be forgotten here.
func TestEveryFigureHasAMetric(t *testing.T) {
	const (
		notInTables = 11 // Status, Refused, Shed, ProxyHeaders, TunnelEnds, Abuses, HTTP3Events, Handshakes, Shunned and the two histograms have descriptions of their own
		within      = 2  // Crossings is one field, and three figures
	)
	if got, want := len(loopMetrics)+notInTables-within, fieldsOf[segment.LoopStats](); got != want {
		t.Errorf("LoopStats has %d figures, and %d metrics", want, got)
	}
	const (
		ofTheirOwn = 5 // Good, Ignored, Failed and the two histograms
		notShown   = 4 // Permits, Area, Since and Squares: the controller's raw material
	)
	if got, want := len(serverMetrics)+ofTheirOwn+notShown-within, fieldsOf[segment.ServerStats](); got != want {
		t.Errorf("ServerStats has %d figures, and %d metrics", want, got)
	}
}

// A worker that died is shown, and has no process to measure.
func TestMetricsOfADeadWorker(t *testing.T) {
	v := newFakeView(t)
	v.work()
	v.workers[0].State, v.workers[0].PID = "restarting", 0
	body := scrape(t, v)
	for _, want := range []string{
		`sluice_worker_serving{node="0",worker="0"} 0`,
		`sluice_worker_resident_memory_bytes{node="0",worker="0"} 0`,
		`sluice_requests_total{node="0",worker="0"} 200`,
	} {
		if !strings.Contains(body, want+"\n") {
			t.Errorf("no line %s", want)
		}
	}
}
