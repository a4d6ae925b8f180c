package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/accesslog"
	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// stage is the proxy of one loop with its surroundings: a transcript is played on
// it.
type stage struct {
	t       *testing.T
	rig     rig
	script  script // as it is by now: a reload changes it
	urls    []string
	proxy   *Proxy
	pool    *upstream.Pool
	servers *upstream.Servers
	loop    segment.LoopStats
	figures []segment.ServerStats // by server
	lobby   *lobby
	log     *accesslog.Log
	logPath string
	logged  int // lines that have been compared
	parties map[string]party
}

// rig is the ground under a stage: the simulation, or a real loop with sockets.
type rig interface {
	// urls are where the servers are.
	urls(servers int) []string
	executor() reactor.Executor
	dial(a reactor.Address, timeout time.Duration) (reactor.Stream, error)
	// on runs f as the loop would.
	on(f func())
	// client is a new client's end of a connection that s serves.
	client(s *stage) party
	// server is the server's end of the connection that was opened as the nth to a
	// server; nil if there is none.
	server(letter byte, nth int) party
	// mode says how a server treats new connections: accepts, refuses, hangs.
	mode(letter byte, mode string)
	// wait lets time go by.
	wait(d time.Duration)
	// settled evaluates cond when nothing moves any more, or until it holds.
	settled(cond func() bool) bool
}

// party is a client or a server.
type party interface {
	send(text string)
	// event is end (of sending), close or reset.
	event(what string)
	// received is what has come and was not taken, and how the connection ended:
	// "", end or reset.
	received() (text, ended string)
	take(n int)
}

// ownNode is the node of a stage's worker.
const ownNode = 2

// quiet is the configuration that transcripts begin with: what servers see is
// what clients have sent.
const quiet = `forward: {x_forwarded: false, via: "off", request_id: false}
`

// newStage builds a proxy from the configuration of a transcript.
func newStage(t *testing.T, r rig, sc *script) *stage {
	t.Helper()
	s := &stage{t: t, rig: r, script: *sc, urls: r.urls(sc.servers), parties: map[string]party{}, figures: make([]segment.ServerStats, sc.servers)}
	s.logPath = filepath.Join(t.TempDir(), "access.log")
	cfg, err := s.parse()
	if err != nil {
		t.Fatal(err)
	}
	s.build(cfg)
	return s
}

// parse reads the configuration of the transcript.
func (s *stage) parse() (*config.Config, error) {
	var text strings.Builder
	if !strings.Contains(strings.Join(s.script.config, "\n"), "forward:") {
		text.WriteString(quiet)
	}
	fmt.Fprintf(&text, "log: {access: {path: %q, flush: 10ms}}\n", s.logPath)
	for _, line := range s.script.config {
		text.WriteString(line + "\n")
	}
	text.WriteString("farms:\n  app:\n    servers:\n")
	for _, url := range s.urls {
		fmt.Fprintf(&text, "      - {url: %q}\n", url)
	}
	for _, line := range s.script.farm {
		text.WriteString("    " + line + "\n")
	}
	if !strings.Contains(text.String(), "routes:") {
		text.WriteString("routes: [{farm: app}]\n")
	}
	cfg, err := config.Parse("transcript", []byte(text.String()))
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, text.String())
	}
	return cfg, nil
}

func (s *stage) build(cfg *config.Config) {
	s.servers = upstream.NewServers()
	s.lobby = newLobby(s.t, s.figures)
	s.servers.Settle([]int{ownNode}, func(slot int) *segment.Home { return &s.lobby.homes[slot-firstSlot] })
	stats := func(slot int) *segment.ServerStats { return &s.figures[slot-firstSlot] }
	s.pool = upstream.NewPool(s.rig.executor(), s.rig.dial, nil, stats, new(segment.Counter))
	var err error
	if s.log, err = accesslog.Open(cfg.Log.Access, 1); err != nil {
		s.t.Fatal(err)
	}
	s.rig.on(func() {
		s.proxy = New(s.rig.executor(), s.pool, s.lobby.desk, &s.loop, Place{Worker: 1, Node: ownNode, Loop: 3})
		s.proxy.LogTo(s.log.Writer(0, &s.loop.LogDropped))
	})
	s.pool.CarryBy(s.proxy.Carry)
	if err := s.apply(cfg); err != nil {
		s.t.Fatal(err)
	}
}

