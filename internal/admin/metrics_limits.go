package admin

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/segment"
)

// gateMetrics are about every gate, also one that lets everything through.
var gateMetrics = []metric[LimitView]{
	gauge("sluice_in_flight", "Permits claimed: requests that the server has now, as its limit counts them.", serverLabels,
		func(l *LimitView) float64 { return float64(l.InFlight) }),
	gauge("sluice_queue_length", "Held requests that may go to the server now. One that may go to several servers counts for each; sluice_held_requests counts it once.", serverLabels,
		func(l *LimitView) float64 { return float64(l.Waiting) }),
}

// limitMetrics are about servers that have a limit. One with limit: off has none
// of these.
var limitMetrics = []metric[LimitView]{
	gauge("sluice_limit", "Requests that the server may have at once, in force now.", serverLabels,
		func(l *LimitView) float64 { return float64(l.Limit) }),
	gauge("sluice_limit_centre", "The limit without its dither: the controller's opinion.", serverLabels,
		func(l *LimitView) float64 { return l.Centre }),
	gauge("sluice_throughput", "Good responses of the server per second, smoothed over two seconds.", serverLabels,
		func(l *LimitView) float64 { return l.Throughput }),
}

// learnedMetrics are about servers whose limit is learned.
var learnedMetrics = []metric[LimitView]{
	gauge("sluice_elasticity", "Per cent more throughput that one per cent more requests at once would bring. 0 if sluice_limit_evidence is 0.", serverLabels,
		func(l *LimitView) float64 { return l.Elasticity }),
	gauge("sluice_limit_evidence", "1 divided by the variance of sluice_elasticity. 0: nothing is known.", serverLabels,
		func(l *LimitView) float64 { return l.Evidence }),
}

// What does not fit the tables.
var (
	descMoves = prometheus.NewDesc("sluice_limit_moves_total",
		"Moves of the limit, by reason.", append(serverLabels, "reason"), nil)
	descReason = prometheus.NewDesc("sluice_limit_reason",
		"1, with the reason of the limit's last move; \"none\" before the first.", append(serverLabels, "reason"), nil)
	descPermits = prometheus.NewDesc("sluice_permits_total",
		"Permits of the server that were given back, by outcome: good, ignored (nothing to be learned), failed.", append(serverLabels, "outcome"), nil)
	descWait = prometheus.NewDesc("sluice_queue_wait_seconds",
		"Time that requests were held which then went to the server. Those that went at once are not in it.", serverLabels, nil)
	descHeld = prometheus.NewDesc("sluice_held_seconds",
		"Time that requests were held, however it ended. Those that went at once are not in it.", workerLabels, nil)
	descShed = prometheus.NewDesc("sluice_shed_connections_total",
		"Connections refused at once because Sluice itself had too much to do, by what it was short of.", append(workerLabels, "cause"), nil)
	descAbuses = prometheus.NewDesc("sluice_http2_abuses_total",
		"Abuses of HTTP/2 connections that were stopped, by class.", append(workerLabels, "class"), nil)
	descProxyHeaders = prometheus.NewDesc("sluice_proxy_headers_total",
		"Connections to listeners with proxy_protocol, by what came of their PROXY header: taken, or refused as untrusted (not from trust), invalid or missing.", append(workerLabels, "result"), nil)
	descTunnelEnds = prometheus.NewDesc("sluice_tunnel_ends_total",
		"Tunnels that are over, and connections that came to none (refused), by how it ended.", append(workerLabels, "end"), nil)
	descLeaks = prometheus.NewDesc("sluice_admission_leaks_total",
		"Permits that belonged to nobody and were given back by the supervisor. Not 0: a fault in Sluice, or a worker killed in the wrong instant.", nil, nil)
	descStranded = prometheus.NewDesc("sluice_admission_stranded_total",
		"Times that requests waited for a server that had permits free. Not 0: a fault in Sluice.", nil, nil)
)

// describeLimits sends the descriptions of what collectLimits and its kin send.
func describeLimits(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descMoves, descReason, descPermits, descWait, descHeld, descShed, descAbuses, descProxyHeaders, descTunnelEnds, descLeaks, descStranded} {
		to <- d
	}
	describe(to, gateMetrics)
	describe(to, limitMetrics)
	describe(to, learnedMetrics)
}

// collectLimits sends what the supervisor decided.
func collectLimits(to chan<- prometheus.Metric, all AdmissionView) {
	to <- prometheus.MustNewConstMetric(descLeaks, prometheus.CounterValue, float64(all.Leaks))
	to <- prometheus.MustNewConstMetric(descStranded, prometheus.CounterValue, float64(all.Stranded))
	for i := range all.Servers {
		one := &all.Servers[i]
		labels := []string{one.Farm, one.URL}
		collect(to, gateMetrics, one, labels)
		if one.Kind == kindOff {
			continue
		}
		collect(to, limitMetrics, one, labels)
		if one.Kind != kindFixed {
			collect(to, learnedMetrics, one, labels)
		}
		for reason, n := range one.Moves {
			to <- prometheus.MustNewConstMetric(descMoves, prometheus.CounterValue, float64(n), append(labels, reason)...)
		}
		to <- prometheus.MustNewConstMetric(descReason, prometheus.GaugeValue, 1, append(labels, cmp.Or(one.Reason, "none"))...)
	}
}

// collectPermits sends what the workers counted at a server's gate.
func collectPermits(to chan<- prometheus.Metric, t *segment.ServerStats, labels []string) {
	to <- histogram(descWait, &t.Wait, labels)
	for outcome, n := range map[string]segment.Counter{"good": t.Good, "ignored": t.Ignored, "failed": t.Failed} {
		to <- prometheus.MustNewConstMetric(descPermits, prometheus.CounterValue, count(n), append(labels, outcome)...)
	}
}

// collectHeld sends what a worker counted of requests held and connections refused.
func collectHeld(to chan<- prometheus.Metric, t *segment.LoopStats, labels []string) {
	to <- histogram(descHeld, &t.Wait, labels)
	for cause, name := range segment.ShedNames {
		to <- prometheus.MustNewConstMetric(descShed, prometheus.CounterValue, count(t.Shed[cause]), append(labels, name)...)
	}
	for class, name := range segment.AbuseNames {
		to <- prometheus.MustNewConstMetric(descAbuses, prometheus.CounterValue, count(t.Abuses[class]), append(labels, name)...)
	}
	for result, name := range segment.ProxyHeaderNames {
		to <- prometheus.MustNewConstMetric(descProxyHeaders, prometheus.CounterValue, count(t.ProxyHeaders[result]), append(labels, name)...)
	}
	for end, name := range segment.TunnelEndNames {
		to <- prometheus.MustNewConstMetric(descTunnelEnds, prometheus.CounterValue, count(t.TunnelEnds[end]), append(labels, name)...)
	}
}
