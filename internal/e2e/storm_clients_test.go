package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"sluice/internal/testkit"
)

// wire is a client's connection, in any version. It repeats nothing by itself.
type wire struct {
	http.RoundTripper
	close    func()
	protocol string
	kills    int64 // a mark of when it was opened
	worker   atomic.Pointer[string]
	tls      tls.ConnectionState
}

// single is a connection of HTTP/1.1.
type single struct {
	net.Conn
	in   *bufio.Reader
	last bool // the server has said that it closes
}

// errSilent is the end of a connection on which nothing was answered.
var errSilent = errors.New("the connection ends without a byte of an answer")

// RoundTrip implements http.RoundTripper. The answer is to be read before the next.
func (c *single) RoundTrip(r *http.Request) (*http.Response, error) {
	c.SetDeadline(time.Now().Add(testkit.Patience))
	sent := r.Write(c)
	if _, err := c.in.Peek(1); err != nil {
		return nil, errors.Join(errSilent, sent, err)
	}
	answer, err := http.ReadResponse(c.in, r)
	c.last = err != nil || answer.Close
	return answer, err
}

// open makes a connection: of HTTP/1.1, HTTP/2 or HTTP/3.
func (s *storm) open(protocol string, sessions tls.ClientSessionCache) (*wire, error) {
	w := &wire{protocol: protocol, kills: s.kills.mark()}
	least := s.shown.Load()
	trust := &tls.Config{ServerName: "localhost", RootCAs: s.root.Pool(), NextProtos: []string{protocol}, ClientSessionCache: sessions}
	var err error
	if protocol == "h3" {
		err = w.dialQUIC(s, trust)
	} else {
		err = w.dialTCP(s, trust)
	}
	if err != nil {
		return nil, err
	}
	if serial := w.tls.PeerCertificates[0].SerialNumber.Int64(); serial < least && !w.tls.DidResume {
		s.fault("a new connection of %s shows certificate %d, after %d was seen", protocol, serial, least)
	}
	if protocol == "h3" {
		s.tally.Lock()
		s.quick = append(s.quick, w)
		s.tally.Unlock()
	}
	return w, nil
}

// tellOfDeath ends connections of HTTP/3 with the worker that was killed. Their clients
// would learn it by themselves when they next send more than 42 bytes (RFC 9000 10.3.3); who
// only waits for an answer does not, before its own idle time is over.
func (s *storm) tellOfDeath() {
	s.tally.Lock()
	defer s.tally.Unlock()
	for _, w := range s.quick {
		if s.perished(w) {
			w.close()
		}
	}
	s.quick = nil
}

func (w *wire) dialTCP(s *storm, trust *tls.Config) error {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: testkit.Patience}, "tcp", s.address("tls"), trust)
	if err != nil {
		return err
	}
	w.tls, w.close = conn.ConnectionState(), func() { conn.Close() }
	if w.protocol == "http/1.1" {
		w.RoundTripper = &single{Conn: conn, in: bufio.NewReader(conn)}
		return nil
	}
	w.RoundTripper, err = new(http2.Transport).NewClientConn(conn)
	return err
}

func (w *wire) dialQUIC(s *storm, trust *tls.Config) error {
	ctx, stop := context.WithTimeout(s.alive, testkit.Patience)
	defer stop()
	conn, err := quic.DialAddr(ctx, s.address("tls"), trust, &quic.Config{}) // from a port of its own
	if err != nil {
		return err
	}
	w.tls, w.close = conn.ConnectionState().TLS, func() { conn.CloseWithError(0x100, "") }
	w.RoundTripper = new(http3.Transport).NewClientConn(conn)
	return nil
}

// errand is one request, and what its client has lived through meanwhile.
type errand struct {
	name     string
	method   string
	sends    int
	wants    int
	restarts int64 // marks
	deaths   int64
}

// newErrand makes up one.
func (s *storm) newErrand(kind string, r *rand.Rand) *errand {
	e := &errand{name: fmt.Sprintf("/%s/%d", kind, s.asked.Add(1)), restarts: s.restarts.mark(), deaths: s.deaths.mark()}
	e.method = []string{"GET", "PUT", "POST"}[r.IntN(3)]
	if e.method != "GET" {
		e.sends = r.IntN(1 << r.IntN(19))
	}
	e.wants = r.IntN(1 << r.IntN(19))
	return e
}

// lengthless is a reader whose length nobody can tell.
type lengthless struct{ io.Reader }

// request is the errand as a request.
func (e *errand) request(ctx context.Context, r *rand.Rand) *http.Request {
	url := fmt.Sprintf("https://localhost%s?sends=%d&wants=%d", e.name, e.sends, e.wants)
	var body io.Reader
	switch content := bytesOf(e.name, e.sends); {
	case e.sends > 0 && r.IntN(2) == 0:
		body = lengthless{bytes.NewReader(content)}
	case e.sends > 0:
		body = bytes.NewReader(content)
	}
	q, _ := http.NewRequestWithContext(ctx, e.method, url, body)
	return q
}

// ask does an errand, and reports whether the connection may have another.
func (s *storm) ask(w *wire, kind string, r *rand.Rand) bool {
	e := s.newErrand(kind, r)
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	answer, err := w.RoundTrip(e.request(ctx, r))
	if err != nil {
		return s.explain(w, e, 0, err)
	}
	content, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	w.note(answer.Header)
	if answer.StatusCode != 200 || err != nil {
		return s.explain(w, e, answer.StatusCode, err) && !answer.Close
	}
	if want := bytesOf("answer to "+e.name, e.wants); !bytes.Equal(content, want) {
		s.fault("%s gets %d bytes as whole, which are not its %d", e.name, len(content), len(want))
	}
	s.good(w.protocol)
	return !answer.Close
}

