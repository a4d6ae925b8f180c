package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/admin"
	"sluice/internal/config"
	"sluice/internal/testkit"
)

// command runs a command line in this process.
func command(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = execute(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// file makes a file with this text, and gives its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		text string // part of the only line on stderr if code is not 0, of stdout else
	}{
		{"", 0, "sluice run --demo"},
		{"--help", 0, "Available Commands:"},
		{"help run", 0, "--config"},
		{"version", 0, "sluice "},
		{"--version", 0, "sluice "},
		{"chekc", 2, `there is no command "chekc"; did you mean check?`},
		{"fly", 2, `there is no command "fly"; sluice --help lists them`},
		{"version 2", 2, `version does not take "2": sluice version`},
		{"check", 2, "check lacks FILE: sluice check FILE"},
		{"check a b", 2, `check does not take "b"`},
		{"check --prnt a", 2, "unknown flag: --prnt; see sluice check --help"},
		{"run", 2, "run needs --config FILE, or --to URL, or --demo"},
		{"run sluice.yaml", 2, `run does not take "sluice.yaml": sluice run --config FILE`},
		{"run --listen :80", 2, "--listen needs --to: sluice run --listen :80 --to http://127.0.0.1:3000"},
		{"run --demo --config a", 2, "one of --config, --to and --demo"},
		{"run --demo --to a --config a", 2, "one of --config, --to and --demo"},
		{"run --config", 2, "flag needs an argument: --config"},
		{"status --json --watch", 2, "--json and --watch exclude each other"},
		{"status --limits --json --watch", 2, "--json and --watch exclude each other"},
		{"status --farm app", 2, "--farm needs --limits"},
		{"reload now", 2, `reload does not take "now"`},
		{"help place", 0, "--memory says what becomes of memory"},
		{"place", 2, "place lacks PID, or --port N: sluice place PID|--port N --node N"},
		{"place x --node 0", 2, `"x" is no process number; write sluice place 4711 --node 0, or --port 3000`},
		{"place 0 --node 0", 2, `"0" is no process number`},
		{"place 1 2 --node 0", 2, `place does not take "2"`},
		{"place 1", 2, "place needs --node N; sluice place 1 --node 0"},
		{"place 1 --node -1", 2, "--node -1: nodes are numbered from 0"},
		{"place 1 --node x", 2, "see sluice place --help"},
		{"place 1 --port 80 --node 0", 2, "place takes a PID or --port, not both"},
		{"place --port 65536 --node 0", 2, "--port 65536: write 1 to 65535"},
		{"place --port 0 --node 0", 2, "--port 0: write 1 to 65535"},
		{"place 1 --node 0 --cpus 3-1", 2, `range "3-1" runs backwards; write a list as "0-3,8"`},
		{"place 1 --node 0 --memory all", 2, `--memory "all": write prefer, bind or default`},
		{"place 1 --node 0 --cgroup on", 2, `--cgroup "on": write auto or off`},
		{"place 1 --node 0 --memory bind --cgroup off", 2, "--memory bind needs --cgroup auto"},
		{"place 1 --node 0 --dry-run --watch", 2, "--dry-run and --watch exclude each other"},
		{"place 1 --node 9999 --dry-run", 1, "there is no node 9999; this machine has 0"},
		{"place 4194305 --node 0 --dry-run", 1, "there is no process 4194305"},
	} {
		code, stdout, stderr := command(t.Context(), strings.Fields(c.args)...)
		said, silent := stdout, stderr
		if c.code != 0 {
			said, silent = stderr, stdout
		}
		if code != c.code || !strings.Contains(said, c.text) || silent != "" {
			t.Errorf("sluice %s: exit code %d, stdout %q, stderr %q; want %d and %q", c.args, code, stdout, stderr, c.code, c.text)
		}
		if c.code != 0 && strings.Count(stderr, "\n") != 1 {
			t.Errorf("sluice %s: not one line: %q", c.args, stderr)
		}
	}
}

const goodFile = `
farms:
  app:
    servers: [{url: "http://127.0.0.1:9000"}]
`

func TestCheck(t *testing.T) {
	good := file(t, goodFile)
	if code, stdout, _ := command(t.Context(), "check", good); code != 0 || stdout != good+" is good: 1 listener, 1 farm, 1 route\n" {
		t.Errorf("exit code %d: %s", code, stdout)
	}

	code, printed, _ := command(t.Context(), "check", good, "--print")
	if code != 0 || !strings.Contains(printed, "first_byte: 30s") {
		t.Errorf("exit code %d: %s", code, printed)
	}
	if code, _, stderr := command(t.Context(), "check", file(t, printed)); code != 0 {
		t.Errorf("what --print prints is refused: %s", stderr)
	}

	bad := file(t, "limits: {head: 64k}\nfarms:\n  app:\n    servers: [{url: \"ftp://x\"}]\n    retires: 1\n")
	code, stdout, stderr := command(t.Context(), "check", bad)
	if code != 1 || stdout != "" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	for _, want := range []string{bad + ":1: limits.head", bad + ":4: farms.app.servers[0].url", bad + ":5: farms.app.retires"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no fault at %s in\n%s", want, stderr)
		}
	}
}

