package worker

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/testkit"
)

// newTLSHouse is a house whose first listener ends TLS, and what a client needs.
func newTLSHouse(t *testing.T, change func(*config.ListenerTLS), servers ...string) (*house, *tls.Config) {
	t.Helper()
	h := newHouse(t, nil, servers...)
	a := testkit.NewAuthority(t, "test authority")
	cert := a.Issue(testkit.Wish{Names: []string{"server.test"}})
	l := &config.ListenerTLS{MinVersion: "1.2", Curves: []string{"X25519"}, Handshake: config.Duration(testkit.Patience)}
	if change != nil {
		change(l)
	}
	h.cfg.Listeners[0].Protocols = []string{config.HTTP1}
	h.cfg.Listeners[0].TLS = l
	h.keys = &spec.Keys{
		Certificates: []spec.Certificate{{Chain: string(cert.Chain), Key: string(cert.Key)}},
		Listeners:    []spec.ListenerKeys{{Certificates: []int{0}}},
	}
	if err := h.apply(); err != nil { // a reload makes it speak TLS
		t.Fatal(err)
	}
	return h, &tls.Config{RootCAs: a.Pool(), ServerName: "server.test"}
}

// dialTCP opens a connection that says nothing.
func dialTCP(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testkit.Patience))
	return conn
}

// figures are the first loop's.
func (h *house) figures() *segment.LoopStats {
	h.traffic.Probe()
	return h.shared.Loop(0, 0)
}

func TestServesOverTLS(t *testing.T) {
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for i := range 2 {
		conn := tls.Client(dialTCP(t, h.at[0]), client)
		for range 3 {
			mustHave(t, ask(t, conn), "200 OK", "a worker=")
		}
		if conn.ConnectionState().DidResume != (i == 1) {
			t.Errorf("connection %d: resumed is %v", i, i == 0)
		}
		conn.Close()
	}
	client.MaxVersion = tls.VersionTLS12
	client.ClientSessionCache = nil
	mustHave(t, ask(t, tls.Client(dialTCP(t, h.at[0]), client)), "a worker=")
	st := h.figures()
	if st.Handshakes[segment.TLS13].Load() != 2 || st.Handshakes[segment.TLS12].Load() != 1 || st.Resumed.Load() != 1 || st.Shaking.Load() != 0 {
		t.Errorf("%d and %d handshakes, %d resumed, %d not over", st.Handshakes[0].Load(), st.Handshakes[1].Load(), st.Resumed.Load(), st.Shaking.Load())
	}
}

// Who speaks HTTP on a port of TLS is told so, and counted.
func TestPlainHTTPOnTLS(t *testing.T) {
	h, _ := newTLSHouse(t, nil, tells(t, "a").URL)
	conn := dialTCP(t, h.at[0])
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if answer.StatusCode != 400 || err != nil || !strings.Contains(string(body), "speaks HTTPS") {
		t.Errorf("%s: %q, %v", answer.Status, body, err)
	}
	if st := h.figures(); st.Shunned[segment.ShunHTTP].Load() != 1 || st.Shaking.Load() != 0 {
		t.Errorf("it is counted %d times, %d handshakes are not over", st.Shunned[segment.ShunHTTP].Load(), st.Shaking.Load())
	}
}

// A client that says nothing, half a word, or nothing after the first flight is closed
// when its time is over.
func TestHandshakeTimeout(t *testing.T) {
	h, client := newTLSHouse(t, func(l *config.ListenerTLS) { l.Handshake = config.Duration(100 * time.Millisecond) }, tells(t, "a").URL)
	for i, words := range []string{"", "\x16\x03", hello(t, client)} {
		conn := dialTCP(t, h.at[0])
		io.WriteString(conn, words)
		if _, err := io.ReadAll(conn); err != nil {
			t.Errorf("client %d: %v", i, err)
		}
	}
	testkit.Eventually(t, "all are counted", func() bool {
		st := h.figures()
		return st.Shunned[segment.ShunTimeout].Load() == 3 && st.Shaking.Load() == 0
	})
}

