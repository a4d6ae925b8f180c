package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"sluice/internal/testkit"
)

// killedWorker is the one that is killed.
const killedWorker = "0"

// The protocols of the one port.
var stormProtocols = []string{"http/1.1", "h2", "h3"}

// storm is a Sluice of two workers that serves all protocols on one port, TCP and UDP,
// from servers that come and go.
type storm struct {
	*sluice
	register
	dice    *rand.Rand
	root    *testkit.Authority
	cert    string // file, with the key
	secrets string // file, of session tickets
	serial  int64  // of the certificate in the file
	edition int    // of the configuration
	houses  []*house
	sockets atomic.Int64 // WebSockets at servers
	asked   atomic.Int64
	shown   atomic.Int64 // the serial number that new connections show at least

	kills    spell // of a worker
	restarts spell // of a server that ends what it has begun
	deaths   spell // of one that does not
	leaving  atomic.Bool
	alive    context.Context // until Sluice has ended
	ended    context.CancelFunc

	tally  sync.Mutex
	counts map[string]int // guarded by tally: what clients have seen
	later  []string       // guarded by tally: requests that must not have been seen
	quick  []*wire        // guarded by tally: those of HTTP/3
}

// startStorm starts one before nothing has been asked.
func startStorm(t *testing.T, seed uint64) *storm {
	s := &storm{dice: rand.New(rand.NewPCG(seed, 9)), root: testkit.NewAuthority(t, "test authority"), counts: map[string]int{}}
	s.seen = map[string]int{}
	s.alive, s.ended = context.WithCancel(context.Background())
	t.Cleanup(s.ended)
	dir := shortDir(t)
	s.cert, s.secrets = filepath.Join(dir, "site.pem"), filepath.Join(dir, "secrets")
	s.newCertificate(t)
	s.newSecret(t)
	for i := range 5 { // three for requests, two for gRPC; the first has the WebSockets too
		s.houses = append(s.houses, newHouse(t, i >= 2, s))
	}
	s.sluice = start(t, s.sections(0)...)
	return s
}

// sections is a configuration, of which each nth is another.
func (s *storm) sections(n int) []string {
	list := func(houses []*house) (text string) {
		for _, h := range houses {
			text += fmt.Sprintf("{url: %q}, ", h.url())
		}
		return text
	}
	const farm = "  %s: {servers: [%s], retries: 3, fail_for: 100ms, admission: {queue: 1000}, timeouts: {keep_alive: 2s, idle: %ds}}\n"
	return []string{
		"farms:\n" + fmt.Sprintf(farm, "app", list(s.houses[:3]), 60+n) + fmt.Sprintf(farm, "calls", list(s.houses[3:]), 60+n) + fmt.Sprintf(farm, "chats", list(s.houses[:1]), 60+n),
		"routes: [{path: /call, farm: calls}, {path: /chat, farm: chats}, {farm: app}]",
		"workers: {per: 2, loops: 2}", "forward: {placement: true}", "timeouts: {drain: 1m}",
		fmt.Sprintf("limits: {head: %dKiB}", 16+n%8),
		fmt.Sprintf("tls: {tickets: {file: %q}}", s.secrets),
		fmt.Sprintf("listeners: [{name: tls, address: \"127.0.0.1:0\", protocols: [http1, http2, http3], tls: {certificates: [%q]}}]", s.cert),
	}
}

// newCertificate puts another certificate in the place of the one before.
func (s *storm) newCertificate(t *testing.T) {
	issued := s.root.Issue(testkit.Wish{Names: []string{"localhost"}})
	replace(t, s.cert, issued.Both())
	s.serial = issued.Leaf.SerialNumber.Int64()
}

// newSecret has new tickets sealed by another key, and the old ones opened still.
func (s *storm) newSecret(t *testing.T) {
	old, _ := os.ReadFile(s.secrets)
	secrets := fmt.Sprintf("%x\n%s", bytesOf(strconv.FormatUint(s.dice.Uint64(), 10), 32), old)
	replace(t, s.secrets, []byte(secrets))
}

// replace puts a file in the place of another in one step.
func replace(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.Rename(testkit.WriteFile(t, filepath.Dir(file), "draft", content), file); err != nil {
		t.Fatal(err)
	}
}

// fault notes what must not be, from any goroutine.
func (g *register) fault(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, fmt.Sprintf(format, args...))
}

func (s *storm) good(what string) { s.counted("good by " + what) }