// play goes through the steps; the first that fails ends it.
func (s *stage) play(sc *script) {
	for _, st := range sc.steps {
		if err := s.take(st); err != nil {
			s.t.Fatalf("line %d: %s %s: %v", st.line, st.party, st.does, err)
		}
	}
	s.end()
}

// take is one step.
func (s *stage) take(st step) error {
	switch st.does {
	case "wait":
		d, err := time.ParseDuration(st.text)
		s.rig.wait(d)
		return err
	case "drain":
		s.rig.on(s.proxy.Drain)
		return nil
	case "log":
		return s.compareLog(st.text)
	case "counts":
		return s.compareCounts(st.party, st.text)
	case "reload":
		return s.reload(st.text)
	case "limit":
		var err error
		s.rig.on(func() { err = s.lobby.limit(st.party[0], st.text, s.rig.executor().Now()) })
		return err
	case "node":
		node, err := strconv.Atoi(st.text)
		s.lobby.homes[st.party[0]-'a'].Settle(node)
		return err
	case "starts":
		s.rig.mode(st.party[0], "accepts")
		s.lobby.homes[st.party[0]-'a'].Began()
		return nil
	case "refuses", "hangs", "accepts":
		s.rig.mode(st.party[0], st.does)
		return nil
	}
	p, err := s.party(st.party)
	if err != nil {
		return err
	}
	switch st.does {
	case "sends":
		p.send(st.text)
	case "sends event":
		p.event(st.text)
	case "gets":
		return s.expect(p, st.text)
	case "gets event":
		return s.expectEvent(p, st.text)
	case "reads":
		return s.count(p, st.text)
	case "opens":
	default:
		return fmt.Errorf("no such step")
	}
	return nil
}

// party finds a client, who connects when first named, or a server's connection,
// which the proxy must have opened.
func (s *stage) party(name string) (party, error) {
	if p := s.parties[name]; p != nil {
		return p, nil
	}
	var p party
	if len(name) == 1 {
		p = s.rig.client(s)
	} else {
		nth, _ := strconv.Atoi(name[1:])
		s.rig.settled(func() bool { p = s.rig.server(name[0], nth); return p != nil })
	}
	if p == nil {
		return nil, fmt.Errorf("the connection was not opened")
	}
	s.parties[name] = p
	return p, nil
}

// expect compares what came with what must come.
func (s *stage) expect(p party, text string) error {
	want := pattern(text)
	s.rig.settled(func() bool {
		got, ended := p.received()
		return ended != "" || want.MatchString(got)
	})
	got, ended := p.received()
	at := want.FindStringIndex(got)
	if at == nil {
		return fmt.Errorf("got\n%s(%s)\nwant\n%s", visible(got), ended, visible(text))
	}
	p.take(at[1])
	return nil
}