// hello is a ClientHello.
func hello(t *testing.T, client *tls.Config) string {
	t.Helper()
	near, far := net.Pipe()
	go tls.Client(near, client).Handshake()
	p := make([]byte, 16<<10)
	n, err := far.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
	return string(p[:n])
}

// Beyond the limit handshakes wait for those before them to end, and hold no task.
func TestHandshakesAreBounded(t *testing.T) {
	const limit = 2 * loops // 2 on each
	h, client := newTLSHouse(t, func(l *config.ListenerTLS) { l.Handshakes = limit }, tells(t, "a").URL)
	first := hello(t, client)
	var slow []net.Conn
	for range limit/loops + 1 { // one of them waits
		conn := dialTCP(t, h.at[0])
		io.WriteString(conn, first)
		slow = append(slow, conn)
	}
	waiting := func() (n int) {
		h.traffic.on(h.traffic.lanes[:1], func(l *lane) {
			if s := l.shakings["listener 0"]; s != nil && s.now == limit/loops {
				n = len(s.waiting)
			}
		})
		return n
	}
	testkit.Eventually(t, "one waits", func() bool { return waiting() == 1 })
	last := tls.Client(dialTCP(t, h.at[0]), client)
	shaken := make(chan error, 1)
	go func() { shaken <- last.Handshake() }()
	testkit.Eventually(t, "two wait", func() bool { return waiting() == 2 })
	slow[0].Close()
	testkit.Eventually(t, "the next has its turn", func() bool { return waiting() == 1 })
	slow[2].Close()
	slow[1].Close()
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	mustHave(t, ask(t, last), "a worker=")
	testkit.Eventually(t, "all are counted", func() bool {
		st := h.figures()
		return st.Shunned[segment.ShunGone].Load() == 3 && st.Shaking.Load() == 0 && waiting() == 0
	})
}

// Of clients whose first words come together, one shakes hands in each turn of the loop,
// and networks take turns: one client is not kept waiting by the many of another network.
func TestOneHandshakeInATurn(t *testing.T) {
	const clients = 10
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	first := hello(t, client)
	var all []net.Conn
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	for range clients {
		conn, err := from.Dial("tcp", h.at[0])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(testkit.Patience))
		all = append(all, conn)
	}
	all = append(all, dialTCP(t, h.at[0]))
	testkit.Eventually(t, "all are there", func() bool { return h.figures().Shaking.Load() == clients+1 })
	waits := waiting(h.traffic.lanes[0], func() {
		for _, conn := range all {
			io.WriteString(conn, first)
		}
	})
	for turn, n := range waits {
		if n.all != clients-turn {
			t.Errorf("turn %d: %d wait, in %v", turn, n.all, waits)
		}
		if n.networks > 1 && turn > 1 {
			t.Errorf("turn %d: the one of its network still waits", turn)
		}
	}
	for _, conn := range all {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Errorf("a client is not answered: %v", err)
		}
	}
}

// queue is who waits for the beginning of a handshake.
type queue struct{ all, networks int }

// waiting has clients speak while a loop stands still, and tells who waits after each of
// the loop's turns from then on, until nobody does.
func waiting(l *lane, speak func()) (after []queue) {
	still, spoken, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	l.loop.Submit(func() {
		close(still)
		<-spoken // the loop finds all their words at once
		var look func()
		look = func() {
			q := queue{networks: len(l.rota.next)}
			for _, n := range l.rota.next {
				q.all += len(n.waiting)
			}
			if after = append(after, q); q.all == 0 {
				close(over)
				return
			}
			l.loop.Submit(look) // in the next turn
		}
		l.loop.Submit(look)
	})
	<-still
	speak()
	close(spoken)
	<-over
	return after
}

