package tlsterm

import (
	"bytes"
	"crypto/tls"
	"testing"

	"sluice/internal/config"
	"sluice/internal/testkit"
)

func ticketKeys(names ...string) (keys [][]byte) {
	for _, n := range names {
		keys = append(keys, bytes.Repeat([]byte(n), 32))
	}
	return keys
}

// A session begun at one terminator goes on at another if that has the key, and asks
// clients for the same.
func TestSessionsGoOn(t *testing.T) {
	root, ours, theirs := testkit.NewAuthority(t, "root"), testkit.NewAuthority(t, "ours"), testkit.NewAuthority(t, "theirs")
	certificate := root.Issue(testkit.Wish{Names: []string{"a.example"}})
	ann := ours.Issue(testkit.Wish{Subject: "ann"})
	terminator := func(mode string, ca *testkit.Authority, tickets ...string) *tls.Config {
		keys := keysOf(certificate)
		if ca != nil {
			keys.Listeners[0].ClientCA = string(ca.PEM())
		}
		keys.Tickets = ticketKeys(tickets...)
		return newOne(t, listenerOf(t, func(l *config.Listener) { l.TLS.ClientAuth.Mode = mode }), keys).Config()
	}
	for _, test := range []struct {
		name          string
		first, second *tls.Config
		want          bool
	}{
		{"another worker", terminator("off", nil, "k"), terminator("off", nil, "k"), true},
		{"after a rotation", terminator("off", nil, "k"), terminator("off", nil, "n", "k"), true},
		{"a worker that has not heard of it", terminator("off", nil, "n", "k"), terminator("off", nil, "k", "n"), true},
		{"long after", terminator("off", nil, "k"), terminator("off", nil, "o", "n"), false},
		{"with a certificate", terminator("require", ours, "k"), terminator("require", ours, "k"), true},
		{"certificates are asked for now", terminator("off", nil, "k"), terminator("request", ours, "k"), false},
		{"certificates must be shown now", terminator("request", ours, "k"), terminator("require", ours, "k"), false},
		{"of another authority now", terminator("request", ours, "k"), terminator("request", theirs, "k"), false},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			client := &tls.Config{
				ServerName: "a.example", RootCAs: root.Pool(), MaxVersion: version, ClientSessionCache: tls.NewLRUClientSessionCache(1),
				GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
					c := &tls.Certificate{Certificate: [][]byte{ann.Leaf.Raw}, PrivateKey: ann.Private, Leaf: ann.Leaf}
					if r.SupportsCertificate(c) != nil {
						return new(tls.Certificate), nil
					}
					return c, nil
				},
			}
			if _, state, err := shake(t, test.first, client); err != nil || state.DidResume {
				t.Fatalf("%s: first: %v", test.name, err)
			}
			state, _, err := shake(t, test.second, client)
			if err != nil || state.DidResume != test.want {
				t.Errorf("%s, version %x: resumed %v, %v, want %v", test.name, version, state.DidResume, err, test.want)
			}
			if test.want && test.second.ClientAuth == tls.RequireAndVerifyClientCert && state.PeerCertificates[0].Subject.CommonName != "ann" {
				t.Errorf("%s: the session forgot its client", test.name)
			}
		}
	}
}
