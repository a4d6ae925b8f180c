package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/testkit"
)

// spell is a kind of trouble that comes and goes. What has lived through some of it may
// show it, and nothing else.
type spell struct{ begun, ended atomic.Int64 }

// during is one time of it.
func (s *spell) during(f func()) {
	s.begun.Add(1)
	f()
	s.ended.Add(1)
}

// mark is the moment that since looks back to.
func (s *spell) mark() int64 { return s.ended.Load() }

// since reports whether there has been any since a mark, or still was at it.
func (s *spell) since(mark int64) bool { return s.begun.Load() > mark }

// house is a server at one address, which comes and goes.
type house struct {
	t       testing.TB
	address string
	http2   bool // and nothing else; otherwise HTTP/1.1
	handler http.Handler
	server  *http.Server
	serving sync.WaitGroup
}

// newHouse opens one, on a port that nobody takes while it is closed.
func newHouse(t testing.TB, http2 bool, handler http.Handler) *house {
	h := &house{t: t, address: "127.0.0.1:" + testkit.FreePort(t), http2: http2, handler: handler}
	h.open()
	t.Cleanup(func() { h.close(false) })
	return h
}

// open has it serve.
func (h *house) open() {
	h.t.Helper()
	ln, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.server = &http.Server{Handler: h.handler, Protocols: new(http.Protocols)}
	h.server.Protocols.SetHTTP1(!h.http2)
	h.server.Protocols.SetUnencryptedHTTP2(h.http2)
	server := h.server
	h.serving.Go(func() { server.Serve(ln) })
}

// close ends it: with a farewell when all is answered, or on the spot.
func (h *house) close(gently bool) {
	if gently {
		ctx, stop := context.WithTimeout(context.Background(), testkit.Patience)
		defer stop()
		if err := h.server.Shutdown(ctx); err != nil {
			h.t.Errorf("a server does not come to its end: %v", err)
		}
	}
	h.server.Close()
	h.serving.Wait()
}

// url is the server in a configuration.
func (h *house) url() string {
	if h.http2 {
		return "h2://" + h.address
	}
	return "http://" + h.address
}

// bytesOf is content that belongs to a name alone.
func bytesOf(name string, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8(sha256.Sum256([]byte(name))).Read(b)
	return b
}

// register is what servers know of requests, by name.
type register struct {
	mu     sync.Mutex
	seen   map[string]int // guarded by mu
	faults []string       // guarded by mu
}

// arrive notes that a server has got a request, and how often by now.
func (g *register) arrive(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[name]++
	return g.seen[name]
}

// times is how often servers have got a request.
func (g *register) times(name string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[name]
}

// ServeHTTP answers with content that belongs to the request's name, after it has found the
// request's own to be whole; or it sends back what comes, message by message or as a
// WebSocket.
func (s *storm) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Seen-Placement", r.Header.Get("X-Sluice-Placement"))
	name := r.URL.Path
	switch times := s.arrive(name); {
	case r.Header.Get("Upgrade") == "websocket":
		s.hold(w, r)
		return
	case times > 1 && r.Method == http.MethodPost:
		s.fault("%s reaches servers %d times, and is not to be repeated", name, times)
	}
	if r.Header.Get("Content-Type") == "application/grpc" {
		s.serveCall(w, r, name)
		return
	}
	sends, _ := strconv.Atoi(r.URL.Query().Get("sends"))
	wants, _ := strconv.Atoi(r.URL.Query().Get("wants"))
	content, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if !bytes.Equal(content, bytesOf(name, sends)) {
		s.fault("a server gets %d bytes as content of %s, which are not its %d", len(content), name, sends)
	}
	if wants%2 == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(wants))
	}
	w.Write(bytesOf("answer to "+name, wants))
}

// serveCall sends each message of a stream of gRPC back, and says at its end that all is
// well.
func (s *storm) serveCall(w http.ResponseWriter, r *http.Request, name string) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for i := 0; ; i++ {
		m, err := readMessage(r.Body)
		if err == io.EOF {
			w.Header().Set("Grpc-Status", "0")
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if !bytes.Equal(m, bytesOf(name+strconv.Itoa(i), len(m))) {
			s.fault("message %d of %s has %d bytes of another", i, name, len(m))
		}
		writeMessage(w, m)
		w.(http.Flusher).Flush()
	}
}

// readMessage reads one message of gRPC: a byte for its compression, its length, itself.
func readMessage(r io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	m := make([]byte, min(uint32(head[1])<<24|uint32(head[2])<<16|uint32(head[3])<<8|uint32(head[4]), 1<<20))
	_, err := io.ReadFull(r, m)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return m, err
}

// writeMessage writes one.
func writeMessage(w io.Writer, m []byte) error {
	n := len(m)
	_, err := w.Write(append([]byte{0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, m...))
	return err
}

// hold takes an upgrade to WebSocket and sends back what comes.
func (s *storm) hold(w http.ResponseWriter, r *http.Request) {
	conn, both, err := w.(http.Hijacker).Hijack()
	if err != nil {
		s.fault("%v", err)
		return
	}
	defer conn.Close()
	s.sockets.Add(1)
	defer s.sockets.Add(-1)
	io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+
		webSocketProof(r.Header.Get("Sec-WebSocket-Key"))+"\r\nSeen-Placement: "+r.Header.Get("X-Sluice-Placement")+"\r\n\r\n")
	io.Copy(conn, both)
}
