package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/segment"
)

var (
	descHandshakes = prometheus.NewDesc("sluice_tls_handshakes_total",
		"TLS handshakes with clients, by version of TLS.", append(workerLabels, "version"), nil)
	descShunned = prometheus.NewDesc("sluice_tls_handshake_failures_total",
		"TLS handshakes with clients that failed, by cause.", append(workerLabels, "cause"), nil)
)

// describeTLS sends the descriptions of what collectTLS sends.
func describeTLS(to chan<- *prometheus.Desc) {
	to <- descHandshakes
	to <- descShunned
}

// collectTLS sends how clients' TLS handshakes ended.
func collectTLS(to chan<- prometheus.Metric, totals *segment.LoopStats, labels []string) {
	for version, name := range segment.TLSNames {
		to <- prometheus.MustNewConstMetric(descHandshakes, prometheus.CounterValue, count(totals.Handshakes[version]), append(labels, name)...)
	}
	for cause, name := range segment.ShunNames {
		to <- prometheus.MustNewConstMetric(descShunned, prometheus.CounterValue, count(totals.Shunned[cause]), append(labels, name)...)
	}
}
