package route

import (
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/internal/config"
)

// farms are the farms of the tests; a route's farm is found by its place here.
var farms = []string{"zero", "one", "two", "three", "four", "five"}

func indexOf(name string) int {
	for i, farm := range farms {
		if farm == name {
			return i
		}
	}
	return -1
}

// table reads routes as lines of "host path farm"; "-" stands for nothing.
func table(t testing.TB, text string) *Table {
	t.Helper()
	made, err := New(parse(text), indexOf)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func parse(text string) []config.Route {
	var routes []config.Route
	for line := range strings.Lines(strings.TrimSpace(text)) {
		f := strings.Fields(line)
		for i := range f {
			if f[i] == "-" {
				f[i] = ""
			}
		}
		routes = append(routes, config.Route{Host: f[0], Path: f[1], Farm: f[2]})
	}
	return routes
}

func TestMatch(t *testing.T) {
	for _, group := range []struct {
		name, routes string
		cases        [][3]string // host, path, farm; no farm: none matches
	}{
		{"everything", "- - zero", [][3]string{
			{"example.com", "/", "zero"}, {"", "", "zero"}, {"[::1]:80", "*", "zero"},
		}},
		{"no routes match nothing", "only.example - zero", [][3]string{
			{"other.example", "/", ""}, {"", "/", ""}, {"only.example.org", "/", ""}, {"x.only.example", "/", ""},
		}},
		{"the host: case, port, final dot", "Example.COM. - zero", [][3]string{
			{"example.com", "/", "zero"}, {"EXAMPLE.com", "/", "zero"}, {"example.com:8080", "/", "zero"},
			{"example.com.", "/", "zero"}, {"Example.Com.:443", "/", "zero"}, {"example.com:", "/", "zero"},
			{"example.com..", "/", ""}, {"xexample.com", "/", ""}, {"example.co", "/", ""},
		}},
		{"addresses", "127.0.0.1 - zero\n::1 - one\n[2001:DB8:0::A] - two", [][3]string{
			{"127.0.0.1:80", "/", "zero"}, {"[::1]", "/", "one"}, {"[::1]:8080", "/", "one"},
			{"[2001:db8::a]:1", "/", "two"}, {"[2001:DB8::A]", "/", "two"}, {"[::2]", "/", ""}, {"::1", "/", ""},
		}},
		{"wildcards", "a.example.com - zero\n*.b.example.com - one\n*.example.com - two", [][3]string{
			{"a.example.com", "/", "zero"}, {"c.example.com", "/", "two"}, {"x.b.example.com", "/", "one"},
			{"b.example.com", "/", "two"}, {"x.y.z.example.com:80", "/", "two"}, {"X.B.EXAMPLE.COM.", "/", "one"},
			{"example.com", "/", ""}, {".example.com", "/", ""}, {"notexample.com", "/", ""},
		}},
		{"a path is a prefix of whole segments", "- /api zero\n- /a/b/ one", [][3]string{
			{"h", "/api", "zero"}, {"h", "/api/", "zero"}, {"h", "/api/x/y", "zero"},
			{"h", "/apis", ""}, {"h", "/ap", ""}, {"h", "/API", ""}, {"h", "/x/api", ""}, {"h", "/", ""}, {"h", "", ""}, {"h", "*", ""},
			{"h", "/a/b", "one"}, {"h", "/a/b/c", "one"}, {"h", "/a/bc", ""}, {"h", "/a", ""},
		}},
		{"the root is any path", "- / zero\n", [][3]string{{"h", "/", "zero"}, {"h", "", "zero"}, {"h", "*", "zero"}}},
		{"the first match wins, whatever names it", "- /first zero\n*.example - one\na.example /x two\n- /y three\na.example - four\n- - five", [][3]string{
			{"a.example", "/first", "zero"}, {"a.example", "/x", "one"}, {"a.example", "/y", "one"},
			{"b.test", "/y/z", "three"}, {"b.test", "/x", "five"}, {"", "", "five"},
		}},
		{"a later wildcard loses to an earlier host", "a.example /x zero\n*.example - one\na.example - two", [][3]string{
			{"a.example", "/x/1", "zero"}, {"a.example", "/", "one"}, {"example", "/", ""},
		}},
	} {
		t.Run(group.name, func(t *testing.T) {
			made := table(t, group.routes)
			for _, c := range group.cases {
				farm, _, ok := made.Match([]byte(c[0]), []byte(c[1]))
				if ok != (c[2] != "") || farm != indexOf(c[2]) {
					t.Errorf("Match(%q, %q) = %d, %v, want farm %q", c[0], c[1], farm, ok, c[2])
				}
			}
		})
	}
}

// A host longer than any name is compared with no route, one byte shorter it is.
func TestLongHost(t *testing.T) {
	made := table(t, "*.example - zero")
	for _, c := range []struct {
		length int
		found  bool
	}{{maxHostBytes, true}, {maxHostBytes + 1, false}, {64 << 10, false}} {
		host := strings.Repeat("a", c.length-len(".example")) + ".example"
		if _, _, ok := made.Match([]byte(host), []byte("/")); ok != c.found {
			t.Errorf("host of %d bytes: matched %v, want %v", c.length, ok, c.found)
		}
	}
}

func TestUnknownFarm(t *testing.T) {
	_, err := New([]config.Route{{Farm: "one"}, {Farm: "ones"}}, indexOf)
	if err == nil || err.Error() != `routes[1]: no farm "ones"` {
		t.Errorf("err = %v", err)
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	host, path := []byte("Www.Example.COM:8080"), []byte("/api/v1/things")
	for name, routes := range map[string]string{
		"catch-all": "- - zero",
		"mixed":     "a.test - zero\n*.example.com /x one\nwww.example.com /api two\n- - three",
	} {
		made := table(t, routes)
		if n := testing.AllocsPerRun(100, func() { made.Match(host, path) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The table gives what asking one route after another gives.
func TestMatchIsFirstOfAll(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	matched := 0
	for range 5000 {
		routes := make([]config.Route, 1+random.IntN(6))
		for i := range routes {
			routes[i] = config.Route{
				Host: pick("", "a.b.c", "b.c", "*.b.c", "*.c", "[::1]", "*.a.b.c"),
				Path: pick("", "/", "/x", "/x/", "/x/y", "/xy"),
				Farm: pick(farms...),
			}
		}
		made, err := New(routes, indexOf)
		if err != nil {
			t.Fatal(err)
		}
		host := pick("a.b.c", "A.B.C:80", "b.c", "x.b.c", "x.a.b.c.", "c", "[::1]:8080", "")
		path := pick("", "/", "/x", "/x/", "/x/y/z", "/xy", "*")
		farm, route, ok := made.Match([]byte(host), []byte(path))
		if want := oneByOne(routes, host, path); farm != want || ok != (want >= 0) || ok && routes[route].Farm != farms[want] {
			t.Fatalf("routes %v: Match(%q, %q) = %d, %v, want %d", routes, host, path, farm, ok, want)
		}
		if ok {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("only %d of the random requests matched: they test too little", matched)
	}
}

// oneByOne matches as the documentation says it, without any table.
func oneByOne(routes []config.Route, host, path string) int {
	host = strings.ToLower(host)
	if !strings.HasSuffix(host, "]") {
		if i := strings.LastIndexByte(host, ':'); i >= 0 {
			host = host[:i]
		}
	}
	host = strings.TrimSuffix(host, ".")
	for _, r := range routes {
		suffix, wild := strings.CutPrefix(r.Host, "*")
		prefix := strings.TrimSuffix(r.Path, "/")
		hostFits := r.Host == "" || r.Host == host || wild && strings.HasSuffix(host, suffix)
		if hostFits && (prefix == "" || strings.HasPrefix(path+"/", prefix+"/")) {
			return indexOf(r.Farm)
		}
	}
	return -1
}

func BenchmarkMatch(b *testing.B) {
	host, path := []byte("www.example.com:8080"), []byte("/api/v1/things")
	for _, c := range []struct{ name, routes string }{
		{"catch-all", "- - zero"},
		{"by path", "- /admin zero\n- /api one\n- - two"},
		{"by host", "a.test - zero\n*.example.com /x one\nwww.example.com /api two\n- - three"},
		{"500 hosts", strings.Repeat("*.some.test /y zero\n", 500) + "*.example.com - one"},
	} {
		made := table(b, c.routes)
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				made.Match(host, path)
			}
		})
	}
}
