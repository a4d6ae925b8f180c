package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// command runs a command line in this process.
func command(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = execute(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		text string // part of stdout, or of the one line on stderr
	}{
		{"", 0, "Usage:"},
		{"--help", 0, "--fail-if"},
		{"--version", 0, "hb version "},
		{"-n 1", 2, "there is no target: hb http://127.0.0.1:8080/"},
		{"ftp://a/", 2, "only http and https"},
		{"--userz 1 a", 2, "unknown flag: --userz; see hb --help"},
		{"--duration 5 a", 2, "missing unit"},
		{"--users 0 a", 2, `--users "0": write a number above 0`},
		{"--rate x a", 2, `--rate "x": write a number above 0`},
		{"--users 1..2 a", 2, "a ramp needs --every"},
		{"--users 1..2 --every 1s --duration 1s a", 2, "leave --duration out"},
		{"--step 1 a", 2, "need a ramp"},
		{"--think soon a", 2, "exp:500ms"},
		{"--think 1s --rate 1 a", 2, "--think is for a closed loop"},
		{"--arrivals poisson a", 2, "--arrivals needs --rate"},
		{"--arrivals odd --rate 1 a", 2, "write fixed or poisson"},
		{"--requests -1 a", 2, "cannot be negative"},
		{"--warm-up -1s a", 2, "cannot be negative"},
		{"--timeout 0s a", 2, "time-outs are above 0"},
		{"--connect-timeout 0s a", 2, "time-outs are above 0"},
		{"--json - --csv - a", 2, "only one of --json and --csv"},
		{"--picture a.gif a", 2, "must end in .svg or .png"},
		{"--fail-if p99 a", 2, `threshold "p99": write METRIC>VALUE`},
		{"--header x a", 2, `write a header field as "Name: value"`},
		{"--body /none a", 2, "open /none: no such file"},
		{"--file /none", 2, "open /none: no such file"},
		{"--http1 --http2 a", 2, "only one of --http1, --http2 and --http3"},
		{"--http2 --http3 a", 2, "only one of --http1, --http2 and --http3"},
		{"--http3 a", 2, "http://a: HTTP/3 is for https only"},
		{"--http3 --tls-max 1.2 https://a", 2, "leave --tls-max out"},
		{"--streams 2 a", 2, "--streams needs --http2 or --http3"},
		{"--http2 --streams 0 a", 2, "--streams is from 1 to 1000"},
		{"--http2 --streams 1001 a", 2, "--streams is from 1 to 1000"},
		{"--http2 -m 1000 -u 1001 a", 2, "1001 users with 1000 streams each are more than 1000000"},
		{"--http2 -m 2 --no-keep-alive a", 2, "leave --streams out"},
		{"--http2 --header Upgrade:x a", 2, "HTTP/2 has no field Upgrade"},
		{"--cert a.pem a", 2, "--cert and --key belong together"},
		{"--tls-min 1.4 a", 2, `--tls-min "1.4": write a version of TLS from 1.0 to 1.3`},
		{"--tls-max 3 a", 2, `--tls-max "3": write a version`},
		{"--tls-min 1.3 --tls-max 1.2 a", 2, "--tls-min 1.3 is above --tls-max 1.2"},
		{"--curves P-256,P-1 a", 2, "there are X25519MLKEM768, "},
		{"--resume maybe a", 2, "write on or off"},
		{"--cacert /none https://127.0.0.1/", 1, "open /none: no such file"},
		{"--cacert /dev/null https://127.0.0.1/", 1, "no certificate in it"},
		{"--cert /none --key /none https://127.0.0.1/", 1, "the client's certificate /none with key /none"},
		{"--json /none/a a", 1, "open /none/a: no such file"},
		{"--connect nowhere a", 1, "missing port in address"},
	} {
		code, stdout, stderr := command(strings.Fields(c.args)...)
		text := stderr
		if c.code == 0 {
			text = stdout
		} else if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "hb: ") {
			t.Errorf("hb %s: stderr is not one line:\n%s", c.args, stderr)
		}
		if code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("hb %s: exit code %d, want %d with %q:\n%s%s", c.args, code, c.code, c.text, stdout, stderr)
		}
	}
}

