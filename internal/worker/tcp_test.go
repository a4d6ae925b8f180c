package worker

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/proxyproto"
	"sluice/internal/segment"
	"sluice/internal/testkit"
)

// rawServer is a server of no protocol: it says its name, then gives back what it
// gets. With headers each connection begins with a PROXY header, which it tells.
type rawServer struct {
	url     string
	headers chan proxyproto.Header // nil: there are none
}

func echoes(t *testing.T, name string, secure *tls.Config, headers bool) *rawServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	s := &rawServer{url: "http://" + ln.Addr().String()}
	if headers {
		s.headers = make(chan proxyproto.Header, 100)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go s.serve(conn, name, secure)
		}
	}()
	return s
}

func (s *rawServer) serve(conn net.Conn, name string, secure *tls.Config) {
	defer conn.Close()
	if s.headers != nil {
		h, err := readHeader(conn)
		if err != nil {
			return
		}
		s.headers <- h
	}
	if secure != nil {
		conn = tls.Server(conn, secure)
	}
	io.WriteString(conn, name+"\n")
	io.Copy(conn, conn)
}

// readHeader takes a PROXY header off a connection, and no byte more.
func readHeader(conn net.Conn) (h proxyproto.Header, err error) {
	var b []byte
	for n := 1; n > len(b); {
		more := make([]byte, n-len(b))
		if _, err = io.ReadFull(conn, more); err != nil {
			return h, err
		}
		b = append(b, more...)
		if n, err = proxyproto.Parse(b, &h); err != nil {
			return h, err
		}
	}
	return h, nil
}

// newRawHouse has a listener of raw TCP with these routes.
func newRawHouse(t *testing.T, routes []config.TCPRoute, change func(*config.Config), servers ...string) *house {
	t.Helper()
	return newHouse(t, func(c *config.Config) {
		c.Listeners = []config.Listener{{Name: "listener 0", TCP: &config.TCP{Routes: routes}}}
		if change != nil {
			change(c)
		}
	}, servers...)
}

var toApp = []config.TCPRoute{{Farm: "app"}}

// hears reads a line.
func hears(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want)+1)
	n, err := io.ReadFull(c, got)
	if err != nil || string(got) != want+"\n" {
		t.Fatalf("got %q, %v, want %q", got[:n], err, want)
	}
}

func says(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// ends reads to the end of a connection, which must come without anything before.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
		t.Errorf("got %q, %v, want the end", rest, err)
	}
}

// Bytes go both ways as they are; whoever speaks first; each direction has its end;
// and the log tells of it.
func TestRawTCP(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	server := echoes(t, "a", nil, false)
	h := newRawHouse(t, toApp, func(c *config.Config) {
		c.Log.Access = config.AccessLog{Path: path, Format: "json", Buffer: 1 << 20, Flush: config.Duration(10 * time.Millisecond)}
	}, server.url)
	conn := dialTCP(t, h.at[0])
	hears(t, conn, "a")
	says(t, conn, "GET / HTTP/1.1\n")
	hears(t, conn, "GET / HTTP/1.1")
	st := h.figures()
	if st.Tunnels.Load() != 1 || st.Connections.Load() != 1 || st.BytesIn.Load() != 15 || st.TunnelBytesOut.Load() != 17 {
		t.Errorf("%d tunnels, %d connections, %d bytes in, %d out", st.Tunnels.Load(), st.Connections.Load(), st.BytesIn.Load(), st.TunnelBytesOut.Load())
	}
	large := strings.Repeat("0123456789abcdef", 1<<16)
	go func() { io.WriteString(conn, large); conn.(*net.TCPConn).CloseWrite() }()
	if back, err := io.ReadAll(conn); string(back) != large || err != nil {
		t.Errorf("%d of %d bytes came back, %v", len(back), len(large), err)
	}
	eventually(t, "it is over", func() bool { return st.Connections.Load() == 0 })
	if st = h.figures(); st.Tunnels.Load() != 0 || st.TunnelEnds[segment.TunnelClosed].Load() != 1 || st.Accepted.Load() != 1 || st.Requests.Load() != 0 {
		t.Errorf("%d tunnels, %d closed, %d accepted", st.Tunnels.Load(), st.TunnelEnds[segment.TunnelClosed].Load(), st.Accepted.Load())
	}
	if s := h.shared.ServerTotals(0, 0); s.Open.Load() != 0 || s.Connects.Load() != 1 || s.BytesIn.Load() != uint64(17+len(large)) {
		t.Errorf("of the server %d open, %d connects, %d bytes", s.Open.Load(), s.Connects.Load(), s.BytesIn.Load())
	}
	eventually(t, "the line is written", func() bool { return lineCount(path) == 1 })
	line, _ := os.ReadFile(path)
	mustHave(t, string(line), `"protocol":"TCP"`, `"scheme":"tcp"`, `"status":200`, `"bytes_in":1048591,"bytes_out":1048593`, `"listener":"listener 0","farm":"app","server":"`+server.url+`"`,
		`"peer":"127.0.0.1:`, `"retries":0`)
}

