package load

import (
	"strings"
	"testing"
	"time"

	"sluice/bench/secure"
)

// said is what h2load tells of a run.
const said = `starting benchmark...
Warm-up started for thread #0.
TLS Protocol: TLSv1.3
Cipher: TLS_AES_128_GCM_SHA256
Server Temp Key: X25519 253 bits
Application protocol: h2
Warm-up phase is over for thread #0.
Main benchmark duration is started for thread #0.
Main benchmark duration is over for thread #0. Stopping all clients.
Stopped all clients for thread #0

finished in 1.50s, 153391.00 req/s, 17.55MB/s
requests: 153404 total, 153403 started, 153402 done, 153391 succeeded, 7 failed, 2 errored, 1 timeout
status codes: 153391 2xx, 0 3xx, 5 4xx, 0 5xx
`

func TestReadH2Load(t *testing.T) {
	s, err := readH2load(said)
	if err != nil || s.Requests != 153391 || s.Errors != 7 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"TLSv1.3", "TLSv1.2", `"TLS Protocol: TLSv1.3"`},
		{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", `"Cipher: TLS_AES_128_GCM_SHA256"`},
		{"X25519 253", "ECDH prime256v1 256", `"Server Temp Key: X25519"`},
		{"protocol: h2", "protocol: http/1.1", `"Application protocol: h2"`},
		{"requests: ", "answers: ", "told its requests"},
	} {
		_, err := readH2load(strings.ReplaceAll(said, c.old, c.new))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.new, err, c.want)
		}
	}
}

// TestUntil finds the beginning of the measured time in what h2load says.
func TestUntil(t *testing.T) {
	r := read(said)
	before, err := r.until(h2loadBegins)
	if err != nil || !strings.HasSuffix(before, "is started for thread #0.\n") {
		t.Errorf("%q, %v", before, err)
	}
	after, err := r.until(h2loadEnds)
	rest, _ := r.rest()
	if err != nil || before+after+rest != said {
		t.Errorf("%q, then %q, %v", after, rest, err)
	}
	if _, err := read("starting\n").until(h2loadBegins); err == nil {
		t.Error("an end is taken for a beginning")
	}
}

func TestReadHB(t *testing.T) {
	for _, c := range []struct {
		text   string
		good   int64
		errors int64
		fault  string
	}{
		{`{"protocol": "HTTP/3", "total": {"good": 100, "errors": 2, "failures": {"reset": 2}, "tls": {"sessions": {"` + sessions + `": 8}}}}`, 100, 2, ""},
		{`{"protocol": "HTTP/2", "total": {"good": 100, "tls": {"sessions": {"` + sessions + `": 8}}}}`, 0, 0, "hb spoke HTTP/2"},
		{`{"protocol": "HTTP/3", "total": {"good": 100, "tls": {"sessions": {"TLS 1.3, TLS_AES_256_GCM_SHA384, X25519": 8}}}}`, 0, 0, "AES_256"},
		{`{"protocol": "HTTP/3", "total": {"good": 100, "tls": {"sessions": {"other": 1, "` + sessions + `": 7}}}}`, 0, 0, "alone"},
		{`{"total": {"good": 0, "errors": 9, "failures": {"connect": 9}}}`, 0, 0, "connect:9"},
		{`unknown flag`, 0, 0, "hb's result"},
	} {
		s, err := readHB(c.text)
		if s.Requests != c.good || s.Errors != c.errors || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %+v, %v", c.text, s, err)
		}
	}
}

// TestOthersArgs: what is agreed upon is told to all.
func TestOthersArgs(t *testing.T) {
	j := Job{Port: 20001, Conns: 8, Streams: 4, Target: "/53", Warm: time.Second, Measure: 1500 * time.Millisecond}
	for _, c := range []struct {
		args []string
		want string
	}{
		{j.h2load(), "--clients=8 --max-concurrent-streams=4 --warm-up-time=1000ms --duration=1500ms --tls13-ciphers=TLS_AES_128_GCM_SHA256 " +
			"--groups=X25519 --connect-to=127.0.0.1:20001 https://bench.example:20001/53"},
		{j.hb(j.Measure), "--http3 --users 8 --streams 4 --duration 1.5s --curves X25519 --connect 127.0.0.1:20001 https://bench.example:20001/53"},
	} {
		got := " " + strings.Join(c.args, " ") + " "
		for _, want := range strings.Fields(c.want) {
			if !strings.Contains(got, " "+want+" ") {
				t.Errorf("no %s in%s", want, got)
			}
		}
	}
	g := Generator{Path: "/plain", TLS: "/tls"}
	if g.http1("") != "/plain" || g.http1(secure.HTTP1) != "/tls" {
		t.Error("plain and TLS are mixed up")
	}
}
