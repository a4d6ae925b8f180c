package engine

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/plan"
)

// secure is the TLS configuration that all users begin from. ALPN offers the
// protocol of the plan and no other: the server shall not choose what is measured.
func secure(p *plan.Plan) (*tls.Config, error) {
	config := &tls.Config{
		InsecureSkipVerify: p.TLS.Insecure,
		ServerName:         p.TLS.Name,
		MinVersion:         p.TLS.Min,
		MaxVersion:         p.TLS.Max,
		CurvePreferences:   p.TLS.Curves,
		NextProtos:         []string{alpn[p.Protocol]},
	}
	if p.TLS.CA != "" {
		text, err := os.ReadFile(p.TLS.CA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: no certificate in it; it should be a file of PEM", p.TLS.CA)
		}
	}
	if p.TLS.Cert != "" {
		own, err := tls.LoadX509KeyPair(p.TLS.Cert, p.TLS.Key)
		if err != nil {
			return nil, fmt.Errorf("the client's certificate %s with key %s: %w", p.TLS.Cert, p.TLS.Key, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// alpn are the protocols' names in TLS (RFC 7301; RFC 9113, section 3.2; RFC 9114,
// section 3.1).
var alpn = [...]string{client.HTTP1: "http/1.1", client.HTTP2: "h2", client.HTTP3: "h3"}
