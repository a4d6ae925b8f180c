package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/internal/config"
	"sluice/internal/segment"
)

// The README is a contract with newcomers: what it shows is tried here.

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block is fenced text: ```info.
type block struct{ info, text string }

var fence = regexp.MustCompile("(?ms)^```([a-z][a-z ]*)\n(.*?)^```$")

// blocks are all fenced texts of the README, in order.
func blocks(t *testing.T) []block {
	t.Helper()
	var all []block
	for _, found := range fence.FindAllStringSubmatch(readme(t), -1) {
		all = append(all, block{found[1], found[2]})
	}
	return all
}

// marked is the text between <!-- name --> and <!-- /name -->.
func marked(t *testing.T, name string) string {
	t.Helper()
	_, rest, begins := strings.Cut(readme(t), "<!-- "+name+" -->\n")
	text, _, ends := strings.Cut(rest, "<!-- /"+name+" -->")
	if !begins || !ends {
		t.Fatalf("the README has no place marked %s", name)
	}
	return text
}

// Links to files lead somewhere, and the picture is small enough for a clone.
func TestReadmeLinks(t *testing.T) {
	const maxFile = 150 << 10 // bytes
	links := regexp.MustCompile(`\]\(([a-z][A-Za-z0-9_./-]+)\)`).FindAllStringSubmatch(readme(t), -1)
	if len(links) < 4 {
		t.Errorf("only %d links found", len(links))
	}
	for _, link := range links {
		info, err := os.Stat("../../" + link[1])
		switch {
		case err != nil:
			t.Error(err)
		case info.Mode().IsRegular() && info.Size() > maxFile:
			t.Errorf("%s has %d bytes, more than %d", link[1], info.Size(), maxFile)
		}
	}
}

// The map of the code names every package, and every file that it names exists.
func TestMap(t *testing.T) {
	const root = "../../internal/"
	text, err := os.ReadFile(root + "ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9]+(?:/[a-z0-9_]+)*)(\\.go)?`").FindAllStringSubmatch(string(text), -1)
	packages := map[string]bool{}
	for _, n := range named {
		if n[2] == "" {
			packages[n[1]] = true
		} else if _, err := os.Stat(root + n[1] + n[2]); err != nil && strings.Contains(n[1], "/") {
			t.Error(err)
		}
	}
	sources, err := filepath.Glob(root + "*/*.go")
	if err != nil || len(sources) < 100 {
		t.Fatalf("%d files, %v", len(sources), err)
	}
	for _, source := range sources {
		if name := filepath.Base(filepath.Dir(source)); !packages[name] {
			t.Errorf("the map does not name package %s", name)
			packages[name] = true // once is enough
		}
	}
}

func TestReadmeConfigurations(t *testing.T) {
	good, faulty := 0, 0
	for i, b := range blocks(t) {
		_, err := config.Parse("sluice.yaml", []byte(b.text))
		switch b.info {
		case "yaml":
			good++
			if err != nil {
				t.Errorf("an example is refused:\n%s\n%v", b.text, err)
			}
		case "yaml faulty": // the text below it is what Sluice says
			faulty++
			if want := strings.TrimSpace(blocks(t)[i+1].text); err == nil || strings.TrimSpace(err.Error()) != want {
				t.Errorf("the faulty example gives\n%v\nand not\n%s", err, want)
			}
		}
	}
	if good < 3 || faulty != 1 {
		t.Errorf("%d good examples, %d faulty", good, faulty)
	}
}

// Every `sluice …` line names a command, flags that it has, and as many arguments
// as it takes.
func TestReadmeCommands(t *testing.T) {
	tried := 0
	for _, b := range blocks(t) {
		if b.info != "sh" {
			continue
		}
		for line := range strings.Lines(b.text) {
			text, _, _ := strings.Cut(line, "#")
			words := strings.Fields(text)
			if len(words) == 0 || strings.TrimPrefix(words[0], "bin/") != "sluice" {
				continue
			}
			tried++
			if err := parses(words[1:]); err != nil {
				t.Errorf("%s: %v", strings.TrimSpace(text), err)
			}
		}
	}
	if tried < 8 {
		t.Errorf("only %d commands found", tried)
	}
}