// secureServers are a.test and b.test, as raw servers over TLS.
func secureServers(t *testing.T) (a, b *rawServer, client *tls.Config) {
	authority := testkit.NewAuthority(t, "test authority")
	of := func(name string) *tls.Config {
		cert := authority.Issue(testkit.Wish{Names: []string{name}})
		pair, err := tls.X509KeyPair(cert.Chain, cert.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	return echoes(t, "a", of("a.test"), false), echoes(t, "b", of("b.test"), false), &tls.Config{RootCAs: authority.Pool()}
}

// slowly is a connection that sends a byte at a time.
type slowly struct {
	net.Conn
	each func()
}

func (s slowly) Write(p []byte) (n int, err error) {
	for range p {
		if _, err = s.Conn.Write(p[n : n+1]); err != nil {
			return n, err
		}
		n++
		if s.each(); n > 40 {
			m, err := s.Conn.Write(p[n:])
			return n + m, err
		}
	}
	return n, nil
}

// TLS goes through to the server of which the client asks for the name, however its
// ClientHello comes; the rest goes where the route without a name leads.
func TestRawTCPBySNI(t *testing.T) {
	a, b, client := secureServers(t)
	plain := echoes(t, "plain", nil, false)
	h := newRawHouse(t, []config.TCPRoute{{SNI: "a.test", Farm: "app"}, {SNI: "*.test", Farm: "b"}, {Farm: "plain"}}, func(c *config.Config) {
		c.Farms = append(c.Farms, config.NewFarm("b", b.url), config.NewFarm("plain", plain.url))
	}, a.url)
	for name, want := range map[string]string{"a.test": "a", "A.Test": "a", "b.test": "b"} {
		for _, slow := range []bool{false, true} {
			conn := dialTCP(t, h.at[0])
			if slow {
				conn = slowly{conn, h.traffic.Probe}
			}
			of := client.Clone()
			of.ServerName = name
			secure := tls.Client(conn, of)
			hears(t, secure, want)
			says(t, secure, "and back\n")
			hears(t, secure, "and back")
			secure.Close()
		}
	}
	for _, text := range []string{"GET / HTTP/1.1\n", "\x16", "\x15\x03\x01\n"} {
		conn := dialTCP(t, h.at[0])
		says(t, conn, text)
		if text == "\x16" {
			conn.(*net.TCPConn).CloseWrite() // a ClientHello that ends is none
			ends(t, conn)
			continue
		}
		hears(t, conn, "plain")
		hears(t, conn, strings.TrimSuffix(text, "\n"))
		conn.Close()
	}
	h.cfg.Listeners[0].TCP = &config.TCP{Routes: []config.TCPRoute{{SNI: "a.test", Farm: "app"}}}
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	of := client.Clone()
	of.ServerName = "none.test"
	if err := tls.Client(dialTCP(t, h.at[0]), of).Handshake(); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
		t.Errorf("a name that nobody has: %v", err)
	}
	conn := dialTCP(t, h.at[0])
	says(t, conn, "GET / HTTP/1.1\n")
	ends(t, conn)
	broken := dialTCP(t, h.at[0])
	says(t, broken, "\x16\x03\x01\x00\x00")
	ends(t, broken)
	eventually(t, "all are over", func() bool { return h.figures().Connections.Load() == 0 })
	if n := h.figures().TunnelEnds[segment.TunnelRefused].Load(); n != 4 {
		t.Errorf("%d connections are counted as refused, want 4", n)
	}
}

// A client that does not say whom it wants is not waited for any longer than for a head.
func TestRawTCPSilent(t *testing.T) {
	h := newRawHouse(t, []config.TCPRoute{{SNI: "a.test", Farm: "app"}, {Farm: "app"}}, func(c *config.Config) {
		c.Timeouts.Header = config.Duration(20 * time.Millisecond)
	}, echoes(t, "a", nil, false).url)
	for _, part := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		conn := dialTCP(t, h.at[0])
		says(t, conn, part)
		ends(t, conn)
	}
}