// The faults of a start are told like those of a check.
func TestRunRefusesAFaultyConfiguration(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--config", file(t, "farms: {}")}, "farm"},
		{[]string{"--config", filepath.Join(t.TempDir(), "none.yaml")}, "none.yaml"},
		{[]string{"--to", "ftp://127.0.0.1"}, "--to"},
		{[]string{"--to", "http://127.0.0.1:1", "--to", "http://127.0.0.1:1"}, "http://127.0.0.1:1"},
		{[]string{"--to", "http://127.0.0.1:1", "--listen", "80"}, "--listen"},
		{[]string{"--to", "http://127.0.0.1:1", "--admin", "nonsense"}, "admin.listen"},
	} {
		code, _, stderr := command(t.Context(), append([]string{"run"}, c.args...)...)
		if code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("run %q: exit code %d: %s", c.args, code, stderr)
		}
	}
}

func TestRunFlagsMakeAConfiguration(t *testing.T) {
	f := runFlags{listen: "127.0.0.1:8081", to: []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, admin: "off"}
	c, err := f.load()
	if err != nil {
		t.Fatal(err)
	}
	urls := []string{c.Farms[0].Servers[0].URL, c.Farms[0].Servers[1].URL}
	if c.Listeners[0].Address != f.listen || urls[0] != f.to[0] || urls[1] != f.to[1] || c.Admin.Listen != "off" || len(c.Routes) != 1 {
		t.Errorf("%+v", c)
	}
}

// pretend is an admin interface that answers as told, and its address.
func pretend(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// looks answers with a status each time, the last one for ever.
func looks(statuses ...*admin.Status) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(statuses[0])
		if len(statuses) > 1 {
			statuses = statuses[1:]
		}
	}
}

func TestStatus(t *testing.T) {
	before, after := statuses()
	address := pretend(t, looks(before, after))
	code, stdout, stderr := command(t.Context(), "status", "--admin", address)
	if code != 0 || !strings.Contains(stdout, "0       101     0  0-3       4  serving   3h12m") || !strings.Contains(stdout, "1000   50%") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestStatusAsJSON(t *testing.T) {
	before, _ := statuses()
	code, stdout, _ := command(t.Context(), "status", "--json", "--admin", pretend(t, looks(before)))
	var got admin.Status
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || got.PID != before.PID {
		t.Errorf("exit code %d, %v: %s", code, err, stdout)
	}
}

// Watching ends with its context, as with Ctrl-C, and that is no failure.
func TestWatch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	before, after := statuses()
	answer, seen := looks(before, after), 0
	address := pretend(t, func(w http.ResponseWriter, r *http.Request) {
		if seen++; seen == 4 {
			cancel()
		}
		answer(w, r)
	})
	var out strings.Builder
	w := &watcher{address: address, out: &out, every: 1}
	if err := w.untilSignal(ctx, w.watch); err != nil {
		t.Error(err)
	}
	if screens := strings.Count(out.String(), clearScreen+"Sluice v1"); screens < 2 {
		t.Errorf("%d screens after 3 whole looks:\n%s", screens, &out)
	}
}

func TestStatusOfSomethingElse(t *testing.T) {
	for _, c := range []struct {
		name, address, want string
	}{
		{"nobody", closedPort(t), "nobody answers on 127.0.0.1:"},
		{"no socket", "unix:" + filepath.Join(t.TempDir(), "none.sock"), "nobody answers on unix:"},
		{"another program", pretend(t, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }), "not a status of Sluice"},
		{"an error", pretend(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "go away", 403) }), "answers 403: go away"},
	} {
		code, _, stderr := command(t.Context(), "status", "--admin", c.address)
		if code != 1 || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d: %s, want %s", c.name, code, stderr, c.want)
		}
	}
}

// closedPort is an address that nobody listens on, and that the kernel gives to
// no connection before the test uses it.
func closedPort(t *testing.T) string {
	t.Helper()
	return "127.0.0.1:" + testkit.FreePort(t)
}

func TestReload(t *testing.T) {
	for _, c := range []struct {
		status       int
		body         string
		code         int
		stdout, errs string
	}{
		{200, "reloaded: generation 3\n", 0, "reloaded: generation 3\n", ""},
		{409, "a.yaml:1: x\na.yaml:2: y\n", 1, "", "sluice: the old configuration stays in force:\na.yaml:1: x\na.yaml:2: y\n"},
		{403, "no\n", 1, "", "sluice: no\n"},
	} {
		var asked string
		address := pretend(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.URL.Path
			w.WriteHeader(c.status)
			w.Write([]byte(c.body))
		})
		code, stdout, stderr := command(t.Context(), "reload", "--admin", address)
		if code != c.code || stdout != c.stdout || stderr != c.errs || asked != "POST /reload" {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", asked, code, stdout, stderr)
		}
	}
}

// The examples are what a newcomer copies.
func TestExamplesAreGood(t *testing.T) {
	examples, err := filepath.Glob("../../deploy/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("%d examples, %v", len(examples), err)
	}
	for _, path := range examples {
		if _, err := config.Load(path); err != nil {
			t.Errorf("%v", err)
		}
	}
}
