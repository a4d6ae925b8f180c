package tlsterm

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/testkit"
)

// listenerOf is a listener with TLS and all defaults, changed.
func listenerOf(t *testing.T, change func(*config.Listener)) *config.Config {
	t.Helper()
	const text = `
listeners: [{address: ":1", tls: {certificates: [a.pem]}}]
farms: {app: {servers: [{url: "http://a:1"}]}}`
	cfg, err := config.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg.Listeners[0])
	}
	return cfg
}

// keysOf gives the first listener these certificates.
func keysOf(issued ...testkit.Issued) *spec.Keys {
	keys := &spec.Keys{Listeners: make([]spec.ListenerKeys, 1)}
	for i, c := range issued {
		keys.Certificates = append(keys.Certificates, spec.Certificate{Chain: string(c.Chain), Key: string(c.Key)})
		keys.Listeners[0].Certificates = append(keys.Listeners[0].Certificates, i)
	}
	return keys
}

func newOne(t *testing.T, cfg *config.Config, keys *spec.Keys) *Terminator {
	t.Helper()
	all, err := new(Maker).New(cfg, keys, "http/1.1", "h2")
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// shake has a client and a terminator shake hands, and gives what each saw. It goes over a
// socket: two that both write would wait for each other on a net.Pipe.
func shake(t *testing.T, server, client *tls.Config) (atServer, atClient tls.ConnectionState, err error) {
	t.Helper()
	near, far := connect(t)
	defer near.Close()
	s := tls.Server(far, server)
	done := make(chan error, 1)
	go func() {
		defer far.Close()
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("hello")) // tickets of TLS 1.3 come before it
		}
		done <- err
		io.Copy(io.Discard, far) // to the end: to close with bytes unread would take back what was said
	}()
	c := tls.Client(near, client)
	if err = c.Handshake(); err == nil {
		_, err = c.Read(make([]byte, 5))
	}
	atClient = c.ConnectionState()
	if serverErr := <-done; err == nil {
		err = serverErr
	}
	return s.ConnectionState(), atClient, err
}

// connect makes a connection over the loopback.
func connect(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return near, far
}

// Which certificate a client gets, by the name that it asks for and what it understands.
func TestChoice(t *testing.T) {
	a := testkit.NewAuthority(t, "root")
	certificates := map[string]testkit.Issued{
		"rsa":      a.Issue(testkit.Wish{Names: []string{"site.example", "www.site.example"}, RSA: true}),
		"ecdsa":    a.Issue(testkit.Wish{Names: []string{"site.example", "www.site.example"}}),
		"wildcard": a.Issue(testkit.Wish{Names: []string{"*.site.example"}}),
		"other":    a.Issue(testkit.Wish{Names: []string{"Other.Example"}}),
		"wild rsa": a.Issue(testkit.Wish{Names: []string{"*.rsa.example"}, RSA: true}),
	}
	order := []string{"rsa", "ecdsa", "wildcard", "other", "wild rsa"}
	var issued []testkit.Issued
	for _, name := range order {
		issued = append(issued, certificates[name])
	}
	server := newOne(t, listenerOf(t, nil), keysOf(issued...)).Config()
	onlyRSA := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	for _, test := range []struct {
		name    string
		sni     string
		ciphers []uint16 // not nil: a client of TLS 1.2 with these
		want    string
	}{
		{"exact", "other.example", nil, "other"},
		{"exact, in capitals", "OTHER.example", nil, "other"},
		{"elliptic curves before RSA", "site.example", nil, "ecdsa"},
		{"exact before wildcard", "www.site.example", nil, "ecdsa"},
		{"RSA for who knows nothing else", "www.site.example", onlyRSA, "rsa"},
		{"wildcard", "a.site.example", nil, "wildcard"},
		{"a wildcard covers one label", "a.b.site.example", nil, "ecdsa"},
		{"wildcard for who knows only RSA", "a.rsa.example", onlyRSA, "wild rsa"},
		{"no name", "", nil, "ecdsa"},
		{"no name, only RSA", "", onlyRSA, "rsa"},
		{"a name of nobody", "nobody.example", nil, "ecdsa"},
		{"a name of nobody, only RSA", "nobody.example", onlyRSA, "rsa"},
		{"a name of one label", "localhost", nil, "ecdsa"},
	} {
		client := &tls.Config{ServerName: test.sni, InsecureSkipVerify: true}
		if test.ciphers != nil {
			client.MaxVersion, client.CipherSuites = tls.VersionTLS12, test.ciphers
		}
		_, got, err := shake(t, server, client)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if !got.PeerCertificates[0].Equal(certificates[test.want].Leaf) {
			t.Errorf("%s: got %v, want %s", test.name, got.PeerCertificates[0].DNSNames, test.want)
		}
	}
	client := &tls.Config{ServerName: "other.example", InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: onlyRSA}
	if _, got, err := shake(t, server, client); err != nil || !got.PeerCertificates[0].Equal(certificates["rsa"].Leaf) {
		t.Errorf("a client that knows only RSA asks for a site that has none: %v, want the first that it can use", err)
	}
}

