package proxy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A transcript tells what passes between clients, Sluice and servers. Its lines
// are seen from the party they name:
//
//	== what it shows
//	config limits: {head: 200}       a line of the configuration
//	farm   connections: {idle: 0}    a line of the farm
//	servers 2                        called a and b; 1 if it is not said
//	virtual                          not over sockets: it tells of time, or of silence
//	secure                           the listener's clients come by TLS, with HSTS of a year
//	redirects                        it sends them to https, port 8443
//	c → GET / HTTP/1.1               client c sends this line, CR LF included
//	  → Host: x                      so it goes on
//	  →
//	a1 ← GET / HTTP/1.1              a's first connection receives just this, then that
//	   …
//	a1 → HTTP/1.1 200 OK
//	c ← (end)                        also (reset), (over) where either will do, (nothing)
//	c → (end)                        half a close; also (close), (reset)
//	c ← (page 502, close)            an error page of Sluice's own, and what becomes of the connection
//	c ← (page 503, retry 1)          with Retry-After; without "retry" there is none
//	repeat 3                         what follows up to "again" happens so many times
//	c reads 100 bytes                as they are, whatever they are
//	wait 5s                          of virtual time
//	a refuses                        connections; also: a hangs, a accepts
//	a node 2                         it runs on the worker's own node; on another: 3
//	a starts                         it accepts, and was seen to begin to
//	drain
//	a limit 2                        a may have so many requests at once; 0: any number
//	reload farm admission: off       another configuration: this line, config or farm, in place of the one with its key
//	counts held=1 left=0             figures of the loop; they are waited for
//	a counts good=1 permits=0        the same of a server
//	log status=200 server=…          the next line of the access log has these
//
// ¶ is CR LF within a line. A line that ends with \ has none at its end. \r, \n, \t,
// \0 and \xHH are bytes, {300*ab} repeats. In what is received … stands for any
// bytes of a line.
type script struct {
	name     string // file and title
	config   []string
	farm     []string
	servers  int
	virtual  bool
	listener Listener // that clients come to
	secured  *Secured // their TLS; nil: the listener says all of it
	steps    []step
	times    int // how often the steps from that one on are repeated
	from     int
}

// step is one thing that happens, or must be seen.
type step struct {
	line  int
	party string // c, d …; a1, a2, b1 …; empty for wait, drain, log, reload, counts
	does  string // sends, gets, or the word itself
	text  string // bytes, their pattern, or what follows the word
}

// scripts reads every transcript in testdata.
func scripts(t *testing.T) (all []*script) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(filepath.Base(name), ".txt")
		var s *script
		for i, line := range strings.Split(string(text), "\n") {
			if title, ok := strings.CutPrefix(line, "== "); ok {
				s = &script{name: base + "/" + title, servers: 1, listener: Listener{Name: "web", Port: []byte("8080")}}
				all = append(all, s)
				continue
			}
			if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
				continue
			}
			if err := s.read(i+1, line); err != nil {
				t.Fatalf("%s:%d: %q: %v", name, i+1, line, err)
			}
		}
	}
	return all
}

var traffic = regexp.MustCompile(`^([a-z]\d*)? *(→|←)(?: (.*))?$`)

// read takes one line.
func (s *script) read(number int, line string) error {
	if m := traffic.FindStringSubmatch(strings.TrimLeft(line, " ")); m != nil {
		party, text := m[1], m[3]
		if party == "" {
			party = s.steps[len(s.steps)-1].party
		}
		does := map[string]string{"→": "sends", "←": "gets"}[m[2]]
		if strings.HasPrefix(text, "(") {
			s.steps = append(s.steps, step{number, party, does + " event", strings.Trim(text, "()")})
			return nil
		}
		text, err := unescape(text)
		if err != nil {
			return err
		}
		if last := len(s.steps) - 1; last >= 0 && m[1] == "" && s.steps[last].does == does {
			s.steps[last].text += text
			return nil
		}
		s.steps = append(s.steps, step{number, party, does, text})
		return nil
	}
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "config":
		s.config = append(s.config, rest)
	case "farm":
		s.farm = append(s.farm, rest)
	case "servers":
		n, err := strconv.Atoi(rest)
		s.servers = n
		return err
	case "virtual":
		s.virtual = true
	case "secure":
		s.listener.Secure, s.listener.HSTS = true, []byte("max-age=31536000")
	case "shows": // the client, a certificate
		s.secured = &Secured{Cert: []byte(rest)}
	case "redirects":
		s.listener.Redirect = "https:8443"
	case "repeat":
		n, err := strconv.Atoi(rest)
		s.times, s.from = n, len(s.steps)
		return err
	case "again":
		s.steps = append(s.steps, slices.Repeat(s.steps[s.from:], s.times-1)...)
	case "wait", "drain", "log", "reload", "counts":
		s.steps = append(s.steps, step{number, "", word, rest})
	default:
		verb, rest, _ := strings.Cut(rest, " ")
		s.steps = append(s.steps, step{number, word, verb, rest})
	}
	return nil
}

var (
	repeats = regexp.MustCompile(`\{(\d+)\*([^}]+)\}`)
	escapes = regexp.MustCompile(`\\(x[0-9a-f]{2}|.)`)
)

// unescape makes bytes of a transcript's line.
func unescape(text string) (string, error) {
	end := "\r\n"
	if open, ok := strings.CutSuffix(text, `\`); ok {
		text, end = open, ""
	}
	var err error
	text = strings.ReplaceAll(text, "¶", "\r\n")
	text = escapes.ReplaceAllStringFunc(text, func(e string) string {
		switch e[1] {
		case 'r':
			return "\r"
		case 'n':
			return "\n"
		case 't':
			return "\t"
		case '0':
			return "\x00"
		case 'x':
			b, _ := strconv.ParseUint(e[2:], 16, 8)
			return string([]byte{byte(b)})
		}
		err = fmt.Errorf("no such escape: %s", e)
		return e
	})
	text = repeats.ReplaceAllStringFunc(text, func(r string) string {
		m := repeats.FindStringSubmatch(r)
		n, _ := strconv.Atoi(m[1])
		return strings.Repeat(m[2], n)
	})
	return text + end, err
}

// pattern makes an expression of what must be received.
func pattern(text string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(text)
	return regexp.MustCompile(`\A` + strings.ReplaceAll(quoted, "…", `[^\r\n]*`))
}