// One that waits for its place and goes away, or waits for too long, is let go.
func TestWaitingForAHandshakeEnds(t *testing.T) {
	h, client := newTLSHouse(t, func(l *config.ListenerTLS) { l.Handshakes = 1 }, tells(t, "a").URL)
	first := hello(t, client)
	holder := dialTCP(t, h.at[0])
	io.WriteString(holder, first)
	holding := func() (now int) {
		h.traffic.on(h.traffic.lanes[:1], func(l *lane) {
			if s := l.shakings["listener 0"]; s != nil {
				now = s.now
			}
		})
		return now
	}
	testkit.Eventually(t, "the place is taken", func() bool { return holding() == 1 })
	impatient := dialTCP(t, h.at[0])
	io.WriteString(impatient, first)
	testkit.Eventually(t, "two have come", func() bool { return h.figures().Shaking.Load() == 2 })
	impatient.Close()
	testkit.Eventually(t, "it has gone", func() bool { return h.figures().Shunned[segment.ShunGone].Load() == 1 })
	holder.Close()
	testkit.Eventually(t, "the place is free", func() bool { return holding() == 0 })
	mustHave(t, ask(t, tls.Client(dialTCP(t, h.at[0]), client)), "a worker=")
}

// A drain waits for handshakes that go on, and not for clients that say nothing.
func TestDrainWithHandshakes(t *testing.T) {
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	dialTCP(t, h.at[0])
	under := dialTCP(t, h.at[0])
	first := hello(t, client)
	io.WriteString(under, first[:10])
	testkit.Eventually(t, "both have come", func() bool { return h.figures().Shaking.Load() == 2 })
	drained := make(chan struct{})
	go func() { defer close(drained); h.traffic.Drain(testkit.Patience) }()
	testkit.Eventually(t, "the silent one has gone", func() bool { return h.figures().Shaking.Load() == 1 })
	select {
	case <-drained:
		t.Error("the drain did not wait for a handshake")
	default:
	}
	under.Close()
	<-drained
}

// Connections are handed over before their handshake.
func TestHandOverBeforeTheHandshake(t *testing.T) {
	h, client := newTLSHouse(t, nil, tells(t, "a").URL)
	onSecond := 0
	for range 30 {
		if strings.Contains(ask(t, tls.Client(dialTCP(t, h.at[0]), client)), "loop=1") {
			onSecond++
		}
	}
	if onSecond == 0 {
		t.Errorf("%d of 30 connections were handed over", onSecond)
	}
	if n := h.figures().Handshakes[segment.TLS13].Load() + h.shared.Loop(0, 1).Handshakes[segment.TLS13].Load(); n != 30 {
		t.Errorf("%d handshakes of 30 are counted", n)
	}
}

// Servers over TLS are judged by the authorities of the configuration, and by others
// once their file has others.
func TestServersOverTLS(t *testing.T) {
	a := testkit.NewAuthority(t, "test authority")
	cert := a.Issue(testkit.Wish{Names: []string{"127.0.0.1"}})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "over "+r.Proto) }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Leaf.Raw}, PrivateKey: cert.Private}}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)

	h := newHouse(t, nil, server.URL)
	keys := func(judge *testkit.Authority) *spec.Keys {
		return &spec.Keys{Listeners: make([]spec.ListenerKeys, 1), Farms: []spec.FarmKeys{{CA: string(judge.PEM())}}}
	}
	h.cfg.Farms[0].TLS = &config.FarmTLS{CA: "ca.pem"}
	h.cfg.Farms[0].FailFor = 0
	h.keys = keys(testkit.NewAuthority(t, "stranger"))
	if err := h.apply(); err != nil {
		t.Fatal(err)
	}
	mustHave(t, get(t, h.at[0]), "No secure connection")
	if err := h.traffic.Renew(keys(a)); err != nil {
		t.Fatal(err)
	}
	mustHave(t, get(t, h.at[0]), "over HTTP/1.1")
	if err := h.traffic.Renew(&spec.Keys{Listeners: make([]spec.ListenerKeys, 1)}); err == nil {
		t.Error("keys without what the farm needs are taken")
	}
	mustHave(t, get(t, h.at[0]), "over HTTP/1.1")
}