// serve answers with what the handler says.
func serve(t *testing.T, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestExitCodes(t *testing.T) {
	var served atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	for _, c := range []struct {
		failIf []string
		code   int
		stderr string
	}{
		{nil, 0, ""},
		{[]string{"errors>5"}, 0, ""},
		{[]string{"errors>40%", "p99>1h", "5xx>=5"}, 3, "hb: failed: errors>40%: it is 50%\nhb: failed: 5xx>=5: it is 5\n"},
	} {
		args := []string{"--requests", "10", "--users", "2", url}
		for _, text := range c.failIf {
			args = append(args, "--fail-if", text)
		}
		code, stdout, stderr := command(args...)
		if code != c.code || stderr != c.stderr || !strings.Contains(stdout, "Errors:                 5 (50 %)") {
			t.Errorf("%v: exit code %d, stderr %q, stdout:\n%s", c.failIf, code, stderr, stdout)
		}
	}
}

// What the flags say about requests reaches the server.
func TestRequests(t *testing.T) {
	var wrong atomic.Value
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		user, password, _ := r.BasicAuth()
		cookie, _ := r.Cookie("session")
		got := []any{r.Method, r.URL.Path, string(body), user, password, r.Header.Get("X-Test"), r.Host, r.Close}
		want := []any{"POST", "/orders", "order", "me", "secret", "a b", "shop.example", false}
		for i := range want {
			if got[i] != want[i] {
				wrong.Store(got)
			}
		}
		if cookie == nil {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	file := filepath.Join(t.TempDir(), "order")
	if err := os.WriteFile(file, []byte("order"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command("--requests", "20", "--users", "2", "--cookies", "--auth", "me:secret",
		"--header", "X-Test: a b", "--connect", strings.TrimPrefix(url, "http://"), "--csv", "-",
		"--fail-if", "4xx>2", "--fail-if", "errors>2", "http://shop.example/orders @"+file)
	if code != 0 || wrong.Load() != nil || strings.Count(stdout, "\n") != 2 {
		t.Errorf("exit code %d; the server got %v\n%s%s", code, wrong.Load(), stdout, stderr)
	}
}

func TestReports(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) {})
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	targets := in("targets")
	if err := os.WriteFile(targets, []byte("# all\n3 "+url+"/a\n"+url+"/b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command("-n", "50", "--rate", "5000", "--file", targets, "--json", in("r.json"), "--csv", in("r.csv"),
		"--hdr", in("r.hdr"), "--picture", in("r.svg"), "--picture", in("r.png"))
	if code != 0 || !strings.Contains(stdout, "Good answers:           50\n") || stderr != "" {
		t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	for name, begin := range map[string]string{"r.json": "{", "r.csv": "users,", "r.hdr": " ", "r.svg": "<?xml", "r.png": "\x89PNG"} {
		if text, err := os.ReadFile(in(name)); err != nil || !strings.HasPrefix(string(text), begin) {
			t.Errorf("%s: %v, %.20q", name, err, text)
		}
	}
	var read struct{ Total struct{ Good int } }
	text, _ := os.ReadFile(in("r.json"))
	if err := json.Unmarshal(text, &read); err != nil || read.Total.Good != 50 {
		t.Errorf("%v, %+v", err, read)
	}
}

// An interrupted run reports what it has.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	url := serve(t, func(http.ResponseWriter, *http.Request) { cancel() })
	var stdout, stderr strings.Builder
	if code := execute(ctx, []string{"--duration", "1h", url}, &stdout, &stderr); code != 0 || !strings.HasPrefix(stdout.String(), "Interrupted: ") {
		t.Errorf("exit code %d\n%s%s", code, &stdout, &stderr)
	}
}
