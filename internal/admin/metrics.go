package admin

import (
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/internal/segment"
)

// scrapesAtOnce bounds what several scrapers can make the supervisor do.
const scrapesAtOnce = 4

// metricsHandler answers /metrics from a registry of its own, so that no imported
// package adds to it.
func metricsHandler(view View) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collector{view},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce})
}

// Labels. None is unbounded: no client can make a new value of one.
var (
	workerLabels = []string{"worker", "node"}
	serverLabels = []string{"farm", "server"}
)

// loopMetrics are the figures of a worker's loops.
var loopMetrics = []metric[segment.LoopStats]{
	counter("sluice_client_connections_accepted_total", "Connections taken from the listening sockets.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Accepted) }),
	gauge("sluice_client_connections", "Client connections open now.", workerLabels,
		func(l *segment.LoopStats) float64 { return level(l.Connections) }),
	gauge("sluice_client_idle_connections", "Client connections open now that wait between requests.", workerLabels,
		func(l *segment.LoopStats) float64 { return level(l.Idle) }),
	counter("sluice_requests_total", "Requests whose head was read.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Requests) }),
	gauge("sluice_active_requests", "Requests in progress: head read, response not yet handed to the kernel in full. Held ones too.", workerLabels,
		func(l *segment.LoopStats) float64 { return level(l.Active) }),
	counter("sluice_client_received_bytes_total", "Bytes read from clients.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.BytesIn) }),
	counter("sluice_client_sent_bytes_total", "Bytes written to clients.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.BytesOut) }),
	counter("sluice_accept_pauses_total", "Times that accept stopped because the process had no file descriptor left. Raise LimitNOFILE.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.AcceptPauses) }),
	counter("sluice_access_log_dropped_lines_total", "Access log lines given up because the disk was slower than the requests.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.LogDropped) }),
	counter("sluice_task_panics_total", "Connections closed by a fault in Sluice itself. The log has the stack.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Panics) }),
	counter("sluice_loop_turns_total", "Turns of the event loops.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Turns) }),
	counter("sluice_loop_busy_seconds_total", "Time that the event loops were not asleep. Its rate divided by sluice_worker_loops is the utilisation.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.BusyNanos) / 1e9 }),
	counter("sluice_server_connection_takeovers_total", "Connections to servers that one loop took over from another of its node.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Takeovers) }),
	counter("sluice_handed_over_connections_total", "Connections that the loop which accepted them gave to another of its worker, since that had clearly fewer.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.HandedOver) }),
	gauge("sluice_tls_handshakes_in_progress", "Client connections whose TLS handshake is not over. They are in sluice_client_connections too.", workerLabels,
		func(l *segment.LoopStats) float64 { return level(l.Shaking) }),
	counter("sluice_tls_resumed_handshakes_total", "TLS handshakes with clients that went on with an earlier session. They are in sluice_tls_handshakes_total too.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Resumed) }),
	counter("sluice_http3_connections_total", "Connections of HTTP/3 whose handshake is over. They are in sluice_client_connections_accepted_total too.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.HTTP3Connections) }),
	counter("sluice_tls_hybrid_handshakes_total", "TLS handshakes with clients whose keys a quantum computer could not find later. They are in sluice_tls_handshakes_total too.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Hybrid) }),
	gauge("sluice_held_requests", "Requests that wait for a permit now, by the worker of their client.", workerLabels,
		func(l *segment.LoopStats) float64 { return level(l.Held) }),
	counter("sluice_requests_local_total", "Requests sent to a server of the worker's own NUMA node, each try counted. Servers of no known node are not counted here, nor in the next two.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Crossings.Local) }),
	counter("sluice_requests_remote_total", "Requests sent to a server of another node, each try counted.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Crossings.Remote) }),
	counter("sluice_requests_spilled_total", "Requests sent to a server of another node because those of the own had no permit left. They are in sluice_requests_remote_total too.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Crossings.Spilled) }),
	gauge("sluice_tunnels", "Connections that are tunnels now: raw TCP, WebSocket, CONNECT.", workerLabels,
		func(l *segment.LoopStats) float64 { return float64(l.Tunnels.Load()) }),
	counter("sluice_tunnels_total", "Connections that became tunnels.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.Tunneled) }),
	counter("sluice_held_clients_gone_total", "Held requests whose client went away before they were sent.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.LeftHeld) }),
	counter("sluice_tunnel_received_bytes_total", "Bytes that went through tunnels from clients to servers. They are in sluice_client_received_bytes_total too.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.TunnelBytesIn) }),
	counter("sluice_tunnel_sent_bytes_total", "Bytes that went through tunnels from servers to clients. They are in sluice_client_sent_bytes_total too.", workerLabels,
		func(l *segment.LoopStats) float64 { return count(l.TunnelBytesOut) }),
}

// serverMetrics are the figures of one server, all workers together.
var serverMetrics = []metric[segment.ServerStats]{
	counter("sluice_server_requests_total", "Requests sent to the server, each try counted.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Requests) }),
	counter("sluice_server_failures_total", "Tries that ended without a whole, valid response of the server.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Failures) }),
	counter("sluice_server_retries_total", "Tries that were sent again, to this server or to another.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Retries) }),
	counter("sluice_server_connects_total", "Connections opened to the server.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Connects) }),
	counter("sluice_server_connect_failures_total", "Connections to the server that could not be opened.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.ConnectFails) }),
	counter("sluice_server_reused_connections_total", "Requests sent on a connection that was kept from an earlier one.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Reused) }),
	gauge("sluice_server_connections", "Connections to the server open now.", serverLabels,
		func(s *segment.ServerStats) float64 { return level(s.Open) }),
	gauge("sluice_server_idle_connections", "Connections to the server open now that no request uses.", serverLabels,
		func(s *segment.ServerStats) float64 { return level(s.Idle) }),
	gauge("sluice_server_active_requests", "Requests sent to the server and not yet answered in full.", serverLabels,
		func(s *segment.ServerStats) float64 { return level(s.InFlight) }),
	counter("sluice_server_received_bytes_total", "Bytes read from the server.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.BytesIn) }),
	counter("sluice_server_sent_bytes_total", "Bytes written to the server.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.BytesOut) }),
	counter("sluice_server_requests_local_total", "Requests sent to the server by workers of its own NUMA node, each try counted.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Crossings.Local) }),
	counter("sluice_server_requests_remote_total", "Requests sent to the server by workers of other nodes, each try counted.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Crossings.Remote) }),
	counter("sluice_server_requests_spilled_total", "Requests sent to the server because the servers of the worker's own node had no permit left. They are in sluice_server_requests_remote_total too.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Crossings.Spilled) }),
	counter("sluice_slow_permits_total", "Good permits of the server that were held longer than admission.target. They are in sluice_permits_total too.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Slow) }),
	counter("sluice_good_permit_seconds_total", "How long the good permits were held, all together. Its rate divided by that of sluice_permits_total{outcome=\"good\"} is the mean response time that the limit is made of.", serverLabels,
		func(s *segment.ServerStats) float64 { return count(s.Sum) / 1e9 }),
}

// processMetrics are what the supervisor and the kernel know of a worker.
var processMetrics = []metric[WorkerStatus]{
	gauge("sluice_worker_serving", "1 if the worker accepts and answers requests, 0 while it starts, drains or is dead.", workerLabels,
		func(w *WorkerStatus) float64 { return truth(w.State == segment.Serving.String()) }),
	gauge("sluice_worker_loops", "Event loops of the worker.", workerLabels,
		func(w *WorkerStatus) float64 { return float64(w.Loops) }),
	counter("sluice_worker_restarts_total", "Times that the worker died and was started again.", workerLabels,
		func(w *WorkerStatus) float64 { return float64(w.Restarts) }),
	gauge("sluice_worker_start_time_seconds", "Start of the worker's process, in seconds since 1970.", workerLabels,
		func(w *WorkerStatus) float64 { return float64(w.Started.UnixMilli()) / 1e3 }),
	counter("sluice_worker_cpu_seconds_total", "CPU time of the worker's process, user and system.", workerLabels,
		func(w *WorkerStatus) float64 { return w.Process.CPUSeconds }),
	gauge("sluice_worker_resident_memory_bytes", "Resident memory of the worker's process, shared pages included.", workerLabels,
		func(w *WorkerStatus) float64 { return float64(w.Process.MemoryBytes) }),
}

// roamMetrics are how loops left their worker's CPUs (workers.affinity: soft).
var roamMetrics = []metric[segment.WorkerStats]{
	counter("sluice_loops_let_out_total", "Times that a loop was allowed on CPUs of other workers, since its own were full and those idle.", workerLabels,
		func(s *segment.WorkerStats) float64 { return float64(s.LetOut.Load()) }),
	counter("sluice_loops_called_back_total", "Times that such a loop was called back to its worker's CPUs.", workerLabels,
		func(s *segment.WorkerStats) float64 { return float64(s.CalledBack.Load()) }),
	gauge("sluice_loops_away", "Loops that are allowed on CPUs of other workers now.", workerLabels,
		func(s *segment.WorkerStats) float64 { return float64(s.Away.Load()) }),
}

// What does not fit the tables.
var (
	descBuild = prometheus.NewDesc("sluice_build_info", "1, with the version of the running binary.", []string{"version"}, nil)
	descReady = prometheus.NewDesc("sluice_ready", "1 if every worker serves the configuration in force.", nil, nil)
	descGen   = prometheus.NewDesc("sluice_config_generation", "Configurations taken since the start; a reload adds 1.", nil, nil)

	descResponses = prometheus.NewDesc("sluice_responses_total",
		"Responses by class of status code. Code \"none\": the client went before one was sent.", append(workerLabels, "code"), nil)
	descRefused = prometheus.NewDesc("sluice_refused_requests_total",
		"Requests that Sluice itself answered with an error, by reason.", append(workerLabels, "reason"), nil)
	descDuration = prometheus.NewDesc("sluice_request_duration_seconds",
		"Time from a request's complete head to the response's last byte handed to the kernel.", workerLabels, nil)
	descResponse = prometheus.NewDesc("sluice_server_response_seconds",
		"Time from the request's last byte sent to the first byte of the server's response.", serverLabels, nil)
)

// collector turns the segment into metrics, anew at each scrape.
type collector struct{ view View }

// Describe sends every description, so that the registry can check the names.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descBuild, descReady, descGen, descResponses, descRefused, descDuration, descResponse, descMemory} {
		to <- d
	}
	describe(to, loopMetrics)
	describe(to, serverMetrics)
	describe(to, processMetrics)
	describe(to, roamMetrics)
	describeLimits(to)
	describeTLS(to)
}

// Collect reads every block once.
func (c collector) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(descBuild, prometheus.GaugeValue, 1, c.view.Build())
	to <- prometheus.MustNewConstMetric(descReady, prometheus.GaugeValue, truth(c.view.Ready()))
	to <- prometheus.MustNewConstMetric(descGen, prometheus.GaugeValue, float64(c.view.Generation()))
	for _, w := range c.view.Workers() {
		totals := c.view.Segment().Totals(w.Index)
		c.worker(to, w, &totals)
	}
	for key, totals := range serverTotals(c.view) {
		labels := []string{key.farm, key.url}
		collect(to, serverMetrics, totals, labels)
		to <- histogram(descResponse, &totals.Response, labels)
		collectPermits(to, totals, labels)
	}
	collectLimits(to, c.view.Admission())
	collectCertificates(to, c.view.Certificates())
}

func (c collector) worker(to chan<- prometheus.Metric, w WorkerView, totals *segment.LoopStats) {
	labels := []string{strconv.Itoa(w.Index), strconv.Itoa(w.Node)}
	process := newWorker(w, totals, rate{})
	collect(to, processMetrics, &process, labels)
	collect(to, loopMetrics, totals, labels)
	collect(to, roamMetrics, c.view.Segment().Worker(w.Index), labels)
	to <- histogram(descDuration, &totals.Duration, labels)
	collectHeld(to, totals, labels)
	collectTLS(to, totals, labels)
	memory, _ := memoryOf(w.PID) // what is unknown has no line
	collectMemory(to, w, memory, labels)
	for class, name := range classNames {
		to <- prometheus.MustNewConstMetric(descResponses, prometheus.CounterValue, count(totals.Status[class]), append(labels, name)...)
	}
	for reason, name := range segment.ReasonNames {
		to <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, count(totals.Refused[reason]), append(labels, name)...)
	}
}

// metric is one row: what it is called, and where its value stands in an S.
type metric[S any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*S) float64
}

func counter[S any](name, help string, labels []string, value func(*S) float64) metric[S] {
	return metric[S]{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue, value}
}

func gauge[S any](name, help string, labels []string, value func(*S) float64) metric[S] {
	return metric[S]{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue, value}
}

func describe[S any](to chan<- *prometheus.Desc, metrics []metric[S]) {
	for _, m := range metrics {
		to <- m.desc
	}
}

func collect[S any](to chan<- prometheus.Metric, metrics []metric[S], from *S, labels []string) {
	for _, m := range metrics {
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(from), labels...)
	}
}

// The buckets that scrapers see: a power of two of ns each, from 16 µs to 34 s.
// At these bounds the segment's finer buckets can be summed without an error.
const (
	firstBucketExp = 14
	lastBucketExp  = 35
)

// histogram sums the segment's buckets up to those of Prometheus.
func histogram(desc *prometheus.Desc, h *segment.Histogram, labels []string) prometheus.Metric {
	buckets := make(map[float64]uint64, lastBucketExp-firstBucketExp+1)
	for exp := firstBucketExp; exp <= lastBucketExp; exp++ {
		buckets[math.Ldexp(1e-9, exp)] = h.Below(1 << exp)
	}
	return prometheus.MustNewConstHistogram(desc, h.Count(), count(h.Sum)/1e9, buckets, labels...)
}

func count(c segment.Counter) float64 { return float64(c.Load()) }

func level(g segment.Gauge) float64 { return float64(g.Load()) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
