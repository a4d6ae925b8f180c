package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// The file that sets every key gives every value, and passes.
func TestLoadFull(t *testing.T) {
	t.Setenv("HOST", "10.1.1.1")
	c, err := Load("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	least := ListenerTLS{
		Certificates: []Certificate{{"a.pem", "a.pem", "auto"}},
		MinVersion:   "1.2", Curves: []string{"X25519MLKEM768", "X25519", "P-256", "P-384"}, Handshake: seconds(10), Handshakes: 4096,
		ClientAuth: ClientAuth{Mode: "off"},
	}
	for _, check := range []struct{ got, want any }{
		{c.Workers, Workers{"machine", "none", "bind", 2, "cpu", "0-7,16", "0"}},
		{c.Admin, Admin{"unix:/run/sluice/admin.sock", true}},
		{c.Log.Access, AccessLog{"/var/log/sluice/access.log", "combined", 64_000, seconds(1) / 4}},
		{c.Limits, Limits{32 << 10, 8 << 10, 100, 10 << 20, 0, 250, 1_000_000}},
		{c.Timeouts, Timeouts{seconds(5), seconds(5400), seconds(3) / 2, seconds(120), 0, seconds(600), 1024}},
		{c.Forward, Forward{false, true, "edge:8443", false, "arr", true}},
		{fmt.Sprint(c.Trust[0], c.Trust[1], c.Trust[2]), "10.0.0.0/8 2001:db8::/32 192.0.2.7/32"},
		{c.Listeners, []Listener{
			{Name: "web", Address: "10.1.1.1:8080", Backlog: 128, Steering: "cpu", Away: "spread", ProxyProtocol: "on", Protocols: []string{"http2"}, AltSvc: seconds(3600), TLS: &ListenerTLS{
				Certificates: []Certificate{{"a.crt", "a.key", "a.ocsp"}, {"b.pem", "b.pem", "off"}, {"c.pem", "c.pem", "auto"}},
				MinVersion:   "1.3", Curves: []string{"P-256", "X25519"}, Handshake: seconds(3), Handshakes: 100,
				ClientAuth: ClientAuth{"require", "ca.pem"}, HSTS: HSTS{2 * year, true, true}}},
			{Name: "[::1]:8080", Address: "[::1]:8080", Redirect: "https:8443", Backlog: 4096, Steering: "auto", Away: "wait", ProxyProtocol: "off", Protocols: []string{"http1", "http2"}, AltSvc: seconds(24 * 3600)},
			{Name: "raw", Address: ":5432", Backlog: 4096, Steering: "auto", Away: "wait", ProxyProtocol: "off", Protocols: []string{"http1", "http2"}, AltSvc: seconds(24 * 3600), TLS: &least, TCP: &TCP{
				[]TCPRoute{{"Db.Example", "ant"}, {"*.example", "zebra"}, {"", "ant"}}, 100}},
			{Name: "least", Address: ":8443", Backlog: 4096, Steering: "auto", Away: "wait", ProxyProtocol: "off", Protocols: []string{"http1", "http2"}, AltSvc: seconds(24 * 3600), TLS: &least}}},
		{c.Farms[0].Servers, []Server{{"http://10.0.0.1:9000", 7, "0"}, {"http://app.example", 0, "off"}, {"http+unix:///run/app.sock", 100, "auto"}, {"https://app.example", 100, "auto"}}},
		{*c.Farms[0].TLS, FarmTLS{"ca.pem", "app.internal", "a.crt", "a.key", []string{"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}, false}},
		{c.Farms[0].Spill, Spill{"35"}},
		{c.Farms[1].Spill, Spill{"off"}},
		{c.Farms[1].ProxyProtocol, "v2"},
		{c.Farms[0].Name + " " + c.Farms[1].Name, "zebra ant"}, // the file's order
		{c.Farms[1].Connections, Connections{100, 10}},
		{c.Farms[1].Timeouts, FarmTimeouts{seconds(1) / 4, seconds(120), seconds(5), seconds(4), 0, seconds(600)}},
		{c.Farms[1].Admission, Admission{"40", 3, 400, seconds(1) / 5, 50, seconds(5),
			[]string{"503", "5xx", "X-Overload", "X-Status: degraded"}, "header:Priority", "cookie:session", "header:X-Timeout", true}},
		{c.TLS, TLS{Tickets{"tickets.txt", seconds(6 * 3600)}, &ACME{[]string{"a.example", "b.example"}, "/var/lib/acme", "me@a.example", "https://ca.example/dir", "root.pem", "http-01"}}},
		{c.State, "/var/lib/sluice/limits.json"},
		{c.Overload, Overload{seconds(1) / 4, 80, 0}},
		{c.Farms[1].Host, "inner.example:81"},
		{c.Routes, []Route{
			{"*.example.com", "/api/", "ant", nil, "off", 3, 0}, {"[::1]", "", "zebra", []string{"websocket", "tls/1.0", "connect"}, "", 1, seconds(2)},
			{"", "/${x}", "ant", []string{"websocket"}, "", 3, 0}}},
	} {
		if !reflect.DeepEqual(check.got, check.want) {
			t.Errorf("%+v, want %+v", check.got, check.want)
		}
	}
	checkAgrees(t, c)
}

// full.yaml would prove little if a key were missing from it.
func TestFullSetsEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	visitKeys(reflect.TypeFor[Config](), "", func(key, in string) {
		if !bytes.Contains(data, []byte(key+":")) {
			t.Errorf("full.yaml lacks %s of %q", key, in)
		}
	})
}

func TestLoadFaults(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.yaml")
	if err := os.WriteFile(broken, []byte("\nlimits: {head: x}\n"+enough), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): ": cannot be read: no such file or directory; name a YAML file that Sluice may read",
		dir:                             ": cannot be read: is a directory; name a YAML file that Sluice may read",
		broken:                          ":2: limits.head: \"x\": not a size; write a whole number with a unit: 512B, 64KiB, 10MiB, 1GiB, or 64KB, 10MB, 1GB",
	} {
		c, err := Load(path)
		if faults, ok := err.(Faults); c != nil || !ok || len(faults) != 1 || err.Error() != path+want {
			t.Errorf("got %v\nwant %s%s", err, path, want)
		}
	}
}

func TestFileSize(t *testing.T) {
	fill := func(size int) []byte { return []byte(enough + strings.Repeat("#", size-len(enough))) }
	if _, err := Parse("f", fill(maxFileBytes)); err != nil {
		t.Errorf("a file of the largest size: %v", err)
	}
	if _, err := Parse("f", fill(maxFileBytes+1)); err == nil || err.Error() != "f: larger than 4MiB" {
		t.Errorf("one byte more: %v", err)
	}
}

// Aliases cannot make a small file cost more than a large one.
func TestAliasesAreBounded(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("limits: &a0 {head: 1KiB}\n")
	for i := range 30 {
		fmt.Fprintf(&laughs, "x%d: &a%d {<<: [*a%d, *a%d]}\n", i+1, i+1, i, i)
	}
	laughs.WriteString("timeouts: {<<: *a30}\n")
	routes := "routes: [&r {farm: app}" + strings.Repeat(", *r", maxNodes) + "]\n"
	var wide strings.Builder
	wide.WriteString("log: &w {level: info")
	for i := range 2000 {
		fmt.Fprintf(&wide, ", k%d: 1", i)
	}
	wide.WriteString("}\nlimits: {<<: [*w" + strings.Repeat(", *w", 5000) + "]}\n")
	for name, text := range map[string]string{"nested merges": laughs.String(), "a wide merge": wide.String(), "a long list": routes} {
		_, err := Parse("f.yaml", []byte(text+enough))
		if err == nil || !strings.Contains(err.Error(), "too many") {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func TestNodesAtTheBound(t *testing.T) {
	// The root, the list, and in enough: farms, the farm, servers, the server, its URL.
	const besides = 7
	prefixes := func(n int) string { return "trust: [&p 10.0.0.0/8" + strings.Repeat(",*p", n-1) + "]\n" + enough }
	if _, err := Parse("f", []byte(prefixes(maxNodes-besides))); err != nil {
		t.Errorf("at the bound: %.200v", err)
	}
	if _, err := Parse("f", []byte(prefixes(maxNodes-besides+1))); err == nil {
		t.Error("no fault beyond the bound")
	}
}

// Faults say where the value begins, in columns too.
func TestColumns(t *testing.T) {
	_, err := Parse("f", []byte("limits:\n  {head: 1k, fields: 0}\n"+enough))
	faults := err.(Faults)
	if len(faults) != 2 || faults[0].Column != 10 || faults[1].Column != 22 || faults[0].Line != 2 {
		t.Errorf("%+v", faults)
	}
}

// What cannot stand in a transcript that is itself text.
func TestNotText(t *testing.T) {
	for text, want := range map[string]string{
		"limits: {}\nadmin: \x01\n":         "f:2: not YAML: control characters are not allowed; remove what is not printable text",
		"limits: {}\n\nadmin: {a: \xff}\n":  "f:3: not YAML: invalid leading UTF-8 octet; save the file as UTF-8",
		"limits: {}\n---\na: b: c\n":        "f:3: not YAML: mapping values are not allowed in this context; align the keys of one mapping here and below, and quote a value that holds \": \"",
		"\ufeff" + "limts: {}\r\n" + enough: "f:1: limts: unknown key; did you mean \"limits\"?",
	} {
		if _, err := Parse("f", []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q:\n%v\nwant\n%s", text, err, want)
		}
	}
}

// Faults of files that the configuration names get their lines.
func TestLocate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	text := enough + "listeners:\n  - address: \":1\"\n    tls:\n      certificates:\n        - a.pem\n        - cert: b.crt\n          key: b.key\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "listeners[0].tls.certificates"
	got := Locate(path, Faults{{Path: at + "[1].key", Rule: "c"}, {Path: at + "[1]", Rule: "b"}, {Path: at + "[0].cert", Value: `"a.pem"`, Rule: "a"}})
	want := strings.ReplaceAll(`F:6: listeners[0].tls.certificates[0].cert: "a.pem": a
F:7: listeners[0].tls.certificates[1]: b
F:8: listeners[0].tls.certificates[1].key: c`, "F", path)
	if got.Error() != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	lost := Faults{{Path: "x", Rule: "y"}}
	if got := Locate(path+"x", lost); got.Error() != "x: y" {
		t.Errorf("%v", got)
	}
}

// A choice of many is cut, so that a fault stays readable.
func TestLongChoice(t *testing.T) {
	var farms strings.Builder
	for i := range maxListed + 1 {
		fmt.Fprintf(&farms, "  f%02d: {servers: [{url: \"http://a\"}]}\n", i)
	}
	_, err := Parse("f", []byte("farms:\n"+farms.String()+"routes: [{farm: other}]\n"))
	if err == nil || !strings.HasSuffix(err.Error(), "f14, f15, …") {
		t.Error(err)
	}
}