func (s *storm) counted(what string) {
	s.tally.Lock()
	defer s.tally.Unlock()
	s.counts[what]++
}

// count is how often something has been seen.
func (s *storm) count(what string) int {
	s.tally.Lock()
	defer s.tally.Unlock()
	return s.counts[what]
}

// unseen notes a request of which its client was told that it was not begun.
func (s *storm) unseen(e *errand) {
	s.tally.Lock()
	defer s.tally.Unlock()
	s.later = append(s.later, e.name)
}

// report tells all that was not as it must be.
func (s *storm) report(t *testing.T) {
	t.Helper()
	for _, name := range s.later {
		if n := s.times(name); n > 0 {
			s.fault("%s is said not to have been begun, and servers have seen it %d times", name, n)
		}
	}
	for i, text := range s.faults {
		if i == 20 {
			t.Errorf("and %d more", len(s.faults)-i)
			break
		}
		t.Error(text)
	}
	for _, what := range slices.Sorted(maps.Keys(s.counts)) {
		t.Logf("%6d %s", s.counts[what], what)
	}
}

// throng is clients that are at work.
type throng struct {
	over    chan struct{}
	running sync.WaitGroup
	talks   []*talk
}

// unleash has clients of all kinds begin; each kind of connection is several, and carries
// several requests at once where its version can. Both workers have WebSockets of each kind.
func (s *storm) unleash(t *testing.T) *throng {
	c := &throng{over: make(chan struct{})}
	for i, protocol := range stormProtocols {
		for with := map[string]bool{}; len(with) < 2; {
			talk := s.openTalk(t, protocol)
			c.talks = append(c.talks, talk)
			with[talk.worker] = true
		}
		for range 3 {
			seed := s.dice.Uint64()
			c.running.Go(func() { s.client(c, protocol, []int{1, 4, 4}[i], seed) })
		}
	}
	for _, talk := range c.talks {
		r := rand.New(rand.NewPCG(s.dice.Uint64(), 0))
		c.running.Go(func() { talk.ended = talk.chat(s, c.over, r) })
	}
	return c
}

// stop has the clients end when they have what they asked for last.
func (c *throng) stop() {
	close(c.over)
	c.running.Wait()
	for _, talk := range c.talks {
		talk.close()
	}
}

func (c *throng) stopped() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// client opens one connection after the other, with the session of the one before or
// without, and asks on each as often as it pleases.
func (s *storm) client(c *throng, protocol string, streams int, seed uint64) {
	r, sessions := rand.New(rand.NewPCG(seed, 0)), tls.NewLRUClientSessionCache(1)
	for !c.stopped() {
		if r.IntN(3) == 0 {
			sessions = tls.NewLRUClientSessionCache(1)
		}
		kills := s.kills.mark()
		w, err := s.open(protocol, sessions)
		switch {
		case err == nil:
		case s.leaving.Load():
			return
		case s.kills.since(kills):
			s.counted("could not connect to a worker that was killed")
			continue
		default:
			s.fault("connecting by %s: %v", protocol, err)
			return
		}
		if s.counted("connections of " + protocol); w.tls.DidResume {
			s.counted("sessions resumed by " + protocol)
		}
		s.use(c, w, streams, 1+r.IntN(100), r.Uint64())
		w.close()
	}
}

// use asks on a connection, on some streams at once, each so many times at most.
func (s *storm) use(c *throng, w *wire, streams, times int, seed uint64) {
	var all sync.WaitGroup
	for i := range streams {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range times {
				if c.stopped() {
					return
				}
				if w.protocol != "http/1.1" && r.IntN(4) == 0 {
					if !s.call(w, r) {
						return
					}
				} else if !s.ask(w, "plain", r) {
					return
				}
			}
		})
	}
	all.Wait()
}

// serve reports whether all workers do, none of which is the one of this process id.
func (s *storm) serve(than int) bool {
	st := s.status()
	for _, w := range st.Workers {
		if w.State != "serving" || w.PID == than {
			return false
		}
	}
	return st.Ready
}