// parses tells whether a command line would run.
func parses(args []string) error {
	c, rest, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	if !c.HasParent() {
		return fmt.Errorf("%s is no command", args[0])
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// withoutDefault says what the table of defaults shows for keys that have none.
var withoutDefault = map[string]string{
	"workers.cpus":             "all",
	"workers.nodes":            "all",
	"listeners[].name":         "the address",
	"farms.NAME.servers[].url": "required",

	"tls.acme.names":                      "required",
	"tls.acme.cache":                      "required",
	"tls.acme.email":                      "none",
	"tls.acme.ca":                         "none",
	"tls.tickets.file":                    "none",
	"listeners[].redirect":                "none",
	"listeners[].tls.certificates[].cert": "required",
	"listeners[].tls.certificates[].key":  "`cert`",
	"listeners[].tls.client_auth.ca":      "none",
	"listeners[].tcp.routes[].farm":       "required",
	"listeners[].tcp.routes[].sni":        "any",
	"listeners[].tcp.connections":         "`0`",
	"farms.NAME.tls.ca":                   "the system's",
	"farms.NAME.tls.name":                 "the URL's host",
	"farms.NAME.tls.cert":                 "none",
	"farms.NAME.tls.key":                  "`cert`",
	"farms.NAME.tls.pins":                 "none",
	"farms.NAME.admission.priority":       "none",
	"farms.NAME.admission.tenant":         "none",
	"farms.NAME.admission.deadline":       "none",
	"routes[].host":                       "any",
	"routes[].path":                       "any",
	"routes[].farm":                       "required",
	"routes[].admission":                  "as the farm",
}

func TestReadmeDefaults(t *testing.T) {
	c, err := config.Parse("least", []byte(`
listeners: [{address: ":8080", tls: {certificates: [a.pem]}}]
tls: {acme: {names: [a.example], cache: /c}}
farms: {NAME: {servers: [{url: "https://127.0.0.1:3000"}], tls: {}}}`))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(encoded)))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	flatten(tree, "", want)
	delete(want, "farms.NAME.name") // in a file it is the key itself
	maps.Copy(want, withoutDefault)

	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\|")
	got := map[string]string{}
	for _, found := range row.FindAllStringSubmatch(marked(t, "defaults"), -1) {
		got[found[1]] = found[2]
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			t.Errorf("%s: the README says %q, the code %q", key, got[key], want[key])
		}
	}
	for key := range got {
		if _, known := want[key]; !known {
			t.Errorf("%s: in the README, and not in the code", key)
		}
	}
}

// flatten makes paths of a tree: limits.head, listeners[].address.
func flatten(v any, path string, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(value, strings.TrimPrefix(path+"."+key, "."), into)
		}
	case []any:
		var words []string
		for _, value := range v {
			word, isWord := value.(string)
			switch {
			case isWord:
				words = append(words, word)
			case path == "farms":
				flatten(value, "farms.NAME", into)
			default:
				flatten(value, path+"[]", into)
			}
		}
		if words != nil {
			into[path] = "`[" + strings.Join(words, ", ") + "]`"
		}
	case nil: // a list with nothing in it
		into[path] = "`[]`"
	default:
		into[path] = fmt.Sprintf("`%v`", v)
	}
}

// Every reason has its place in the table of statuses.
func TestReadmeReasons(t *testing.T) {
	table := marked(t, "reasons")
	for _, reason := range segment.ReasonNames {
		if strings.Count(table, "`"+reason+"`") != 1 {
			t.Errorf("%s stands %d times in the table of reasons", reason, strings.Count(table, "`"+reason+"`"))
		}
	}
}

// The admin pages answer, the metrics exist, and a line of the log has the keys
// that the README shows.
func TestReadmeOperating(t *testing.T) {
	backend := pretend(t, func(w http.ResponseWriter, _ *http.Request) {})
	site, admin := closedPort(t), "unix:"+t.TempDir()+"/admin.sock"
	p := start(t, "run", "--listen", site, "--to", "http://"+backend, "--admin", admin)
	p.awaitReady(t)
	get(t, "http://"+site+"/")
	line, err := p.stdout.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]string{}
	for _, found := range regexp.MustCompile("(?m)^\\| `(/[^`]+)` \\|").FindAllStringSubmatch(marked(t, "pages"), -1) {
		code, body, err := ask(t.Context(), admin, http.MethodGet, found[1])
		if err != nil || code != http.StatusOK {
			t.Errorf("%s: %d, %v", found[1], code, err)
		}
		answers[found[1]] = string(body)
	}
	metrics := regexp.MustCompile("`(sluice_[a-z_]+)`").FindAllStringSubmatch(marked(t, "metrics"), -1)
	if len(answers) < 5 || len(metrics) < 10 {
		t.Errorf("%d pages, %d metrics", len(answers), len(metrics))
	}
	for _, found := range metrics {
		if !strings.Contains(answers["/metrics"], "# TYPE "+found[1]+" ") {
			t.Errorf("there is no metric %s", found[1])
		}
	}
	p.end(t, syscall.SIGTERM)
	compareLog(t, line)
}

// compareLog holds a line of the access log against the README's.
func compareLog(t *testing.T, line []byte) {
	t.Helper()
	var shown, logged map[string]any
	for _, b := range blocks(t) {
		if b.info == "json" {
			if err := json.Unmarshal([]byte(b.text), &shown); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := json.Unmarshal(line, &logged); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(shown, func(key string, _ any) bool { // this request did not fail, and came without TLS
		return slices.Contains([]string{"failed_by", "phase", "reason", "error"}, key) || strings.HasPrefix(key, "tls_")
	})
	want, got := slices.Sorted(maps.Keys(shown)), slices.Sorted(maps.Keys(logged))
	if !slices.Equal(want, got) {
		t.Errorf("the README's line has\n%q, a real one\n%q", want, got)
	}
}