// visible shows bytes as a transcript writes them.
func visible(text string) string {
	if len(text) > 2000 {
		text = text[:1000] + " … " + text[len(text)-1000:]
	}
	quoted := strconv.Quote(text)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\r\n`, "\n"), `\"`, `"`)
}

func (s *stage) expectEvent(p party, what string) error {
	if page, ok := strings.CutPrefix(what, "page "); ok {
		return s.expectPage(p, page)
	}
	s.rig.settled(func() bool { got, ended := p.received(); return got != "" || ended != "" })
	got, ended := p.received()
	switch {
	case what == "nothing":
		what = ""
	case what == "over" && ended != "":
		what = ended
	}
	if got != "" || ended != what {
		return fmt.Errorf("got\n%s(%s)", visible(got), ended)
	}
	return nil
}

// expectPage wants a whole response of Sluice's own: its status, then what else
// is special about it: close, json, head (no content), retry N (in N seconds).
func (s *stage) expectPage(p party, what string) error {
	words := strings.Split(what, ", ")
	special, retry := map[string]bool{}, ""
	for _, w := range words[1:] {
		special[w] = true
		if s, ok := strings.CutPrefix(w, "retry "); ok {
			retry = "\r\nRetry-After: " + s + "\r\n"
		}
	}
	var head, body string
	s.rig.settled(func() (whole bool) {
		got, ended := p.received()
		head, body, whole = strings.Cut(got, "\r\n\r\n")
		return ended != "" || whole && (special["head"] || len(body) >= contentLength(head))
	})
	got, _ := p.received()
	length := contentLength(head)
	if special["head"] {
		length = 0
	}
	if !strings.HasPrefix(head, "HTTP/1.1 "+words[0]+" ") || len(body) < length || contentLength(head) == 0 {
		return fmt.Errorf("got\n%s", visible(got))
	}
	kind := "text/html; charset=utf-8"
	if special["json"] {
		kind = "application/json"
	}
	page := body[:length]
	switch {
	case strings.Contains(head, "\r\nConnection: close") != special["close"]:
		return fmt.Errorf("the connection's fate: got\n%s", visible(head))
	case !strings.Contains(head, retry), retry == "" && strings.Contains(head, "\r\nRetry-After:"):
		return fmt.Errorf("when to try again: got\n%s", visible(head))
	case !strings.Contains(head, "\r\nContent-Type: "+kind+"\r\n"), !strings.Contains(head, "\r\nServer: sluice\r\n"), !strings.Contains(head, "\r\nDate: "):
		return fmt.Errorf("the head: got\n%s", visible(head))
	case special["json"] && !json.Valid([]byte(page)), !special["head"] && !strings.Contains(page, words[0]):
		return fmt.Errorf("the page: got\n%s", page)
	}
	p.take(len(head) + 4 + length)
	return nil
}

func contentLength(head string) int {
	_, rest, _ := strings.Cut(head, "\r\nContent-Length: ")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, _ := strconv.Atoi(text)
	return n
}

// count takes just so many bytes.
func (s *stage) count(p party, text string) error {
	number, _, _ := strings.Cut(text, " ")
	for n, _ := strconv.Atoi(number); n > 0; {
		s.rig.settled(func() bool { got, ended := p.received(); return got != "" || ended != "" })
		got, ended := p.received()
		if got == "" {
			return fmt.Errorf("%d bytes are missing (%s)", n, ended)
		}
		p.take(min(n, len(got)))
		n -= min(n, len(got))
	}
	return nil
}

// compareLog wants these values in the next line of the access log.
func (s *stage) compareLog(text string) error {
	var lines [][]byte
	s.rig.wait(20 * time.Millisecond)
	s.rig.settled(func() bool {
		whole, _ := os.ReadFile(s.logPath)
		lines = bytes.Split(whole, []byte("\n"))
		return len(lines) > s.logged+1
	})
	if len(lines) <= s.logged+1 {
		return fmt.Errorf("the log has %d lines", len(lines)-1)
	}
	line := lines[s.logged]
	s.logged++
	var entry map[string]any
	if err := json.Unmarshal(line, &entry); err != nil {
		return fmt.Errorf("%s: %v", line, err)
	}
	for _, field := range strings.Fields(text) {
		key, want, _ := strings.Cut(field, "=")
		value := ""
		if v, there := entry[key]; there {
			value = fmt.Sprint(v)
		}
		if !pattern(want).MatchString(value) || want == "" && value != "" {
			return fmt.Errorf("%s is %q, want %q in\n%s", key, value, want, line)
		}
	}
	return nil
}

// end has the clients close and checks that nothing is left: bytes that nobody
// expected, or anything counted as in progress.
func (s *stage) end() {
	for name, p := range s.parties {
		if got, _ := p.received(); got != "" {
			s.t.Errorf("%s has also got\n%s", name, visible(got))
		}
	}
	for name, p := range s.parties {
		if len(name) == 1 {
			p.event("close")
		}
	}
	sessions := &s.loop.Connections
	if !s.rig.settled(func() bool { return sessions.Load() == 0 }) {
		s.t.Errorf("%d sessions are left", sessions.Load())
	}
	s.balance()
}

// close ends what runs beside the loop, however the transcript has ended.
func (s *stage) close() {
	s.servers.Close()
	s.log.Close()
}

// balance checks that every gauge is back where it was.
func (s *stage) balance() {
	l := &s.loop
	for name, got := range map[string]int64{"active": l.Active.Load(), "idle": l.Idle.Load(), "held": l.Held.Load(), "panics": int64(l.Panics.Load())} {
		if got != 0 {
			s.t.Errorf("at the end %s is %d", name, got)
		}
	}
	for i := range s.figures {
		f := &s.figures[i]
		if !s.rig.settled(func() bool { return f.InFlight.Load() == 0 && f.Open.Load() == f.Idle.Load() }) {
			s.t.Errorf("server %c at the end: %d in flight, %d open, %d idle", 'a'+i, f.InFlight.Load(), f.Open.Load(), f.Idle.Load())
		}
	}
	s.cleared()
}
