package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"reflect"
	"testing"

	"sluice/internal/config"
	"sluice/internal/proxyproto"
	"sluice/internal/reactor"
)

// client is a connection of a client, of which only this is asked.
type client struct {
	reactor.Stream
	here net.Addr
}

func (c client) LocalAddr() net.Addr { return c.here }

// secureClient is one that came by TLS.
type secureClient struct {
	client
	state tls.ConnectionState
}

func (c secureClient) ConnectionState() tls.ConnectionState { return c.state }

// What servers are told of clients of every kind.
func TestAnnounce(t *testing.T) {
	here := &net.TCPAddr{IP: net.ParseIP("10.0.0.1"), Port: 443}
	cert := &x509.Certificate{Subject: pkix.Name{CommonName: "somebody"}}
	secured := func(s tls.ConnectionState) reactor.Stream { return secureClient{client{here: here}, s} }
	peer, to := netip.MustParseAddrPort("203.0.113.7:4000"), netip.MustParseAddrPort("10.0.0.1:443")
	cipher := []byte("TLS_AES_128_GCM_SHA256")
	for _, test := range []struct {
		what    string
		version string
		client  reactor.Stream
		peer    netip.AddrPort
		name    string
		want    proxyproto.Header
	}{
		{"nobody", config.ProxyOff, client{here: here}, peer, "", proxyproto.Header{}},
		{"not set", "", client{here: here}, peer, "", proxyproto.Header{}},
		{"v1", config.ProxyV1, client{here: here}, peer, "a.test", proxyproto.Header{Version: 1, Source: peer, Destination: to}},
		{"v2", config.ProxyV2, client{here: here}, peer, "a.test", proxyproto.Header{Version: 2, Source: peer, Destination: to, Authority: []byte("a.test")}},
		{"over UDP", config.ProxyV1, client{here: &net.UDPAddr{IP: here.IP, Port: 443}}, peer, "", proxyproto.Header{Version: 1, Source: peer, Destination: to}},
		{"by a Unix socket", config.ProxyV2, client{here: &net.UnixAddr{Name: "/x"}}, netip.AddrPort{}, "", proxyproto.Header{Version: 2, Origin: proxyproto.Unknown}},
		{"not known", config.ProxyV2, client{here: here}, netip.AddrPort{}, "", proxyproto.Header{Version: 2, Origin: proxyproto.Unknown}},
		{"TLS, v1", config.ProxyV1, secured(tls.ConnectionState{Version: tls.VersionTLS13}), peer, "", proxyproto.Header{Version: 1, Source: peer, Destination: to}},
		{"TLS", config.ProxyV2, secured(tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, ServerName: "b.test", NegotiatedProtocol: "h2"}), peer, "",
			proxyproto.Header{Version: 2, Source: peer, Destination: to, Authority: []byte("b.test"), ALPN: []byte("h2"),
				TLS: proxyproto.TLS{On: true, Version: []byte("TLSv1.3"), Cipher: cipher}}},
		{"a certificate", config.ProxyV2, secured(tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256,
			PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}), peer, "",
			proxyproto.Header{Version: 2, Source: peer, Destination: to,
				TLS: proxyproto.TLS{On: true, Version: []byte("TLSv1.3"), Cipher: cipher, CertConn: true, CertSess: true, Verified: true, CommonName: []byte("somebody")}}},
		{"a certificate of the session", config.ProxyV2, secured(tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_AES_128_GCM_SHA256, DidResume: true,
			PeerCertificates: []*x509.Certificate{cert}}), peer, "",
			proxyproto.Header{Version: 2, Source: peer, Destination: to,
				TLS: proxyproto.TLS{On: true, Version: []byte("TLSv1.2"), Cipher: cipher, CertSess: true, CommonName: []byte("somebody")}}},
	} {
		f := &Farm{Farm: config.Farm{ProxyProtocol: test.version}}
		var got proxyproto.Header
		b := f.Announce(nil, test.client, test.peer, []byte(test.name))
		if f.Announces() != (len(b) > 0) {
			t.Errorf("%s: announces is %v, of %d bytes", test.what, f.Announces(), len(b))
		}
		if n, err := proxyproto.Parse(b, &got); len(b) > 0 && (n != len(b) || err != nil) {
			t.Errorf("%s: %q: %d, %v", test.what, b, n, err)
		}
		if len(b) > 0 && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: servers are told %+v, want %+v", test.what, got, test.want)
		}
	}
}