// deadAddress is one at which nobody listens: the port stays taken.
func deadAddress(t *testing.T) string {
	t.Helper()
	return "127.0.0.1:" + testkit.FreePort(t)
}

// Servers that cannot be reached are passed by, as often as farm.retries says, and left
// alone for fail_for.
func TestRawTCPRetries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	good, dead := echoes(t, "good", nil, false), "http://"+deadAddress(t)
	h := newRawHouse(t, toApp, func(c *config.Config) {
		c.Farms[0].FailFor = config.Duration(time.Hour)
		c.Log.Access = config.AccessLog{Path: path, Format: "json", Buffer: 1 << 20, Flush: config.Duration(10 * time.Millisecond)}
	}, dead, good.url)
	for range 4 {
		conn := dialTCP(t, h.at[0])
		hears(t, conn, "good")
		conn.Close()
	}
	if n := h.shared.ServerTotals(0, 0).ConnectFails; n != 1 {
		t.Errorf("the server that is down was tried %d times", n)
	}
	eventually(t, "the lines are written", func() bool { return lineCount(path) == 4 })
	if lines, _ := os.ReadFile(path); strings.Count(string(lines), `"retries":1`) != 1 || strings.Count(string(lines), `"status":200`) != 4 {
		t.Errorf("the log says %s", lines)
	}
	h.cfg.Farms = config.Farms{config.NewFarm("app", dead)}
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	ends(t, dialTCP(t, h.at[0]))
	eventually(t, "the line is written", func() bool { return lineCount(path) == 5 })
	lines, _ := os.ReadFile(path)
	mustHave(t, string(lines), `"status":502`, `"failed_by":"server","phase":"connect","reason":"connect_failed"`)
}

// Of connections beyond tcp.connections each is closed, and one that ends makes room.
func TestRawTCPConnections(t *testing.T) {
	h := newRawHouse(t, toApp, func(c *config.Config) { c.Listeners[0].TCP.Connections = 2 }, echoes(t, "a", nil, false).url)
	first, second := dialTCP(t, h.at[0]), dialTCP(t, h.at[1])
	hears(t, first, "a")
	hears(t, second, "a")
	ends(t, dialTCP(t, h.at[0]))
	first.Close()
	eventually(t, "there is room", func() bool { return h.shared.Totals(0).Connections == 1 })
	hears(t, dialTCP(t, h.at[1]), "a")
}

// The limit of connections to a server holds for tunnels, too: one that waits gets its
// turn when another ends.
func TestRawTCPServerConnections(t *testing.T) {
	h := newRawHouse(t, toApp, func(c *config.Config) { c.Farms[0].Connections = config.Connections{Max: 1} }, echoes(t, "a", nil, false).url)
	first := dialTCP(t, h.at[0])
	hears(t, first, "a")
	second := dialTCP(t, h.at[1])
	eventually(t, "the second is there", func() bool { return h.shared.Totals(0).Connections == 2 })
	first.Close()
	hears(t, second, "a")
}

// A drain lets tunnels end, and takes no time from those that move; who has not said
// whom it wants has a moment.
func TestRawTCPDrain(t *testing.T) {
	h := newRawHouse(t, []config.TCPRoute{{SNI: "a.test", Farm: "app"}, {Farm: "app"}}, nil, echoes(t, "a", nil, false).url)
	conn, silent := dialTCP(t, h.at[0]), dialTCP(t, h.at[0])
	says(t, conn, "x\n")
	hears(t, conn, "a")
	hears(t, conn, "x")
	eventually(t, "both are there", func() bool { return h.figures().Connections.Load() == 2 })
	drained := make(chan struct{})
	go func() { defer close(drained); h.traffic.Drain(time.Minute) }()
	ends(t, silent)
	says(t, conn, "still\n")
	hears(t, conn, "still")
	conn.Close()
	<-drained
}