// What is on offer, against clients that ask for one thing each.
func TestOffer(t *testing.T) {
	a := testkit.NewAuthority(t, "root")
	keys := keysOf(a.Issue(testkit.Wish{Names: []string{"a.example"}}), a.Issue(testkit.Wish{Names: []string{"a.example"}, RSA: true}))
	for _, test := range []struct {
		name   string
		change func(*config.Listener)
		client *tls.Config
		want   string // part of the error; empty: success
		holds  func(tls.ConnectionState) bool
	}{
		{"the newest of all", nil, &tls.Config{}, "", func(s tls.ConnectionState) bool {
			return s.Version == tls.VersionTLS13 && s.CurveID == tls.X25519MLKEM768
		}},
		{"TLS 1.2", nil, &tls.Config{MaxVersion: tls.VersionTLS12}, "", func(s tls.ConnectionState) bool {
			return s.Version == tls.VersionTLS12 && s.CipherSuite == tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
		}},
		{"TLS 1.1", nil, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, "version", nil},
		{"TLS 1.2 where 1.3 is the least", func(l *config.Listener) { l.TLS.MinVersion = "1.3" }, &tls.Config{MaxVersion: tls.VersionTLS12}, "version", nil},
		{"a cipher with CBC", nil, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}}, "handshake failure", nil},
		{"a cipher without forward secrecy", nil, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}}, "handshake failure", nil},
		{"a curve that is not on offer", nil, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP521}}, "handshake failure", nil},
		{"a curve that is", func(l *config.Listener) { l.TLS.Curves = []string{"P-521"} }, &tls.Config{CurvePreferences: []tls.CurveID{tls.CurveP521}}, "", func(s tls.ConnectionState) bool {
			return s.CurveID == tls.CurveP521
		}},
		{"ALPN: HTTP/2 first", nil, &tls.Config{NextProtos: []string{"http/1.1", "h2"}}, "", func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "h2" }},
		{"ALPN: HTTP/1.1", nil, &tls.Config{NextProtos: []string{"http/1.1"}}, "", func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "http/1.1" }},
		{"ALPN: nothing", nil, &tls.Config{}, "", func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "" }},
		{"ALPN: what nobody speaks", nil, &tls.Config{NextProtos: []string{"smtp"}}, "no application protocol", nil},
		{"ALPN: not allowed here", func(l *config.Listener) { l.Protocols = []string{"http1"} }, &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, "", func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "http/1.1" }},
	} {
		test.client.InsecureSkipVerify, test.client.ServerName = true, "a.example"
		_, got, err := shake(t, newOne(t, listenerOf(t, test.change), keys).Config(), test.client)
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		case err == nil && !test.holds(got):
			t.Errorf("%s: version %x, cipher %x, curve %v, protocol %q", test.name, got.Version, got.CipherSuite, got.CurveID, got.NegotiatedProtocol)
		}
	}
}

// Every word that the configuration takes means something here.
func TestWords(t *testing.T) {
	a := testkit.NewAuthority(t, "root")
	keys := keysOf(a.Issue(testkit.Wish{Names: []string{"a.example"}}))
	for _, curve := range []string{"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "X25519", "P-256", "P-384", "P-521"} {
		cfg := listenerOf(t, func(l *config.Listener) { l.TLS.Curves = []string{curve} })
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		client := &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{curveIDs[curve]}}
		if _, got, err := shake(t, newOne(t, cfg, keys).Config(), client); err != nil || got.CurveID != curveIDs[curve] || got.CurveID == 0 {
			t.Errorf("%s: %v, %v", curve, got.CurveID, err)
		}
	}
}

