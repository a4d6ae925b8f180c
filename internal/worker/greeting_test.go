package worker

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/proxyproto"
	"sluice/internal/segment"
)

// greeted is a worker whose listener asks for PROXY headers, from this range; its
// server answers with the client that it was told.
func greeted(t *testing.T, trust string, change func(*config.Config)) *house {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "for %s", r.Header.Get("X-Forwarded-For"))
	}))
	t.Cleanup(server.Close)
	return newHouse(t, func(c *config.Config) {
		c.Trust = []config.Prefix{config.Prefix(netip.MustParsePrefix(trust))}
		c.Listeners = []config.Listener{{Name: "listener 0", ProxyProtocol: config.ProxyOn}}
		if change != nil {
			change(c)
		}
	}, server.URL)
}

// connect opens a connection to a loop.
func (h *house) connect(loop int) net.Conn {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.at[loop])
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	return conn
}

// headers are those of loop 0, by what came of them.
func (h *house) headers() map[string]uint64 {
	h.traffic.Probe()
	by := map[string]uint64{}
	for i, name := range segment.ProxyHeaderNames {
		if n := h.shared.Loop(0, 0).ProxyHeaders[i].Load(); n > 0 {
			by[name] = n
		}
	}
	return by
}

const lastRequest = "GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nConnection: close\r\n\r\n"

var localHeader = string(proxyproto.Append(nil, &proxyproto.Header{Version: 2, Origin: proxyproto.Local}))

func binary(source string) string {
	return string(proxyproto.Append(nil, &proxyproto.Header{
		Version: 2, Source: netip.MustParseAddrPort(source), Destination: netip.MustParseAddrPort("10.9.9.9:443"), Checksum: true}))
}

// The client that the header tells is the client, and not believed more than others;
// where it tells none nobody is, and where it speaks for itself its sender is. It may
// come in any two parts.
func TestProxyHeader(t *testing.T) {
	h := greeted(t, "127.0.0.0/8", nil)
	taken := uint64(0)
	for header, want := range map[string]string{
		"PROXY TCP4 203.0.113.7 10.9.9.9 4000 80\r\n": "for 203.0.113.7",
		"PROXY TCP6 2001:db8::7 ::1 4000 80\r\n":      "for 2001:db8::7",
		"PROXY UNKNOWN\r\n":                           "for unknown",
		binary("203.0.113.8:1"):                       "for 203.0.113.8",
		binary("[2001:db8::8]:1"):                     "for 2001:db8::8",
		localHeader:                                   "for 192.0.2.1, 127.0.0.1",
	} {
		for cut := range len(header) {
			conn := h.connect(0)
			io.WriteString(conn, header[:cut])
			h.traffic.Probe()
			io.WriteString(conn, header[cut:]+lastRequest)
			answer, err := io.ReadAll(conn)
			if err != nil || !strings.HasSuffix(string(answer), "\r\n\r\n"+want) {
				t.Fatalf("%q, cut at %d: %v, %q, want %q", header, cut, err, answer, want)
			}
			conn.Close()
			taken++
		}
	}
	if got := h.headers(); !maps.Equal(got, map[string]uint64{"taken": taken}) {
		t.Errorf("headers %v of %d", got, taken)
	}
	if total := h.shared.Totals(0); total.Accepted.Load() != taken || total.Connections.Load() != 0 {
		t.Errorf("%d of %d connections were accepted, %d are open", total.Accepted.Load(), taken, total.Connections.Load())
	}
}

// What is not a header, or not all of one, ends the connection without an answer.
func TestProxyHeaderRefused(t *testing.T) {
	h := greeted(t, "127.0.0.0/8", nil)
	for text, want := range map[string]string{
		lastRequest: "invalid",
		"PROXY TCP4 203.0.113.7 10.9.9.9 4000\r\n" + lastRequest: "invalid",
		"\x16\x03\x01\x02\x00\x01":                               "invalid",
		"":                                                       "missing",
		"PROXY TCP4 203":                                         "missing",
		binary("203.0.113.7:1")[:20]:                             "missing",
	} {
		before := h.headers()
		conn := h.connect(0)
		io.WriteString(conn, text)
		conn.(*net.TCPConn).CloseWrite()
		if answer, _ := io.ReadAll(conn); len(answer) > 0 {
			t.Errorf("%q is answered by %q", text, answer)
		}
		before[want]++
		if got := h.headers(); !maps.Equal(got, before) {
			t.Errorf("%q: headers %v, want %v", text, got, before)
		}
	}
	if total := h.shared.Totals(0); total.Accepted.Load() != 6 || total.Connections.Load() != 0 || total.Requests.Load() != 0 {
		t.Errorf("%d of 6 connections accepted, %d open, %d requests", total.Accepted.Load(), total.Connections.Load(), total.Requests.Load())
	}
}

// A header from elsewhere is refused, however good.
func TestProxyHeaderUntrusted(t *testing.T) {
	h := greeted(t, "10.0.0.0/8", nil)
	conn := h.connect(0)
	io.WriteString(conn, "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"+lastRequest)
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("answered by %q", answer)
	}
	if got := h.headers(); !maps.Equal(got, map[string]uint64{"untrusted": 1}) {
		t.Errorf("headers %v", got)
	}
}

// A header that does not come is not waited for longer than timeouts.header says.
func TestProxyHeaderLate(t *testing.T) {
	h := greeted(t, "127.0.0.0/8", func(c *config.Config) { c.Timeouts.Header = config.Duration(20 * time.Millisecond) })
	for _, part := range []string{"", "PROXY TCP4 "} {
		conn := h.connect(0)
		io.WriteString(conn, part)
		if answer, _ := io.ReadAll(conn); len(answer) > 0 { // ends when the connection does
			t.Errorf("answered by %q", answer)
		}
	}
	if got := h.headers(); !maps.Equal(got, map[string]uint64{"missing": 2}) {
		t.Errorf("headers %v", got)
	}
}

// A drain waits for a header as long as for a request: it is served, or it is over.
func TestProxyHeaderWhileDraining(t *testing.T) {
	h := greeted(t, "127.0.0.0/8", nil)
	silent, late := h.connect(0), h.connect(0)
	eventually(t, "both are there", func() bool { return h.shared.Loop(0, 0).Connections.Load() == 2 })
	drained := make(chan struct{})
	go func() { defer close(drained); h.traffic.Drain(time.Minute) }()
	eventually(t, "nobody accepts", func() bool {
		c, err := net.Dial("tcp", h.at[1])
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	io.WriteString(late, "PROXY TCP4 203.0.113.7 10.9.9.9 4000 80\r\n"+strings.Replace(lastRequest, "close", "keep-alive", 1))
	if answer, _ := io.ReadAll(late); !strings.HasSuffix(string(answer), "for 203.0.113.7") {
		t.Errorf("during the drain it is answered by %q", answer)
	}
	if answer, _ := io.ReadAll(silent); len(answer) > 0 {
		t.Errorf("the silent one is answered by %q", answer)
	}
	<-drained
}