// With tls the client's TLS ends here, and the server gets what is inside: for any
// protocol. A PROXY header says what the TLS was.
func TestRawTCPOverTLS(t *testing.T) {
	server := echoes(t, "a", nil, true)
	h, client := newTLSHouse(t, nil, server.url)
	h.cfg.Listeners[0].Name = "listener 0"
	h.cfg.Listeners[0].TCP = &config.TCP{Routes: []config.TCPRoute{{SNI: "server.test", Farm: "app"}}}
	h.cfg.Farms[0].ProxyProtocol = config.ProxyV2
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	client.NextProtos = []string{"h2", "http/1.1"}
	conn := tls.Client(dialTCP(t, h.at[0]), client)
	hears(t, conn, "a")
	if p := conn.ConnectionState().NegotiatedProtocol; p != "" {
		t.Errorf("ALPN chose %q", p)
	}
	header := <-server.headers
	if header.Source.String() != conn.LocalAddr().String() || header.Destination.String() != h.at[0] || string(header.Authority) != "server.test" ||
		!header.TLS.On || string(header.TLS.Version) != "TLSv1.3" || string(header.TLS.Cipher) != "TLS_AES_128_GCM_SHA256" || header.TLS.CertConn {
		t.Errorf("the server is told %+v", header)
	}
	large := strings.Repeat("0123456789abcdef", 1<<15)
	go func() { io.WriteString(conn, large); conn.CloseWrite() }()
	if back, err := io.ReadAll(conn); string(back) != large || err != nil {
		t.Errorf("%d of %d bytes came back, %v", len(back), len(large), err)
	}
	other := client.Clone()
	other.InsecureSkipVerify, other.ServerName = true, "other.test"
	ends(t, tls.Client(dialTCP(t, h.at[0]), other))
}

// A client that came by a PROXY header is the one that the next is told of.
func TestProxyHeaderPassedOn(t *testing.T) {
	server := echoes(t, "a", nil, true)
	for version, header := range map[string]string{config.ProxyV1: "PROXY TCP4 203.0.113.7 10.9.9.9 4000 80\r\n", config.ProxyV2: binary("203.0.113.7:4000")} {
		h := newRawHouse(t, toApp, func(c *config.Config) {
			c.Trust = []config.Prefix{config.Prefix(netip.MustParsePrefix("127.0.0.0/8"))}
			c.Listeners[0].ProxyProtocol = config.ProxyOn
			c.Farms[0].ProxyProtocol = version
		}, server.url)
		conn := dialTCP(t, h.at[0])
		says(t, conn, header+"x\n")
		hears(t, conn, "a")
		hears(t, conn, "x")
		got := <-server.headers
		if got.Source.String() != "203.0.113.7:4000" || got.Destination.Addr().String() != "10.9.9.9" || fmt.Sprint("v", got.Version) != version {
			t.Errorf("%s: the server is told %+v", version, got)
		}
		says(t, dialTCP(t, h.at[0]), "PROXY UNKNOWN\r\n")
		if got := <-server.headers; got.Origin != proxyproto.Unknown {
			t.Errorf("%s: of a client that is not known the server is told %+v", version, got)
		}
	}
}

