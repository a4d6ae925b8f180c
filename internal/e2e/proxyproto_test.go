package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

const haproxyConf = `
defaults
	mode %s
	timeout connect 10s
	timeout client 60s
	timeout server 60s
%s
`

// startHAProxy starts a real HAProxy with these sections; addresses are those at
// which it answers then.
func startHAProxy(t testing.TB, mode, sections string, addresses ...string) {
	t.Helper()
	dir := shortDir(t)
	file := filepath.Join(dir, "haproxy.cfg")
	if err := os.WriteFile(file, fmt.Appendf(nil, haproxyConf, mode, sections), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Start(t, testkit.Command{Path: testkit.Tool(t, "haproxy"), Args: []string{"-db", "-f", file}, Dir: dir})
	for _, address := range addresses {
		testkit.Eventually(t, "HAProxy listens at "+address, func() bool { return listens(address) })
	}
}

// told is a server that answers with what it was told of the client.
func told(t testing.TB) string {
	t.Helper()
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for {
			m := p.Request()
			text := m.Get("X-Forwarded-For") + " " + m.Get("X-Forwarded-Proto") + "\n"
			p.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))
		}
	})
	return b.URL()
}

// A real HAProxy before Sluice tells its client by both versions, with and without what
// is known of TLS, which servers and the log are told; a client that has not come through
// it is refused.
func TestHAProxyBeforeSluice(t *testing.T) {
	t.Parallel()
	s := start(t, farm(told(t)), jsonLog, "trust: [127.0.0.1]", "listeners: [{name: web, address: \"127.0.0.1:0\", proxy_protocol: on}]")
	dir := shortDir(t)
	pem := testkit.WriteFile(t, dir, "both.pem", testkit.NewAuthority(t, "test authority").Issue(testkit.Wish{Names: []string{"localhost"}}).Both())
	lines := 0
	for option, secure := range map[string]bool{"send-proxy": false, "send-proxy-v2": false, "send-proxy-v2-ssl-cn proxy-v2-options crc32c,unique-id,authority,ssl-cipher": true} {
		address := net.JoinHostPort("127.0.0.1", testkit.FreePort(t))
		bind, url, extra, want := "bind "+address, "http://"+address, []string(nil), "127.0.0.77 http\n"
		if secure {
			_, port, _ := net.SplitHostPort(address)
			bind, url, extra = bind+" ssl crt "+pem+" alpn http/1.1", "https://shop.test:"+port, []string{"--insecure", "--resolve", "shop.test:" + port + ":127.0.0.1"}
			want = "127.0.0.77 https\n"
		}
		startHAProxy(t, "http", fmt.Sprintf("listen l\n\t%s\n\tunique-id-format %%{+X}o%%ci\n\tserver s %s %s\n", bind, s.web(), option), address)
		got := curl(t, append(extra, "--interface", "127.0.0.77", url+"/", url+"/")...)
		if got != want+want {
			t.Errorf("%s: the server is told of %q", option, got)
		}
		lines += 2
		last := s.logLines(lines)[lines-1]
		if secure != strings.Contains(last, `"tls_version":"TLSv1.3","tls_cipher":"TLS_`) || secure != strings.Contains(last, `"tls_sni":"shop.test","tls_alpn":"http/1.1","tls_told":true`) {
			t.Errorf("%s: the log says %s", option, last)
		}
	}
	r := testkit.Run(t, testkit.Tool(t, "curl"), "--silent", "--max-time", "60", "--interface", "127.0.0.78", s.url("/"))
	if r.Code == 0 || r.Stdout != "" {
		t.Errorf("who is not trusted gets %q", r.Stdout)
	}
	s.Stderr.Await(t, "cause=untrusted")
	m := s.metrics()
	taken, untrusted := 0.0, 0.0
	for name, v := range m {
		if strings.HasPrefix(name, "sluice_proxy_headers_total") && strings.Contains(name, `"taken"`) {
			taken += v
		}
		if strings.HasPrefix(name, "sluice_proxy_headers_total") && strings.Contains(name, `"untrusted"`) {
			untrusted += v
		}
	}
	if taken < 3 || untrusted != 1 {
		t.Errorf("%v headers taken, %v untrusted", taken, untrusted)
	}
}

// A real HAProxy behind Sluice takes both versions for its client's address, over HTTP
// and for raw TCP; version 2 also tells the name that a client of TLS has asked for.
func TestHAProxyBehindSluice(t *testing.T) {
	t.Parallel()
	address := net.JoinHostPort("127.0.0.1", testkit.FreePort(t))
	startHAProxy(t, "http", "frontend f\n\tbind "+address+" accept-proxy\n\thttp-request return status 200 content-type text/plain lf-string \"%[src] %[dst_port] %[fc_pp_authority] \"\n", address)
	pem := testkit.WriteFile(t, t.TempDir(), "both.pem", testkit.NewAuthority(t, "test authority").Issue(testkit.Wish{Names: []string{"shop.test"}}).Both())
	for _, version := range []string{"v1", "v2"} {
		s := start(t, farm("http://"+address, "proxy_protocol: "+version),
			fmt.Sprintf("listeners: [{name: web, address: \"127.0.0.1:0\"}, {name: raw, address: \"127.0.0.1:0\", tcp: {routes: [{farm: app}]}}, "+
				"{name: tls, address: \"127.0.0.1:0\", tls: {certificates: [%s]}}]", pem))
		for _, listener := range []string{"web", "raw"} {
			_, port, _ := net.SplitHostPort(s.address(listener))
			url := "http://" + s.address(listener) + "/"
			want := strings.Repeat("127.0.0.77 "+port+"  ", 2)
			if got := curl(t, "--interface", "127.0.0.77", url, url); got != want {
				t.Errorf("%s, %s: HAProxy sees %q, want %q", version, listener, got, want)
			}
		}
		_, port, _ := net.SplitHostPort(s.address("tls"))
		name := map[string]string{"v2": "shop.test"}[version]
		want := "127.0.0.77 " + port + " " + name + " "
		if got := curl(t, "--interface", "127.0.0.77", "--insecure", "--resolve", "shop.test:"+port+":127.0.0.1", "https://shop.test:"+port+"/"); got != want {
			t.Errorf("%s, TLS: HAProxy sees %q, want %q", version, got, want)
		}
	}
}
