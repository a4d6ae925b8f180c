package config

import (
	"fmt"
	"strings"
	"testing"
)

// Every number that has a range, at both ends and one step beyond. A place is
// the keys of the file's mappings, with the value at $.
func TestBounds(t *testing.T) {
	const farm = "farms: {app: {servers: [{url: \"http://a:1\"%s}]%s}}"
	inFarm := func(text string) string { return fmt.Sprintf(farm, "", ", "+text) }
	inTLS := func(text string) string {
		return "listeners: [{address: \":1\", tls: {certificates: [a.pem], " + text + "}}]"
	}
	inServer := func(text string) string { return fmt.Sprintf(farm, ", "+text, "") }
	for _, c := range []struct{ place, less, least, most, more string }{
		{"workers: {loops: $}", "-1", "0", "256", "257"},
		{"workers: {per: $}", "0", "1", "64", "65"},
		{"workers: {cpus: $}", "-1", "0", "8191", "8192"},
		{"workers: {cpus: \"1,$\"}", "1", "0-0", "2-8191", "2-8192"},
		{"workers: {nodes: $}", "-1", "0", "1023", "1024"},
		{"log: {access: {buffer: $}}", "4095", "4KiB", "1GiB", "1073741825"},
		{"log: {access: {flush: $}}", "999us", "1ms", "1m", "60001ms"},
		{"limits: {head: $}", "255", "256", "16MiB", "16777217"},
		{"limits: {head: 16MiB, line: $}", "63", "64", "16MiB", "16777217"},
		{"limits: {line: 1KiB, head: $}", "1023", "1KiB", "16MiB", "16777217"},
		{"limits: {fields: $}", "0", "1", "10000", "10001"},
		{"limits: {body: $}", "", "0", "1048576GiB", "1048577GiB"},
		{"limits: {requests: $}", "-1", "0", "1000000000", "1000000001"},
		{"limits: {response_head: $}", "255", "256", "16MiB", "16777217"},
		{"timeouts: {header: $}", "0", "1ms", "24h", "24h1ms"},
		{"timeouts: {idle: $}", "0s", "1ms", "24h", "24h1ms"},
		{"timeouts: {body: $}", "999us", "1ms", "24h", "24h1ms"},
		{"timeouts: {write: $}", "0s", "1ms", "24h", "24h1ms"},
		{"timeouts: {linger: $}", "", "0s", "10m", "601s"},
		{"timeouts: {drain: $}", "", "0s", "24h", "24h1ms"},
		{"timeouts: {rate: $}", "", "0", "1GiB", "1073741825"},
		{"listeners: [{address: \":1\", backlog: $}]", "0", "1", "65535", "65536"},
		{"listeners: [{address: \":$\"}]", "-1", "0", "65535", "65536"},
		{"tls: {tickets: {rotate: $}}", "59s", "1m", "56h", "57h"},
		{inTLS("handshake: $"), "999us", "1ms", "5m", "301s"},
		{inTLS("handshakes: $"), "-1", "0", "1000000", "1000001"},
		{inTLS("hsts: $"), "", "0s", "87600h", "87601h"},
		{inTLS("hsts: {subdomains: true, preload: true, max_age: $}"), "8759h", "8760h", "87600h", "87601h"},
		{"admin: {listen: \"unix:/$\"}", "", "x", strings.Repeat("x", 106), strings.Repeat("x", 107)},
		{inFarm("connections: {idle: 0, max: $}"), "-1", "0", "1000000", "1000001"},
		{inFarm("connections: {idle: $}"), "-1", "0", "1000000", "1000001"},
		{inFarm("connections: {max: 5, idle: $}"), "-1", "0", "5", "6"},
		{inFarm("timeouts: {connect: $}"), "0s", "1ms", "24h", "24h1ms"},
		{inFarm("timeouts: {first_byte: $}"), "0s", "1ms", "24h", "24h1ms"},
		{inFarm("timeouts: {idle: $}"), "0s", "1ms", "24h", "24h1ms"},
		{inFarm("timeouts: {keep_alive: $}"), "0s", "1ms", "24h", "24h1ms"},
		{inFarm("timeouts: {continue: $}"), "", "0s", "30s", "30001ms"},
		{inFarm("retries: $"), "-1", "0", "16", "17"},
		{inFarm("fail_for: $"), "", "0s", "24h", "24h1ms"},
		{"overload: {latency: $}", "999us", "1ms", "1m", "60001ms"},
		{"overload: {latency: $}", "", "0s", "500ms", ""},
		{"overload: {memory: $}", "-1", "0", "100", "101"},
		{"overload: {descriptors: $}", "-1", "0", "100", "101"},
		{inFarm("admission: $"), "-1", "1", "1000000", "1000001"},
		{inFarm("admission: {min: 5, max: 9, limit: $}"), "4", "5", "9", "10"},
		{inFarm("admission: {min: $}"), "0", "1", "1000000", "1000001"},
		{inFarm("admission: {max: $}"), "0", "1", "1000000", "1000001"},
		{inFarm("admission: {max: 9, min: $}"), "0", "1", "9", "10"},
		{inFarm("admission: {target: $}"), "999us", "1ms", "24h", "24h1ms"},
		{inFarm("admission: {queue: $}"), "-1", "0", "1000000", "1000001"},
		{inFarm("admission: {timeout: $}"), "0s", "1ms", "24h", "24h1ms"},
		{inFarm("admission: {failures: [$]}"), "199", "200", "599", "600"},
		{inFarm("admission: {failures: [$]}"), "1xx", "2xx", "5xx", "6xx"},
		{"routes: [{farm: app, priority: $}]", "-1", "0", "7", "8"},
		{"routes: [{farm: app, deadline: $}]", "999us", "1ms", "24h", "24h1ms"},
		{inServer("weight: $"), "-1", "0", "1000", "1001"},
		{inServer("node: $"), "-1", "0", "1023", "1024"},
		{"farms: {app: {servers: [{url: \"http://a:$\"}]}}", "0", "1", "65535", "65536"},
		{"farms: {app: {servers: [{url: \"http://$\"}]}}", "", "a", strings.Repeat("a.b", 40) + "a", strings.Repeat("a.b", 40) + "aa"},
		{"farms: {app: {servers: [{url: \"http+unix:///$\"}]}}", "", "a", strings.Repeat("a", 106), strings.Repeat("a", 107)},
		{"farms: {$: {servers: [{url: \"http://a:1\"}]}}", "\"\"", "a", strings.Repeat("a", 63), strings.Repeat("a", 64)},
		{"routes: [{farm: app, host: $}]", "", "a", strings.Repeat("a", 63), strings.Repeat("a", 64)},
		{"routes: [{farm: app, host: $}]", "", "a.b", strings.Repeat("a.", 126) + "a", strings.Repeat("a.", 126) + "aa"},
	} {
		for _, good := range []string{c.least, c.most} {
			if err := parsePlace(c.place, good); err != nil {
				t.Errorf("%s at %s: %v", c.place, good, err)
			}
		}
		for _, bad := range []string{c.less, c.more} {
			if err := parsePlace(c.place, bad); bad != "" && (err == nil || strings.Contains(err.Error(), "\n")) {
				t.Errorf("%s at %s: want one fault, got %v", c.place, bad, err)
			}
		}
	}
}