func TestClientCertificates(t *testing.T) {
	a, ours, theirs := testkit.NewAuthority(t, "root"), testkit.NewAuthority(t, "ours"), testkit.NewAuthority(t, "theirs")
	keys := keysOf(a.Issue(testkit.Wish{Names: []string{"a.example"}}))
	keys.Listeners[0].ClientCA = string(ours.PEM())
	certificate := func(i testkit.Issued) []tls.Certificate {
		return []tls.Certificate{{Certificate: [][]byte{i.Leaf.Raw}, PrivateKey: i.Private, Leaf: i.Leaf}}
	}
	good, forged := certificate(ours.Issue(testkit.Wish{Subject: "ann"})), certificate(theirs.Issue(testkit.Wish{Subject: "ann"}))
	for _, test := range []struct {
		mode  string
		shows []tls.Certificate
		want  string // the client's name; "-" none, "!" refused
	}{
		{"off", good, "-"}, {"off", nil, "-"},
		{"request", good, "ann"}, {"request", nil, "-"}, {"request", forged, "!"},
		{"require", good, "ann"}, {"require", nil, "!"}, {"require", forged, "!"},
	} {
		cfg := listenerOf(t, func(l *config.Listener) { l.TLS.ClientAuth = config.ClientAuth{Mode: test.mode, CA: "ca.pem"} })
		client := &tls.Config{InsecureSkipVerify: true, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if test.shows == nil {
				return new(tls.Certificate), nil
			}
			return &test.shows[0], nil
		}}
		state, _, err := shake(t, newOne(t, cfg, keys).Config(), client)
		got := "-"
		switch {
		case err != nil:
			got = "!"
		case len(state.PeerCertificates) > 0:
			got = state.PeerCertificates[0].Subject.CommonName
		}
		if got != test.want {
			t.Errorf("%s, client shows %v: %s (%v), want %s", test.mode, test.shows != nil, got, err, test.want)
		}
	}
}