// note takes the worker of a connection from what a server was told.
func (w *wire) note(head http.Header) {
	if _, rest, told := strings.Cut(head.Get("Seen-Placement"), "worker="); told {
		worker, _, _ := strings.Cut(rest, " ")
		w.worker.Store(&worker)
	}
}

// perished reports whether a connection may have been in the hands of a worker that was
// killed.
func (s *storm) perished(w *wire) bool {
	worker := w.worker.Load()
	return s.kills.since(w.kills) && (worker == nil || *worker == killedWorker)
}

// explain finds out why a request has no whole answer; without a reason that there is, it
// was lost. It reports whether the connection is still of use.
func (s *storm) explain(w *wire, e *errand, status int, err error) bool {
	const held = 32 << 10                                  // of content is, surely; more may have gone
	again := e.method == http.MethodPost || e.sends > held // nobody may send it again, or can
	switch {
	case s.perished(w):
		s.counted("lost with a worker")
		return err == nil
	case s.deaths.since(e.deaths):
		s.counted("lost with a server")
		return err == nil && w.protocol != "http/1.1" || status >= 500
	case s.restarts.since(e.restarts) && again && (status == 502 || err != nil && status == 200 && strings.HasPrefix(e.name, "/call/")):
		s.counted("not sent again")
		return err == nil
	case unprocessed(err):
		s.counted("told to come again")
		s.unseen(e)
	case errors.Is(err, errSilent) && s.leaving.Load() && s.times(e.name) == 0:
		s.counted("met the end of an idle connection")
	default:
		s.fault("%s %s (%d bytes there, %d back) is lost by %s: status %d, %v; servers have seen it %d times",
			e.method, e.name, e.sends, e.wants, w.protocol, status, err, s.times(e.name))
	}
	return false
}

// unprocessed reports whether a client was told that its request has not been begun
// (RFC 9113 6.8, RFC 9114 5.2).
func unprocessed(err error) bool {
	if refused, is := errors.AsType[*http3.Error](err); is && refused.ErrorCode == http3.ErrCodeRequestRejected {
		return true
	}
	if reset, is := errors.AsType[http2.StreamError](err); is && reset.Code == http2.ErrCodeRefusedStream {
		return true
	}
	return err != nil && (strings.Contains(err.Error(), "graceful shutdown") || strings.Contains(err.Error(), "client conn not usable"))
}

// call is a stream of gRPC: some messages, one after the other, each of which comes back.
func (s *storm) call(w *wire, r *rand.Rand) bool {
	e := s.newErrand("call", r)
	e.method = http.MethodPost
	ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
	defer stop()
	read, write := io.Pipe()
	defer read.Close()
	q, _ := http.NewRequestWithContext(ctx, e.method, "https://localhost"+e.name, read) // a broken connection closes it
	q.Header.Set("Content-Type", "application/grpc")
	q.Header.Set("TE", "trailers")
	var sender sync.WaitGroup
	defer sender.Wait()
	defer read.Close()
	turn := make(chan bool, 1)
	defer close(turn)
	turn <- true
	messages := 1 + r.IntN(8)
	size := 1 + r.IntN(20_000)
	sender.Go(func() {
		for i := range messages {
			if !<-turn || writeMessage(write, bytesOf(e.name+strconv.Itoa(i), size)) != nil {
				return
			}
		}
		write.Close()
	})
	answer, err := w.RoundTrip(q)
	if err != nil {
		return s.explain(w, e, 0, err)
	}
	defer answer.Body.Close()
	w.note(answer.Header)
	for i := range messages {
		m, err := readMessage(answer.Body)
		if err != nil {
			return s.explain(w, e, answer.StatusCode, fmt.Errorf("message %d of %d: %w, %v", i, messages, err, answer.Trailer))
		}
		if !bytes.Equal(m, bytesOf(e.name+strconv.Itoa(i), size)) {
			s.fault("message %d of %s comes back as %d bytes of another", i, e.name, len(m))
		}
		if i < messages-1 {
			turn <- true
		}
	}
	if rest, err := io.ReadAll(answer.Body); err != nil || len(rest) > 0 || answer.Trailer.Get("Grpc-Status") != "0" {
		return s.explain(w, e, answer.StatusCode, fmt.Errorf("at the end %d bytes, %v, %v", len(rest), answer.Trailer, err))
	}
	s.good("gRPC by " + w.protocol)
	return true
}

// talk is a WebSocket that sends noise and has it come back.
type talk struct {
	io.ReadWriter
	protocol string
	worker   string
	close    func()
	ended    error // once its goroutine has ended; nil: it was told to
}

// chat goes on until it is told to end.
func (c *talk) chat(s *storm, over <-chan struct{}, r *rand.Rand) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-over:
			return nil
		case <-tick.C:
		}
		piece := bytesOf(fmt.Sprint(c.protocol, r.Uint64()), 1+r.IntN(1<<r.IntN(16)))
		var sender sync.WaitGroup
		sender.Go(func() { c.Write(piece) }) // what is not sent does not come back
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(c, got); err != nil {
			c.close()
			sender.Wait()
			return fmt.Errorf("after %d pieces: %w", n, err)
		}
		sender.Wait()
		if !bytes.Equal(got, piece) {
			s.fault("a WebSocket of %s gets back what it has not said", c.protocol)
		}
		s.good("WebSocket by " + c.protocol)
	}
}
