package accesslog

import (
	"bytes"
	"net/netip"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// local sets the time zone of the machine for the time of a test.
func local(t testing.TB, zone *time.Location) {
	was := time.Local
	time.Local = zone
	t.Cleanup(func() { time.Local = was })
}

func TestCombinedLine(t *testing.T) {
	local(t, time.FixedZone("", -(3*60+30)*60))
	for _, c := range []struct {
		name string
		edit func(*Entry)
		want string
	}{
		{"usual", func(*Entry) {},
			`192.0.2.17 - - [21/Nov/2026:20:29:58 -0330] "GET /articles/2026/11?page=2 HTTP/1.1" 200 5321 "https://www.example.com/" "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"`},
		{"nothing told", func(e *Entry) { e.Referer, e.UserAgent, e.BytesOut = nil, nil, 0 },
			`192.0.2.17 - - [21/Nov/2026:20:29:58 -0330] "GET /articles/2026/11?page=2 HTTP/1.1" 200 0 "-" "-"`},
		{"nothing understood", func(e *Entry) { *e = Entry{Wall: e.Wall, Status: 400, BytesOut: 150} },
			`- - - [21/Nov/2026:20:29:58 -0330] "-" 400 150 "-" "-"`},
		{"nothing sent", func(e *Entry) { *e = Entry{Wall: e.Wall, Client: e.Client, Method: []byte("GET")} },
			`192.0.2.17 - - [21/Nov/2026:20:29:58 -0330] "GET" 000 0 "-" "-"`},
		{"behind a proxy", func(e *Entry) {
			e.RealClient, e.Referer, e.UserAgent = netip.MustParseAddr("2001:db8::1"), nil, nil
		}, `2001:db8::1 - - [21/Nov/2026:20:29:58 -0330] "GET /articles/2026/11?page=2 HTTP/1.1" 200 5321 "-" "-"`},
		{"what nginx escapes", func(e *Entry) {
			e.Target, e.Referer, e.UserAgent = []byte(`/"\`), []byte("ü\n"), []byte("\x00\x1f ~\x7f\xff")
		}, `192.0.2.17 - - [21/Nov/2026:20:29:58 -0330] "GET /\x22\x5C HTTP/1.1" 200 5321 "\xC3\xBC\x0A" "\x00\x1F ~\x7F\xFF"`},
	} {
		e := usual()
		c.edit(&e)
		if got := string(appendCombined(nil, &e, &clock{})); got != c.want+"\n" {
			t.Errorf("%s:\ngot  %swant %s", c.name, got, c.want)
		}
	}
}

// combinedLine is how log analysers take a line apart.
var combinedLine = regexp.MustCompile(`^(\S+) - - \[([^\]]+)\] "([^"]*)" (-?\d+) (-?\d+) "([^"]*)" "([^"]*)"\n$`)

func FuzzCombined(f *testing.F) {
	f.Add([]byte("/"), []byte(""), []byte("curl/8"))
	f.Add([]byte("\\\"\n"), []byte{0xff, 0}, []byte(`\x22`))
	f.Fuzz(func(t *testing.T, target, referer, agent []byte) {
		e := Entry{Client: netip.MustParseAddrPort("192.0.2.1:1"), Method: []byte("GET"), Target: target, Referer: referer, UserAgent: agent, Status: 200}
		line := appendCombined(nil, &e, &clock{})
		parts := combinedLine.FindSubmatch(line)
		if parts == nil {
			t.Fatalf("cannot be taken apart: %q", line)
		}
		for _, c := range line[:len(line)-1] {
			if c < ' ' || c > '~' {
				t.Fatalf("byte %#x in %q", c, line)
			}
		}
		for i, in := range map[int][]byte{6: referer, 7: agent} {
			if want := in; 4*len(in) <= maxField && len(in) > 0 && !bytes.Equal(unhex(t, parts[i]), want) {
				t.Errorf("%q came back as %q", want, unhex(t, parts[i]))
			}
		}
	})
}

var hexEscape = regexp.MustCompile(`\\x[0-9A-F]{2}`)

// unhex undoes appendHex, as a reader of the log would.
func unhex(t *testing.T, s []byte) []byte {
	return hexEscape.ReplaceAllFunc(s, func(esc []byte) []byte {
		c, err := strconv.ParseUint(string(esc[2:]), 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		return []byte{byte(c)}
	})
}