// One terminator for each listener, from certificates that may serve several.
func TestListeners(t *testing.T) {
	a := testkit.NewAuthority(t, "root")
	first, second := a.Issue(testkit.Wish{Names: []string{"one.example"}}), a.Issue(testkit.Wish{Names: []string{"two.example"}})
	cfg := listenerOf(t, nil)
	tlsOf := func(handshakes int) config.Listener {
		l := cfg.Listeners[0]
		changed := *l.TLS
		changed.Handshakes = handshakes
		l.TLS = &changed
		return l
	}
	cfg.Listeners = []config.Listener{tlsOf(7), {Name: "plain"}, tlsOf(8)}
	keys := keysOf(first, second)
	keys.Listeners = []spec.ListenerKeys{{Certificates: []int{1}}, {}, {Certificates: []int{0, 1}}}
	all, err := new(Maker).New(cfg, keys, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || all[1] != nil || all[0].Handshakes() != 7 || all[2].Handshakes() != 8 || all[0].Handshake().Seconds() != 10 {
		t.Fatalf("%+v", all)
	}
	for i, want := range map[int]*x509.Certificate{0: second.Leaf, 2: first.Leaf} {
		if _, got, err := shake(t, all[i].Config(), &tls.Config{InsecureSkipVerify: true}); err != nil || !got.PeerCertificates[0].Equal(want) {
			t.Errorf("listener %d: %v", i, err)
		}
	}
	if got := all[0].Config().NextProtos; !slices.Equal(got, []string{"http/1.1"}) {
		t.Errorf("offered %v, and only HTTP/1.1 is served", got)
	}
}

// What did not come whole is refused, and named.
func TestFaultyKeys(t *testing.T) {
	good := testkit.NewAuthority(t, "root").Issue(testkit.Wish{Names: []string{"a.example"}})
	require := listenerOf(t, func(l *config.Listener) { l.TLS.ClientAuth.Mode = "require" })
	outOf := keysOf(good)
	outOf.Listeners[0].Certificates[0] = 1
	more := keysOf(good)
	more.Listeners = append(more.Listeners, spec.ListenerKeys{})
	noKey := good
	noKey.Key = nil
	for want, test := range map[string]struct {
		cfg  *config.Config
		keys *spec.Keys
	}{
		"listener :1: its certificates have not come":        {listenerOf(t, nil), nil},
		"listener :1: certificate 1 of 1":                    {listenerOf(t, nil), outOf},
		"certificate 0: tls: failed to find any PEM data":    {listenerOf(t, nil), keysOf(noKey)},
		"listener :1: client_auth.ca holds no certificate":   {require, keysOf(good)},
		"listener :1: its certificates have not come, twice": {listenerOf(t, nil), more},
	} {
		want = strings.TrimSuffix(want, ", twice")
		if _, err := new(Maker).New(test.cfg, test.keys); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A client that asks whether the certificate is good is shown what has come with it.
func TestStaple(t *testing.T) {
	a := testkit.NewAuthority(t, "root")
	one, two := a.Issue(testkit.Wish{Names: []string{"one.example"}}), a.Issue(testkit.Wish{Names: []string{"two.example"}})
	keys := keysOf(one, two)
	keys.Certificates[1].Staple = []byte("good")
	server := newOne(t, listenerOf(t, nil), keys).Config()
	for name, want := range map[string]string{"one.example": "", "two.example": "good"} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			_, got, err := shake(t, server, &tls.Config{ServerName: name, RootCAs: a.Pool(), MaxVersion: version})
			if err != nil || string(got.OCSPResponse) != want {
				t.Errorf("%s: %q, %v", name, got.OCSPResponse, err)
			}
		}
	}
}

// Who comes to prove a name sees the certificate made for that, also where clients must
// show one, and nobody else does.
func TestProofs(t *testing.T) {
	a := testkit.NewAuthority(t, "root")
	usual, proof := a.Issue(testkit.Wish{Names: []string{"a.example"}}), a.Issue(testkit.Wish{Names: []string{"a.example"}})
	keys := keysOf(usual)
	keys.Listeners[0].ClientCA = string(a.PEM())
	keys.Challenges = []spec.Challenge{{Name: "a.example", Certificate: spec.Certificate{Chain: string(proof.Chain), Key: string(proof.Key)}}}
	open := newOne(t, listenerOf(t, nil), keys).Config()
	closed := newOne(t, listenerOf(t, func(l *config.Listener) { l.TLS.ClientAuth.Mode = "require" }), keys).Config()
	keys.Challenges = nil
	without := newOne(t, listenerOf(t, nil), keys).Config()
	for _, test := range []struct {
		name   string
		server *tls.Config
		sni    string
		offers []string
		want   *testkit.Issued // nil: the handshake fails
	}{
		{"an authority", open, "A.example", []string{Proof}, &proof},
		{"an authority, where clients show certificates", closed, "a.example", []string{Proof}, &proof},
		{"an authority that asks for another name", open, "b.example", []string{Proof}, nil},
		{"a client", open, "a.example", []string{"h2", "http/1.1"}, &usual},
		{"a client that offers it among others", open, "a.example", []string{"http/1.1", Proof}, &usual},
		{"a client that offers nothing", open, "a.example", nil, &usual},
		{"an authority, and there is no proof", without, "a.example", []string{Proof}, nil},
	} {
		_, got, err := shake(t, test.server, &tls.Config{ServerName: test.sni, NextProtos: test.offers, InsecureSkipVerify: true})
		switch {
		case test.want == nil && err == nil, test.want != nil && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case err == nil && !got.PeerCertificates[0].Equal(test.want.Leaf):
			t.Errorf("%s: another certificate", test.name)
		case err == nil && (got.NegotiatedProtocol == Proof) != (test.want == &proof):
			t.Errorf("%s: protocol %q", test.name, got.NegotiatedProtocol)
		}
	}
}

// A listener whose certificates have been asked for, and have not come, refuses clients.
func TestNoCertificateYet(t *testing.T) {
	keys := &spec.Keys{Listeners: make([]spec.ListenerKeys, 1)}
	if _, _, err := shake(t, newOne(t, listenerOf(t, nil), keys).Config(), &tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("a handshake without a certificate")
	}
}

// What stays is parsed once: a hundred renewals of one certificate among many do not keep a
// hundred copies of the others for connections that are open.
func TestMakerKeepsWhatStays(t *testing.T) {
	a := testkit.NewAuthority(t, "root")
	stays, first, second := a.Issue(testkit.Wish{Names: []string{"a.example"}}), a.Issue(testkit.Wish{Names: []string{"b.example"}}), a.Issue(testkit.Wish{Names: []string{"b.example"}})
	var m Maker
	certificates := func(keys *spec.Keys) (a, b *tls.Certificate) {
		t.Helper()
		all, err := m.New(listenerOf(t, nil), keys, "h2")
		if err != nil {
			t.Fatal(err)
		}
		get := func(name string) *tls.Certificate {
			c, err := all[0].Config().GetCertificate(&tls.ClientHelloInfo{
				ServerName: name, SupportedVersions: []uint16{tls.VersionTLS13},
				SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.X25519},
			})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		return get("a.example"), get("b.example")
	}
	a1, b1 := certificates(keysOf(stays, first))
	a2, b2 := certificates(keysOf(stays, second))
	if a1 != a2 || b1 == b2 || !b2.Leaf.Equal(second.Leaf) {
		t.Error("what stays is another, or what changes is the same")
	}
	stapled := keysOf(stays, second)
	stapled.Certificates[0].Staple = []byte("good")
	if a3, b3 := certificates(stapled); a3 == a2 || string(a3.OCSPStaple) != "good" || a2.OCSPStaple != nil || b3 != b2 {
		t.Error("a staple came to an old certificate, or none to the new")
	}
}