// openTalk opens a WebSocket.
func (s *storm) openTalk(t *testing.T, protocol string) *talk {
	t.Helper()
	c := &talk{protocol: protocol}
	if protocol == "h3" {
		s.talkByHTTP3(t, c)
		return c
	}
	conn, err := tls.Dial("tcp", s.address("tls"), &tls.Config{ServerName: "localhost", RootCAs: s.root.Pool(), NextProtos: []string{protocol}})
	if err != nil {
		t.Fatal(err)
	}
	c.close = func() { conn.Close() }
	if protocol == "h2" {
		stream := streamSocket(t, conn)
		c.ReadWriter = stream
		for _, field := range stream.head.Fields {
			if field.Name == "seen-placement" {
				c.tell(field.Value)
			}
		}
		return c
	}
	socket := openSocket(t, conn)
	c.ReadWriter = struct {
		io.Reader
		io.Writer
	}{socket.in, conn}
	c.tell(socket.head)
	return c
}

// talkByHTTP3 opens one by RFC 9220.
func (s *storm) talkByHTTP3(t *testing.T, c *talk) {
	w, err := s.open("h3", nil)
	if err != nil {
		t.Fatal(err)
	}
	c.close = w.close
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	stream, err := w.RoundTripper.(*http3.ClientConn).OpenRequestStream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := newRequest(t, http.MethodConnect, "https://localhost/chat", nil)
	r.Proto = "websocket"
	r.Header.Set("Sec-WebSocket-Version", "13")
	if err := stream.SendRequestHeader(r); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.ReadResponse()
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("a WebSocket by HTTP/3 is answered by %v, %v", answer, err)
	}
	c.ReadWriter = stream
	w.note(answer.Header)
	c.tell(answer.Header.Get("Seen-Placement"))
}

// tell takes the worker from what the server was told.
func (c *talk) tell(placement string) {
	_, rest, _ := strings.Cut(placement, "worker=")
	c.worker = rest[:min(1, len(rest))]
}

// The kinds of clients, as they are counted.
var (
	stormTalks = []string{"WebSocket by http/1.1", "WebSocket by h2", "WebSocket by h3"}
	stormKinds = slices.Concat(stormProtocols, []string{"gRPC by h2", "gRPC by h3"}, stormTalks)
)

// more waits until each of these kinds of clients has been served so many times more.
func (s *storm) more(t *testing.T, n int, kinds []string) {
	t.Helper()
	for _, kind := range kinds {
		until := s.count("good by "+kind) + n
		testkit.Eventually(t, "more is served of "+kind, func() bool { return s.count("good by "+kind) >= until })
	}
}

// exchange has another certificate, and other tickets, come into force: by the files'
// own change, or by a reload. Then every new connection shows it, and sessions from before
// go on.
func (s *storm) exchange(t *testing.T, reload bool) {
	t.Helper()
	before := map[string]tls.ClientSessionCache{}
	for _, protocol := range stormProtocols {
		before[protocol] = tls.NewLRUClientSessionCache(1)
		s.visit(t, protocol, before[protocol])
	}
	s.newSecret(t)
	s.newCertificate(t)
	if reload {
		s.reload()
	}
	for _, protocol := range stormProtocols {
		in := map[string]bool{} // by worker
		testkit.Eventually(t, "new connections of "+protocol+" show the new certificate, by both workers", func() bool {
			w := s.visit(t, protocol, nil)
			if w.tls.PeerCertificates[0].SerialNumber.Int64() == s.serial {
				in[*w.worker.Load()] = true
			}
			return len(in) == 2
		})
		if w := s.visit(t, protocol, before[protocol]); !w.tls.DidResume {
			t.Errorf("a session of %s does not go on after the exchange", protocol)
		}
	}
	s.shown.Store(s.serial)
}

// visit makes a connection for one request, which tells its worker.
func (s *storm) visit(t *testing.T, protocol string, sessions tls.ClientSessionCache) *wire {
	t.Helper()
	w, err := s.open(protocol, sessions)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if !s.ask(w, "visit", rand.New(rand.NewPCG(s.dice.Uint64(), 0))) && w.worker.Load() == nil {
		s.report(t)
		t.FailNow()
	}
	return w
}

// gentle is what nobody may notice: another configuration, a server that ends in good
// order and comes back, and an exchange.
func (s *storm) gentle(t *testing.T, byReload bool) {
	t.Helper()
	s.more(t, 5, stormKinds)
	s.edition++
	s.configure(s.sections(s.edition)...)
	if s.dice.IntN(2) == 0 {
		s.reload()
	} else {
		s.Signal(syscall.SIGHUP)
	}
	h := s.houses[s.dice.IntN(len(s.houses))]
	s.restarts.during(func() {
		h.close(true)
		h.open()
		s.more(t, 2, stormKinds)
	})
	s.exchange(t, byReload)
	s.more(t, 5, stormKinds)
}