// announced is an HTTP server whose connections begin with a PROXY header; it answers
// with the client of that, and the number of the connection.
func announced(t *testing.T) (url string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for n := 1; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				header, err := readHeader(conn)
				if err != nil {
					return
				}
				for in := bufio.NewReader(conn); ; {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					text := fmt.Sprintf("%v to %v by %d of %v", header.Source, header.Destination, n, ln.Addr())
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
					if r.URL.Path == "/last" { // and says nothing of it
						return
					}
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// Each connection to a server begins with its client's header, and serves nobody else:
// it stays with the client, as long as that stays and nobody waits for its place.
func TestProxyHeaderToServers(t *testing.T) {
	for _, version := range []string{config.ProxyV1, config.ProxyV2} {
		for _, most := range []int{0, 2} {
			h := newHouse(t, func(c *config.Config) {
				c.Farms[0].ProxyProtocol, c.Farms[0].Connections.Max = version, most
			}, announced(t), announced(t))
			first, second := dialTCP(t, h.at[0]), dialTCP(t, h.at[0])
			connections := map[string]string{} // by number and server, whose it is
			for _, conn := range []net.Conn{first, first, second, second, first, first, second, second} {
				_, answer, _ := strings.Cut(ask(t, conn), "\r\n\r\n")
				client, by, _ := strings.Cut(answer, " by ")
				if whose := connections[by]; client != conn.LocalAddr().String()+" to "+h.at[0] || whose != "" && whose != client {
					t.Errorf("%s: a request of %s is answered %q by a connection of %q", version, conn.LocalAddr(), answer, whose)
				}
				connections[by] = client
			}
			h.traffic.Probe()
			want := map[int]int{0: 4, 2: 8}[most] // one for each client and server, or for each request
			s, other := h.shared.ServerTotals(0, 0), h.shared.ServerTotals(0, 1)
			s.Merge(&other)
			if len(connections) != want || int(s.Connects) != want || int(s.Reused) != 8-want || s.Failures != 0 || s.InFlight != 0 || int(s.Open) != 8-want {
				t.Errorf("%s, %d at most: %d connections, %d reused, %d open, %d failures", version, most, s.Connects, s.Reused, s.Open, s.Failures)
			}
			first.Close()
			second.Close()
			eventually(t, "nothing is kept", func() bool { return h.shared.ServerTotals(0, 0).Open+h.shared.ServerTotals(0, 1).Open == 0 })
		}
	}
}

// A server that has closed the connection which a client kept gets another, with the
// header again.
func TestProxyHeaderAfterTheServerClosed(t *testing.T) {
	h := newHouse(t, func(c *config.Config) { c.Farms[0].ProxyProtocol = config.ProxyV1 }, announced(t))
	conn := dialTCP(t, h.at[0])
	for i := range 3 {
		io.WriteString(conn, "GET /last HTTP/1.1\r\nHost: x\r\n\r\n")
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(r.Body)
		mustHave(t, string(body), conn.LocalAddr().String(), fmt.Sprint(" by ", i+1))
	}
}

// A PROXY header comes before TLS, whether that ends here or goes through, and takes no
// byte of it.
func TestProxyHeaderBeforeTLS(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "for %s", r.Header.Get("X-Forwarded-For"))
	}))
	defer server.Close()
	h, client := newTLSHouse(t, nil, server.URL)
	h.cfg.Trust = []config.Prefix{config.Prefix(netip.MustParsePrefix("127.0.0.0/8"))}
	h.cfg.Listeners[0].Name, h.cfg.Listeners[0].ProxyProtocol = "listener 0", config.ProxyOn
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"PROXY TCP4 203.0.113.7 10.9.9.9 4000 443\r\n", binary("203.0.113.7:4000")} {
		mustHave(t, ask(t, tls.Client(&prefixed{dialTCP(t, h.at[0]), header}, client)), "200 OK", "for 203.0.113.7")
	}

	a, b, through := secureServers(t)
	raw := newRawHouse(t, []config.TCPRoute{{SNI: "a.test", Farm: "app"}, {SNI: "b.test", Farm: "b"}}, func(c *config.Config) {
		c.Trust, c.Listeners[0].ProxyProtocol = h.cfg.Trust, config.ProxyOn
		c.Farms = append(c.Farms, config.NewFarm("b", b.url))
	}, a.url)
	for _, header := range []string{"PROXY TCP6 2001:db8::7 ::1 4000 443\r\n", binary("203.0.113.7:4000")} {
		through.ServerName = "b.test"
		hears(t, tls.Client(&prefixed{dialTCP(t, raw.at[0]), header}, through), "b")
	}
}

// prefixed is a connection whose first write has something before it, in one piece.
type prefixed struct {
	net.Conn
	before string
}

func (p *prefixed) Write(b []byte) (int, error) {
	if p.before == "" {
		return p.Conn.Write(b)
	}
	n, err := p.Conn.Write(append([]byte(p.before), b...))
	n -= len(p.before)
	p.before = ""
	return n, err
}
