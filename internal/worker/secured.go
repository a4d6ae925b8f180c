package worker

import (
	"bytes"
	"crypto/tls"
	"crypto/x509/pkix"
	"strconv"

	"sluice/internal/accesslog"
	"sluice/internal/proxy"
	"sluice/internal/proxyproto"
	"sluice/internal/tlsterm"
)

// securedHere is what a handshake has settled.
func securedHere(state *tls.ConnectionState) *proxy.Secured {
	facts := tlsterm.FactsOf(state)
	s := &proxy.Secured{TLS: accesslog.TLS{
		Version: facts.Version(), Cipher: facts.Cipher(), Group: facts.Curve(),
		SNI: facts.ServerName(), ALPN: facts.Protocol(), Resumed: facts.Resumed(),
	}}
	if client := facts.Client(); client != nil {
		s.Cert = []byte(client.Base64())
		s.TLS.Subject, s.TLS.Fingerprint = client.Subject(), client.Fingerprint()
	}
	return s
}

// securedBefore is what a PROXY header tells of TLS that has ended before us; nil: it
// tells of none. The header's bytes are copied.
func securedBefore(h *proxyproto.Header) *proxy.Secured {
	if h.Origin == proxyproto.Local || !h.TLS.On {
		return nil
	}
	s := &proxy.Secured{TLS: accesslog.TLS{
		Version: string(h.TLS.Version), Cipher: string(h.TLS.Cipher),
		SNI: string(bytes.ToLower(h.Authority)), ALPN: string(h.ALPN), Told: true,
	}}
	if h.TLS.Verified && len(h.TLS.CommonName) > 0 {
		s.TLS.Subject = pkix.Name{CommonName: string(h.TLS.CommonName)}.String()
	}
	if h.Destination.IsValid() {
		s.Port = strconv.AppendUint(nil, uint64(h.Destination.Port()), 10)
	}
	return s
}