func parsePlace(place, value string) error {
	text := strings.ReplaceAll(place, "$", value) + "\n"
	if !strings.Contains(text, "farms") {
		text += enough
	}
	_, err := Parse("f", []byte(text))
	return err
}

// How many there may be of each thing, and one more.
func TestCounts(t *testing.T) {
	repeat := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i+1)
		}
		return b.String()
	}
	for _, c := range []struct {
		name string
		most int
		text func(n int) string
	}{
		{"listeners", maxListeners, func(n int) string {
			return "listeners:\n" + repeat("  - {address: \":%d\"}\n", n) + enough
		}},
		{"certificates", maxCertificates, func(n int) string {
			return "listeners:\n- address: \":1\"\n  tls:\n    certificates:\n" + repeat("    - %d.pem\n", n) + enough
		}},
		{"servers", maxServers, func(n int) string {
			return "farms:\n  a: {servers: [{url: \"http://a\"}]}\n  b:\n    servers:\n" +
				repeat("    - {url: \"http://a:%d\"}\n", n-1) + "routes: [{farm: a}]\n"
		}},
		{"failures", maxFailures, func(n int) string {
			return "farms: {app: {servers: [{url: \"http://a\"}], admission: {failures: [" + strings.Repeat("5xx, ", n) + "]}}}\n"
		}},
		{"routes", maxRoutes, func(n int) string { return "routes:\n" + repeat("  - {farm: app, path: /%d}\n", n) + enough }},
	} {
		if _, err := Parse("f", []byte(c.text(c.most))); err != nil {
			t.Errorf("%d %s: %v", c.most, c.name, err)
		}
		if _, err := Parse("f", []byte(c.text(c.most+1))); err == nil || !strings.Contains(err.Error(), "more than") {
			t.Errorf("%d %s: %v", c.most+1, c.name, err)
		}
	}
}

// A Config that was made by code is checked like a file.
func TestValidateWithoutFile(t *testing.T) {
	c := Default()
	if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), "farms: no farm") {
		t.Errorf("the defaults alone: %v", err)
	}
	c.Farms = Farms{NewFarm("app", "http://127.0.0.1:1", "http://127.0.0.1:2/")}
	c.Normalize()
	if err := c.Validate(); err != nil {
		t.Errorf("with a farm: %v", err)
	}
	c.Limits.Line = c.Limits.Head + 1
	c.Farms[0].Servers[1].URL = c.Farms[0].Servers[0].URL
	const want = `limits.line: "65537B": more than limits.head (64KiB), which counts the request line too; write 64KiB at most, or raise limits.head to 65537B
farms.app.servers[1].url: "http://127.0.0.1:1": the same server as servers[0]; remove one, and give the other more weight`
	if err := c.Validate(); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
}

func TestEndpoint(t *testing.T) {
	for url, want := range map[string]string{
		"http://a":                  "tcp a:80",
		"http://A.b:8080":           "tcp a.b:8080",
		"http://a/":                 "tcp a:80",
		"http://[::1]":              "tcp [::1]:80",
		"http://[::1]:81":           "tcp [::1]:81",
		"http+unix:///run/app.sock": "unix /run/app.sock",
	} {
		network, address := Server{URL: url}.Endpoint()
		if got := network + " " + address; got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		route Route
		want  string
	}{
		{Route{}, " "},
		{Route{Host: "A.Example.", Path: "/X/"}, "a.example /X"},
		{Route{Host: "*.Example", Path: "/"}, "*.example "},
		{Route{Host: "0:0::1"}, "[::1] "},
		{Route{Host: "[2001:DB8::A]"}, "[2001:db8::a] "},
		{Route{Host: "10.0.0.1"}, "10.0.0.1 "},
	} {
		host, path := c.route.Pattern()
		if got := host + " " + path; got != c.want {
			t.Errorf("%+v: %q, want %q", c.route, got, c.want)
		}
	}
}
