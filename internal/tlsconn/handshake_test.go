package tlsconn

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/testkit"
)

// Why a handshake fails is told by a word, for whatever the client does.
func TestCauses(t *testing.T) {
	a := testkit.NewAuthority(t, "test authority")
	cert := certificate(a, "server.test")
	client := func(change func(c *tls.Config)) func(far *net.TCPConn) {
		c := &tls.Config{RootCAs: a.Pool(), ServerName: "server.test"}
		if change != nil {
			change(c)
		}
		return func(far *net.TCPConn) {
			peer := tls.Client(far, c)
			if peer.Handshake() == nil {
				peer.Read(make([]byte, 1))
			}
		}
	}
	says := func(text string) func(far *net.TCPConn) { return func(far *net.TCPConn) { far.Write([]byte(text)) } }
	for _, tc := range []struct {
		name   string
		server func(c *tls.Config)
		client func(far *net.TCPConn)
		want   segment.Shun
	}{
		{"HTTP", nil, says("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), segment.ShunHTTP},
		{"HTTP, in as few bytes as can tell", nil, says("POST "), segment.ShunHTTP},
		{"SSH", nil, says("SSH-2.0-OpenSSH\r\n"), segment.ShunNotTLS},
		{"SSLv2", nil, says("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"), segment.ShunNotTLS},
		{"application data first", nil, says("\x17\x03\x03\x00\x01x"), segment.ShunNotTLS},
		{"gone at once", nil, func(far *net.TCPConn) { far.Close() }, segment.ShunGone},
		{"gone in the middle", nil, func(far *net.TCPConn) { far.Write([]byte{22, 3, 1, 1}); far.Close() }, segment.ShunGone},
		{"reset", nil, func(far *net.TCPConn) { far.Write([]byte{22}); far.SetLinger(0); far.Close() }, segment.ShunGone},
		{"silent", nil, func(far *net.TCPConn) {}, segment.ShunTimeout},
		{"silent in the middle", nil, says("\x16\x03\x01\x01\x00half"), segment.ShunTimeout},
		{"too old", nil, client(func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), segment.ShunVersion},
		{"no curve in common", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP521} },
			client(func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519} }), segment.ShunParameters},
		{"no cipher in common", func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256} },
			client(func(c *tls.Config) {
				c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
			}), segment.ShunParameters},
		{"no protocol in common", func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} },
			client(func(c *tls.Config) { c.NextProtos = []string{"spdy/3"} }), segment.ShunProtocol},
		{"no client certificate", func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool() },
			client(nil), segment.ShunCertificate},
		{"a stranger's certificate", func(c *tls.Config) { c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool() },
			client(func(c *tls.Config) {
				stranger := certificate(testkit.NewAuthority(t, "stranger"), "client.test")
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }
			}), segment.ShunCertificate},
		{"the client does not trust us", nil, client(func(c *tls.Config) { c.ServerName = "other.test" }), segment.ShunRefused},
		{"nothing to show", func(c *tls.Config) { c.Certificates = nil; c.GetCertificate = nothing }, client(nil), segment.ShunName},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t)
			server := &tls.Config{Certificates: []tls.Certificate{cert}}
			if tc.server != nil {
				tc.server(server)
			}
			near, far := tcpPair(t)
			far.SetDeadline(time.Now().Add(patience))
			c := adopt(t, l, near)
			talked := make(chan struct{})
			go func() { defer close(talked); tc.client(far) }()
			inTask(t, l, func() {
				s := Server(c, server)
				wait := patience
				if tc.want == segment.ShunTimeout {
					wait = 50 * time.Millisecond
				}
				s.SetReadTimeout(wait)
				err := s.Handshake()
				if err == nil || CauseOf(err) != tc.want {
					t.Errorf("%v is %q, want %q", err, segment.ShunNames[CauseOf(err)], segment.ShunNames[tc.want])
				}
				if s.block != nil {
					t.Error("it holds a block after its end")
				}
				s.Linger(time.Second)
			})
			await(t, "the client ends", talked)
		})
	}
}

func nothing(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }

// A handshake that waits holds no block, however little the client has sent.
func TestSlowHandshakeHoldsNoBlock(t *testing.T) {
	l := startLoop(t)
	server, client := both(t, 0)
	near, far := tcpPair(t)
	far.SetDeadline(time.Now().Add(patience))
	s := Server(adopt(t, l, near), server)
	done := spawn(l, func() {
		if err := s.Handshake(); err != nil {
			t.Error(err)
		}
	})
	wire := &slow{TCPConn: far, each: func(sent int) {
		eventually(t, l, "the byte is put aside", func() bool { return s.block == nil && (len(s.aside) == sent || sent == 0) })
	}}
	peer := tls.Client(wire, client)
	if err := peer.Handshake(); err != nil {
		t.Fatal(err)
	}
	await(t, "the handshake ends", done)
	inTask(t, l, func() { s.Close() })
}

// slow sends its first write, the ClientHello, byte by byte.
type slow struct {
	*net.TCPConn
	each  func(sent int)
	begun bool
}

func (s *slow) Write(p []byte) (n int, err error) {
	if s.begun {
		return s.TCPConn.Write(p)
	}
	s.begun = true
	for i := range 20 {
		s.TCPConn.Write(p[i : i+1])
		s.each(i + 1)
	}
	n, err = s.TCPConn.Write(p[20:])
	return n + 20, err
}

// What the handshake has settled can be asked for.
func TestConnectionState(t *testing.T) {
	l := startLoop(t)
	server, client := both(t, 0)
	server.NextProtos, client.NextProtos = []string{"http/1.1"}, []string{"h2", "http/1.1"}
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for _, resumed := range []bool{false, true} {
		near, far := tcpPair(t)
		s := Server(adopt(t, l, near), server)
		peer := tls.Client(far, client)
		greet(t, l, s, peer, far)
		state := s.ConnectionState()
		if state.ServerName != "server.test" || state.NegotiatedProtocol != "http/1.1" || state.Version != tls.VersionTLS13 ||
			state.DidResume != resumed || state.CurveID != tls.X25519MLKEM768 {
			t.Errorf("resumed %v: %+v", resumed, state)
		}
		exchange(t, l, s, peer, 1) // the client reads its ticket
		inTask(t, l, func() { s.Close() })
	}
}

// A client's stream refuses a server that it cannot trust, and says why.
func TestClientRefuses(t *testing.T) {
	a := testkit.NewAuthority(t, "test authority")
	server := &tls.Config{Certificates: []tls.Certificate{certificate(a, "server.test")}}
	for _, tc := range []struct{ name, server, words string }{
		{"another name", "other.test", "server.test, not other.test"},
		{"no authority", "", "unknown authority"},
	} {
		l := startLoop(t)
		near, far := tcpPair(t)
		s := Client(adopt(t, l, near), &tls.Config{RootCAs: a.Pool(), ServerName: tc.server})
		if tc.server == "" {
			s = Client(s.sock.(*reactor.Buffered).Conn, &tls.Config{RootCAs: testkit.NewAuthority(t, "stranger").Pool(), ServerName: "server.test"})
		}
		far.SetDeadline(time.Now().Add(patience))
		told := make(chan error, 1)
		go func() { told <- tls.Server(far, server).Handshake() }()
		inTask(t, l, func() {
			err := s.Handshake()
			if err == nil || CauseOf(err) != segment.ShunCertificate || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("%s: %v", tc.name, err)
			}
			s.Linger(time.Second)
		})
		if err := await(t, "the server ends", told); err == nil || CauseOf(err) != segment.ShunRefused {
			t.Errorf("%s: the server hears %v", tc.name, err)
		}
	}
}
