package upstream

import (
	"crypto/tls"
	"net/netip"

	"sluice/internal/config"
	"sluice/internal/proxyproto"
	"sluice/internal/reactor"
)

// Announces reports whether servers of the farm are told by a PROXY header whose
// connection it is: one to them serves one client only, since the header holds for all
// that is sent on it.
func (f *Farm) Announces() bool {
	return f.ProxyProtocol == config.ProxyV1 || f.ProxyProtocol == config.ProxyV2
}

// Announce adds to dst the PROXY header of a connection to a server for this client,
// which is at peer and, if name is not empty, has asked for that host. It adds nothing
// if the farm's servers are told nothing.
func (f *Farm) Announce(dst []byte, client reactor.Stream, peer netip.AddrPort, name []byte) []byte {
	if !f.Announces() {
		return dst
	}
	h := proxyproto.Header{Version: 1, Source: peer, Authority: name}
	if at, ok := client.LocalAddr().(interface{ AddrPort() netip.AddrPort }); ok { // TCP's and UDP's have it
		here := at.AddrPort()
		h.Destination = netip.AddrPortFrom(here.Addr().Unmap(), here.Port())
	}
	if f.ProxyProtocol == config.ProxyV2 {
		h.Version = 2
		if secured, ok := client.(interface{ ConnectionState() tls.ConnectionState }); ok {
			describe(&h, secured.ConnectionState())
		}
	}
	return proxyproto.Append(dst, &h)
}

// describe adds what is known of a client's TLS, in the names that the protocols use
// themselves.
func describe(h *proxyproto.Header, s tls.ConnectionState) {
	h.ALPN = []byte(s.NegotiatedProtocol)
	if len(h.Authority) == 0 {
		h.Authority = []byte(s.ServerName)
	}
	h.TLS = proxyproto.TLS{
		On: true, Cipher: []byte(tls.CipherSuiteName(s.CipherSuite)),
		Version: map[uint16][]byte{tls.VersionTLS12: []byte("TLSv1.2"), tls.VersionTLS13: []byte("TLSv1.3")}[s.Version],
	}
	if len(s.PeerCertificates) > 0 {
		h.TLS.CertConn, h.TLS.CertSess = !s.DidResume, true
		h.TLS.Verified = len(s.VerifiedChains) > 0
		h.TLS.CommonName = []byte(s.PeerCertificates[0].Subject.CommonName)
	}
}