// rough is what costs what it hits, and nothing else.
func (s *storm) rough(t *testing.T) {
	h := s.houses[s.dice.IntN(len(s.houses))]
	s.deaths.during(func() {
		h.close(false)
		h.open()
		s.more(t, 2, stormKinds)
	})
	pid := s.workers()[0]
	s.kills.during(func() {
		syscall.Kill(pid, syscall.SIGKILL)
		testkit.Eventually(t, "another worker serves", func() bool { return s.serve(pid) })
	})
	s.tellOfDeath()
}

// empty waits until nothing is left of what clients have asked for.
func (s *storm) empty(t *testing.T, sockets []int) {
	t.Helper()
	left := ""
	defer func() {
		if t.Failed() {
			t.Log(left)
		}
	}()
	testkit.Eventually(t, "nothing is left", func() bool {
		left = s.left()
		return left == ""
	})
	for i, pid := range s.workers() {
		testkit.Eventually(t, "no socket is left", func() bool {
			_, now := testkit.OpenFiles(t, pid)
			return now <= sockets[i]
		})
	}
}

// Clients of all kinds on one port, while all changes that can, and servers come and go:
// nobody notices a reload, another certificate, other keys of tickets, or drain, and
// WebSockets go on; the death of a worker costs what was in its hands. No answer is
// another's, what may not be repeated is not, and in the end nothing is left.
func TestStormOnOnePort(t *testing.T) {
	s := startStorm(t, stormSeed(t))
	defer s.report(t)
	var sockets []int
	for _, pid := range s.workers() {
		_, n := testkit.OpenFiles(t, pid)
		sockets = append(sockets, n)
	}
	c := s.unleash(t)
	s.gentle(t, false)
	c.stop()
	s.survived(t, c)
	s.empty(t, sockets)
	before := s.memory()

	c = s.unleash(t)
	s.gentle(t, true)
	s.rough(t)
	s.more(t, 5, stormKinds)
	c.stop()
	s.survived(t, c)
	s.empty(t, sockets)
	if after := s.memory(); after > 2*before {
		t.Errorf("the worker that lived has %.0f bytes of memory, and had %.0f after fewer clients", after, before)
	}

	c = s.unleash(t)
	s.more(t, 10, stormKinds)
	s.leaving.Store(true)
	s.Signal(syscall.SIGTERM)
	s.Stderr.Await(t, "drain")
	s.more(t, 5, stormTalks)
	c.stop()
	s.survived(t, c)
	if code := s.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.ended()
	s.AwaitAllGone()
}

// left is what Sluice and servers still count as under way.
func (s *storm) left() (left string) {
	s.t.Helper()
	st := s.status()
	for i, w := range st.Workers {
		if w.Connections != 0 || w.Active != 0 || w.Idle != 0 {
			left += fmt.Sprintf("worker %d: %d connections, %d active, %d idle\n", i, w.Connections, w.Active, w.Idle)
		}
	}
	for _, f := range st.Farms {
		for _, v := range f.Servers {
			if v.In_flight != 0 || v.Open != 0 || v.Idle != 0 {
				left += fmt.Sprintf("%s: %d in flight, %d open, %d idle\n", v.URL, v.In_flight, v.Open, v.Idle)
			}
		}
	}
	if n := s.sockets.Load(); n != 0 {
		left += fmt.Sprintf("%d WebSockets at servers\n", n)
	}
	return left
}

// memory is what the worker has that is not killed.
func (s *storm) memory() float64 {
	s.t.Helper()
	return s.metrics()[`sluice_worker_resident_memory_bytes{node="0",worker="1"}`]
}

// survived checks that no WebSocket has ended but by the death of its worker.
func (s *storm) survived(t *testing.T, c *throng) {
	t.Helper()
	for _, talk := range c.talks {
		switch {
		case talk.ended == nil:
			s.counted("WebSockets lived by " + talk.protocol)
		case talk.worker == killedWorker && s.kills.since(0) && !s.leaving.Load():
			s.counted("WebSockets lost with a worker by " + talk.protocol)
		default:
			t.Errorf("a WebSocket of %s with worker %s has ended: %v", talk.protocol, talk.worker, talk.ended)
		}
	}
}

// stormSeed is 1, or what the environment says.
func stormSeed(t *testing.T) uint64 {
	text := os.Getenv("SLUICE_E2E_SEED")
	if text == "" {
		return 1
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seed
}
