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
	descExpiry = prometheus.NewDesc("sluice_certificate_expiry_timestamp_seconds",
		"End of a certificate's life, in seconds since 1970.", []string{"file"}, nil)
	descCertificates = prometheus.NewDesc("sluice_certificate_changes_total",
		"Times that files of certificates had changed, by outcome: taken, or refused since something is wrong with them. The log says what.", []string{"outcome"}, nil)
)

var descHTTP3Events = prometheus.NewDesc("sluice_http3_events_total",
	"What HTTP/3 met with: addresses of clients that were verified first, connections that were refused, requests that clients reset or that were malformed, streams of whose answer a client takes too little, connections of clients that do too much which leads to nothing.", append(workerLabels, "class"), nil)

var descOrders = prometheus.NewDesc("sluice_certificate_orders_total",
	"Times that certificates were asked for by ACME, by outcome: issued, or failed. The log says why.", []string{"outcome"}, nil)

// describeTLS sends the descriptions of what collectTLS sends.
func describeTLS(to chan<- *prometheus.Desc) {
	to <- descHandshakes
	to <- descHTTP3Events
	to <- descShunned
	to <- descExpiry
	to <- descCertificates
	to <- descOrders
}

// collectCertificates sends what the supervisor knows of certificates.
func collectCertificates(to chan<- prometheus.Metric, view CertificatesView) {
	for _, c := range view.All {
		to <- prometheus.MustNewConstMetric(descExpiry, prometheus.GaugeValue, float64(c.Expires.Unix()), c.File)
	}
	to <- prometheus.MustNewConstMetric(descCertificates, prometheus.CounterValue, float64(view.Taken), "taken")
	to <- prometheus.MustNewConstMetric(descCertificates, prometheus.CounterValue, float64(view.Refused), "refused")
	to <- prometheus.MustNewConstMetric(descOrders, prometheus.CounterValue, float64(view.Issued), "issued")
	to <- prometheus.MustNewConstMetric(descOrders, prometheus.CounterValue, float64(view.Failed), "failed")
}

// collectTLS sends how clients' TLS handshakes ended.
func collectTLS(to chan<- prometheus.Metric, totals *segment.LoopStats, labels []string) {
	for event, name := range segment.HTTP3EventNames {
		to <- prometheus.MustNewConstMetric(descHTTP3Events, prometheus.CounterValue, count(totals.HTTP3Events[event]), append(labels, name)...)
	}
	for version, name := range segment.TLSNames {
		to <- prometheus.MustNewConstMetric(descHandshakes, prometheus.CounterValue, count(totals.Handshakes[version]), append(labels, name)...)
	}
	for cause, name := range segment.ShunNames {
		to <- prometheus.MustNewConstMetric(descShunned, prometheus.CounterValue, count(totals.Shunned[cause]), append(labels, name)...)
	}
}
