package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/cmd/hb/frame"
)

// peer is a server of HTTP/2 in memory, made of golang.org/x/net's frames. It reads
// in one goroutine and answers in another, as a real one may.
type peer struct {
	settings []http2.Setting
	answer   func(p *peerConn, n, id int) // the nth request of all connections, from 0
	early    bool                         // when its head has come, not its end
	piece    int                          // bytes of a write; 0: all at once
	serving  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	opened   int
	requests int
	heads    []string          // fields of each request, as they came
	bodies   map[int]int       // bytes of content by the number of its request
	other    []http2.FrameType // frames of other types
}

// peerConn is one connection.
type peerConn struct {
	net.Conn
	*http2.Framer
	peer    *peer
	encoder *hpack.Encoder
	block   bytes.Buffer
}

func (p *peer) dial(context.Context, string) (net.Conn, error) {
	near, far := net.Pipe()
	p.mu.Lock()
	p.opened++
	p.mu.Unlock()
	conn := &peerConn{Conn: far, peer: p}
	conn.Framer = http2.NewFramer(&pieces{far, p.piece}, far)
	conn.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	conn.encoder = hpack.NewEncoder(&conn.block)
	p.serving.Go(conn.serve)
	return near, nil
}

// pieces is a writer in small pieces.
type pieces struct {
	io.Writer
	bytes int
}

func (p *pieces) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		end := len(b)
		if p.bytes > 0 {
			end = min(end, n+p.bytes)
		}
		var wrote int
		wrote, err = p.Writer.Write(b[n:end])
		n += wrote
	}
	return n, err
}

func (c *peerConn) serve() {
	defer c.Close()
	preface := make([]byte, len(frame.Preface))
	if _, err := io.ReadFull(c, preface); err != nil || string(preface) != frame.Preface {
		return
	}
	orders := make(chan func(), 1000)
	defer close(orders)
	c.peer.serving.Go(func() {
		for order := range orders {
			order()
		}
	})
	orders <- func() { c.WriteSettings(c.peer.settings...) }
	numbers := map[uint32]int{}
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		c.peer.note(f, numbers)
		if s, is := f.(*http2.SettingsFrame); is && !s.IsAck() {
			s.ForeachSetting(func(s http2.Setting) error {
				if s.ID == http2.SettingHeaderTableSize {
					c.encoder.SetMaxDynamicTableSize(s.Val)
				}
				return nil
			})
		}
		_, begins := f.(*http2.MetaHeadersFrame)
		ends, is := f.(interface{ StreamEnded() bool })
		if c.peer.early && begins || !c.peer.early && is && ends.StreamEnded() {
			id := f.Header().StreamID
			n := numbers[id]
			orders <- func() { c.peer.answer(c, n, int(id)) }
		}
	}
}

// note takes down what came.
func (p *peer) note(f http2.Frame, numbers map[uint32]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		numbers[f.StreamID] = p.requests
		p.requests++
		var head []string
		for _, field := range f.Fields {
			head = append(head, field.Name+"="+field.Value)
		}
		p.heads = append(p.heads, strings.Join(head, " "))
	case *http2.DataFrame:
		if p.bodies == nil {
			p.bodies = map[int]int{}
		}
		p.bodies[numbers[f.StreamID]] += len(f.Data())
	default:
		p.other = append(p.other, f.Header().Type)
	}
}

// head writes a head of "name: value" lines; last: nothing follows.
func (c *peerConn) head(id int, last bool, lines ...string) {
	c.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(id), BlockFragment: c.fields(lines...), EndHeaders: true, EndStream: last})
}

func (c *peerConn) fields(lines ...string) []byte {
	c.block.Reset()
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	return bytes.Clone(c.block.Bytes())
}

func (c *peerConn) ok(id int) {
	c.head(id, false, ":status: 200", "content-length: 2", "server: test")
	c.WriteData(uint32(id), true, []byte("ok"))
}

// h2Options are those of clients of a peer.
func h2Options(p *peer) *Options {
	opts := options(p.dial)
	opts.Protocol = HTTP2
	return opts
}

// h2Answers are what a server sends for one request, and what becomes of it.
var h2Answers = []struct {
	name   string
	method string
	send   func(c *peerConn, id int)
	status int
	kind   Kind // if status is 0
	keep   bool
}{
	{"length", "GET", func(c *peerConn, id int) { c.ok(id) }, 200, 0, true},
	{"head alone", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 204") }, 204, 0, true},
	{"error", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 503", "content-length: 0") }, 503, 0, true},
	{"no length", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200")
		c.WriteData(uint32(id), false, []byte("some"))
		c.WriteData(uint32(id), true, nil)
	}, 200, 0, true},
	{"trailers", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200", "content-length: 1")
		c.WriteData(uint32(id), false, []byte("x"))
		c.head(id, true, "grpc-status: 0")
	}, 200, 0, true},
	{"interim", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 103", "link: x")
		c.ok(id)
	}, 200, 0, true},
	{"HEAD", "HEAD", func(c *peerConn, id int) { c.head(id, true, ":status: 200", "content-length: 9") }, 200, 0, true},
	{"304", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 304", "content-length: 9") }, 304, 0, true},
	{"padding", "GET", func(c *peerConn, id int) {
		c.WriteHeaders(http2.HeadersFrameParam{
			StreamID: uint32(id), BlockFragment: c.fields(":status: 200", "content-length: 3"), EndHeaders: true, PadLength: 9,
			Priority: http2.PriorityParam{Weight: 1},
		})
		c.WriteDataPadded(uint32(id), true, []byte("abc"), make([]byte, 200))
	}, 200, 0, true},
	{"continuations", "GET", func(c *peerConn, id int) {
		block := c.fields(":status: 200", "x-other: "+strings.Repeat("y", 20))
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(id), BlockFragment: block[:2], EndStream: true})
		c.WriteContinuation(uint32(id), false, block[2:9])
		c.WriteContinuation(uint32(id), true, block[9:])
	}, 200, 0, true},
	{"other frames", "GET", func(c *peerConn, id int) {
		c.WritePing(false, [8]byte{1})
		c.WriteRawFrame(0xbe, 0, 0, []byte("grease"))
		c.WritePriority(uint32(id), http2.PriorityParam{Weight: 1})
		c.WriteWindowUpdate(0, 1)
		c.WriteSettings()
		c.ok(id)
	}, 200, 0, true},
	{"of a stream that is none", "GET", func(c *peerConn, id int) {
		c.head(id+2, true, ":status: 200")
		c.WriteData(uint32(id+4), true, []byte("x"))
		c.WriteRSTStream(uint32(id+6), http2.ErrCodeNo)
		c.ok(id)
	}, 200, 0, true},
	{"a smaller table", "GET", func(c *peerConn, id int) {
		c.encoder.SetMaxDynamicTableSize(0)
		c.ok(id)
	}, 200, 0, true},

	{"reset", "GET", func(c *peerConn, id int) { c.WriteRSTStream(uint32(id), http2.ErrCodeInternal) }, 0, StreamReset, true},
	{"reset amid content", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200")
		c.WriteData(uint32(id), false, []byte("some"))
		c.WriteRSTStream(uint32(id), http2.ErrCodeCancel)
	}, 0, StreamReset, true},
	{"refused", "GET", func(c *peerConn, id int) { c.WriteRSTStream(uint32(id), http2.ErrCodeRefusedStream) }, 0, StreamRefused, true},
	{"goaway with an error", "GET", func(c *peerConn, id int) { c.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil) }, 0, GoneAway, false},
	{"goaway, then the end", "GET", func(c *peerConn, id int) {
		c.WriteGoAway(uint32(id), http2.ErrCodeInternal, nil)
		c.Close()
	}, 0, GoneAway, false},
	{"goaway, then the answer", "GET", func(c *peerConn, id int) {
		c.WriteGoAway(uint32(id), http2.ErrCodeNo, nil)
		c.ok(id)
	}, 200, 0, false},
	{"goaway at once", "GET", func(c *peerConn, id int) { c.WriteGoAway(0, http2.ErrCodeNo, nil) }, 0, GoneAway, false},
	{"closed", "GET", func(c *peerConn, id int) { c.Close() }, 0, Closed, false},
	{"closed amid content", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200")
		c.Close()
	}, 0, Closed, false},

	{"too short", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200", "content-length: 3")
		c.WriteData(uint32(id), true, []byte("ok"))
	}, 0, BadResponse, true},
	{"too long", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200", "content-length: 1")
		c.WriteData(uint32(id), true, []byte("ok"))
	}, 0, BadResponse, true},
	{"bad length", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 200", "content-length: x") }, 0, BadResponse, true},
	{"two lengths", "GET", func(c *peerConn, id int) {
		c.head(id, true, ":status: 200", "content-length: 0", "content-length: 1")
	}, 0, BadResponse, true},
	{"no status", "GET", func(c *peerConn, id int) { c.head(id, false, "server: x") }, 0, BadResponse, true},
	{"two statuses", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 200", ":status: 200") }, 0, BadResponse, true},
	{"long status", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 0200") }, 0, BadResponse, true},
	{"great status", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 600") }, 0, BadResponse, true},
	{"switched", "GET", func(c *peerConn, id int) { c.head(id, false, ":status: 101") }, 0, BadResponse, true},
	{"interim at the end", "GET", func(c *peerConn, id int) { c.head(id, true, ":status: 100") }, 0, BadResponse, true},
	{"content first", "GET", func(c *peerConn, id int) { c.WriteData(uint32(id), true, []byte("x")) }, 0, BadResponse, true},
	{"trailers that do not end it", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200")
		c.head(id, false, "x: y")
	}, 0, BadResponse, true},
	{"bad fields", "GET", func(c *peerConn, id int) { c.WriteRawFrame(http2.FrameHeaders, 4, uint32(id), []byte{0xff, 0xff}) }, 0, BadResponse, false},
	{"half a field", "GET", func(c *peerConn, id int) { c.WriteRawFrame(http2.FrameHeaders, 4, uint32(id), []byte{0x40, 5, 'a'}) }, 0, BadResponse, false},
	{"broken-off fields", "GET", func(c *peerConn, id int) {
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(id), BlockFragment: []byte{0x88}})
		c.WritePing(true, [8]byte{})
	}, 0, BadResponse, false},
	{"a lone continuation", "GET", func(c *peerConn, id int) { c.WriteRawFrame(http2.FrameContinuation, 4, uint32(id), []byte{0x88}) }, 0, BadResponse, false},
	{"endless continuations", "GET", func(c *peerConn, id int) {
		c.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(id), BlockFragment: []byte{0x88}})
		for range 5 {
			c.WriteContinuation(uint32(id), false, make([]byte, 1<<14))
		}
	}, 0, BadResponse, false},
	{"bad padding", "GET", func(c *peerConn, id int) { c.WriteRawFrame(http2.FrameData, 8, uint32(id), []byte{2, 0}) }, 0, BadResponse, false},
	{"push", "GET", func(c *peerConn, id int) {
		c.WritePushPromise(http2.PushPromiseParam{StreamID: uint32(id), PromiseID: 2, BlockFragment: []byte{0x88}, EndHeaders: true})
	}, 0, BadResponse, false},
	{"huge window", "GET", func(c *peerConn, id int) {
		c.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
	}, 0, BadResponse, false},
	{"tiny frames", "GET", func(c *peerConn, id int) {
		c.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1<<14 - 1})
	}, 0, BadResponse, false},
	{"longest frame", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200")
		c.WriteData(uint32(id), true, make([]byte, 1<<14))
	}, 200, 0, true},
	{"longer frame", "GET", func(c *peerConn, id int) {
		c.head(id, false, ":status: 200")
		c.WriteRawFrame(http2.FrameData, 1, uint32(id), make([]byte, 1<<14+1))
	}, 0, BadResponse, false},
	{"other protocol", "GET", func(c *peerConn, id int) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, 0, BadResponse, false},
}

func TestH2Answers(t *testing.T) {
	for _, a := range h2Answers {
		for _, piece := range []int{0, 1, 2, 7, 100} {
			t.Run(fmt.Sprintf("%s/%d", a.name, piece), func(t *testing.T) {
				p := &peer{piece: piece, answer: func(c *peerConn, _, id int) { a.send(c, id) }}
				opts := h2Options(p)
				c := New(t.Context(), opts)
				var got Answer
				err := c.Do(request(t, a.method, "http://a/", ""), &got)
				var failure *Failure
				if errors.As(err, &failure) && (got.Status != 0 || failure.Kind != a.kind) || err == nil && a.status == 0 || got.Status != a.status {
					t.Errorf("status %d, %v; want %d, %v", got.Status, err, a.status, a.kind)
				}
				if err == nil && (got.First.Before(got.Begin) || got.End.Before(got.First)) {
					t.Errorf("times out of order: %+v", got)
				}
				s := c.shared.places[0].session
				if a.keep != s.usable() {
					t.Errorf("usable: %v", s.usable())
				}
				c.Close()
				p.serving.Wait()
				if open := opts.Open.Now(); open != 0 {
					t.Errorf("%d open", open)
				}
			})
		}
	}
}

// A request that the server had not begun to work on goes by another connection;
// others have failed.
func TestH2Again(t *testing.T) {
	for _, c := range []struct {
		name             string
		second           func(c *peerConn, id int) // the answer to the second request
		status, requests int
		kind             Kind
		reopened         bool
	}{
		{"not begun", func(c *peerConn, id int) { c.WriteGoAway(uint32(id-2), http2.ErrCodeNo, nil) }, 200, 3, 0, true},
		{"begun", func(c *peerConn, id int) {
			c.WriteGoAway(uint32(id), http2.ErrCodeNo, nil)
			c.Close()
		}, 0, 2, Closed, false},
		{"an error", func(c *peerConn, id int) { c.WriteGoAway(uint32(id-2), http2.ErrCodeProtocol, nil) }, 0, 2, GoneAway, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &peer{answer: func(conn *peerConn, n, id int) {
				if n == 1 {
					c.second(conn, id)
				} else {
					conn.ok(id)
				}
			}}
			cl := New(t.Context(), h2Options(p))
			r := request(t, "GET", "http://a/", "")
			var a Answer
			if err := cl.Do(r, &a); err != nil || a.Reopened {
				t.Fatalf("%v, reopened %v", err, a.Reopened)
			}
			err := cl.Do(r, &a)
			var failure *Failure
			if errors.As(err, &failure) && failure.Kind != c.kind || a.Status != c.status || a.Reopened != c.reopened || p.requests != c.requests {
				t.Errorf("%v, status %d, reopened %v, %d requests", err, a.Status, a.Reopened, p.requests)
			}
			cl.Close()
			p.serving.Wait()
		})
	}
}

// A connection that ends while nobody uses it is replaced: no request has failed.
func TestH2ClosedWhileIdle(t *testing.T) {
	for _, bye := range []func(*peerConn){
		func(c *peerConn) { c.WriteGoAway(1, http2.ErrCodeNo, nil) },
		func(c *peerConn) { c.Close() },
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{answer: func(c *peerConn, n, id int) {
				c.ok(id)
				if n == 0 {
					bye(c)
				}
			}}
			cl := New(t.Context(), h2Options(p))
			r := request(t, "GET", "http://a/", "")
			var a Answer
			for n := range 3 {
				if err := cl.Do(r, &a); err != nil || a.Reopened != (n == 1) {
					t.Errorf("request %d: %v, reopened %v", n, err, a.Reopened)
				}
				synctest.Wait()
			}
			if p.opened != 2 {
				t.Errorf("%d connections", p.opened)
			}
			cl.Close()
			p.serving.Wait()
		})
	}
}

// together sends so many requests at once, and gives their failures.
func together(c *Client, r *Request, n int) (answers []Answer, failures []*Failure) {
	answers, failures = make([]Answer, n), make([]*Failure, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errors.As(c.Do(r, &answers[i]), &failures[i]) })
	}
	all.Wait()
	return answers, failures
}

// Requests share a connection, as many at once as the server allows.
func TestH2Streams(t *testing.T) {
	for _, most := range []uint32{1, 3, 50} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			now, peak := 0, 0
			p := &peer{settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: most}}}
			p.answer = func(c *peerConn, _, id int) {
				mu.Lock()
				defer mu.Unlock()
				now++
				peak = max(peak, now)
				time.AfterFunc(time.Second, func() {
					mu.Lock()
					defer mu.Unlock()
					now--
					c.ok(id)
				})
			}
			cl := New(t.Context(), h2Options(p))
			r := request(t, "GET", "http://a/", "")
			var first Answer
			if err := cl.Do(r, &first); err != nil { // its settings have come now
				t.Error(err)
			}
			begin := time.Now()
			_, failures := together(cl, r, 12)
			for _, failure := range failures {
				if failure != nil {
					t.Error(failure)
				}
			}
			rounds := (12 + int(most) - 1) / int(most)
			if took := time.Since(begin); peak != min(12, int(most)) || p.opened != 1 || took != time.Duration(rounds)*time.Second {
				t.Errorf("at most %d: %d at once over %d connections in %v", most, peak, p.opened, took)
			}
			cl.Close()
			p.serving.Wait()
		})
	}
}

// A stream without an answer times out alone; a connection of which nothing comes
// is given up.
func TestH2Timeout(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(c *peerConn, n, id int)
		keep   bool
	}{
		{"a stream", func(c *peerConn, n, id int) {
			if n == 0 {
				time.AfterFunc(limit/2, func() { c.WritePing(false, [8]byte{}) })
			} else {
				c.ok(id)
			}
		}, true},
		{"a connection", func(c *peerConn, n, id int) {
			if n > 0 {
				c.ok(id)
			}
		}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &peer{answer: c.answer}
			cl := New(t.Context(), h2Options(p))
			r := request(t, "GET", "http://a/", "")
			var a Answer
			var failure *Failure
			err := cl.Do(r, &a)
			if took := a.End.Sub(a.Begin); !errors.As(err, &failure) || failure.Kind != TimedOut || took < limit || took > limit+limit/4 {
				t.Errorf("%s: %v after %v", c.name, err, took)
			}
			synctest.Wait()
			if err := cl.Do(r, &a); err != nil || (p.opened == 1) != c.keep {
				t.Errorf("%s: then %v, %d connections", c.name, err, p.opened)
			}
			cl.Close()
			p.serving.Wait()
		})
	}
}

// A server that allows no stream is not waited for without end.
func TestH2NoStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{settings: []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: 0}}}
		p.answer = func(c *peerConn, _, id int) { c.ok(id) }
		cl := New(t.Context(), h2Options(p))
		r := request(t, "GET", "http://a/", "")
		var a Answer
		if err := cl.Do(r, &a); err != nil { // its settings have come now
			t.Error(err)
		}
		var failure *Failure
		err := cl.Do(r, &a)
		if took := a.End.Sub(a.Begin); !errors.As(err, &failure) || failure.Kind != TimedOut || took < limit || took > limit+limit/4 {
			t.Errorf("%v after %v", err, took)
		}
		cl.Close()
		p.serving.Wait()
	})
}

func TestH2Stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		p := &peer{answer: func(*peerConn, int, int) {}}
		cl := New(ctx, h2Options(p))
		begin := time.Now()
		_, failures := together(cl, request(t, "GET", "http://a/", ""), 5)
		var a Answer
		var after *Failure
		errors.As(cl.Do(request(t, "GET", "http://a/", ""), &a), &after)
		for _, failure := range append(failures, after) {
			if failure == nil || failure.Kind != Stopped {
				t.Errorf("%v", failure)
			}
		}
		if took := time.Since(begin); took != time.Millisecond {
			t.Errorf("stopped after %v", took)
		}
		cl.Close()
		p.serving.Wait()
	})
}

// A connection for each request, and a dead server for all who wait for it.
func TestH2Connections(t *testing.T) {
	p := &peer{answer: func(c *peerConn, _, id int) { c.ok(id) }}
	opts := h2Options(p)
	opts.KeepAlive = false
	cl := New(t.Context(), opts)
	for n := range 3 {
		var a Answer
		if err := cl.Do(request(t, "GET", "http://a/", ""), &a); err != nil || a.Connects != 1 || p.opened != n+1 || opts.Open.Now() != 0 {
			t.Errorf("%v, %d connects, %d opened, %d open", err, a.Connects, p.opened, opts.Open.Now())
		}
	}
	cl.Close()
	p.serving.Wait()

	synctest.Test(t, func(t *testing.T) {
		never := func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		opts := options(never)
		opts.Protocol = HTTP2
		cl := New(t.Context(), opts)
		answers, failures := together(cl, request(t, "GET", "http://a/", ""), 4)
		for i, failure := range failures {
			if took := answers[i].End.Sub(answers[i].Begin); failure == nil || failure.Kind != TimedOut || took != limit {
				t.Errorf("%v after %v", failure, took)
			}
		}
		cl.Close()
	})
}

// What is sent, by a server's own decoder: with cookies that change, and a table
// that the server makes smaller.
func TestH2Requests(t *testing.T) {
	const get, post = ":method=GET :scheme=http :authority=a:81 :path=/x?y=z user-agent=hb accept=*/* x-one=1",
		":method=POST :scheme=http :authority=b :path=/ accept=*/* content-length=2 user-agent=me"
	rows := []struct {
		head string
		body string
	}{
		{get, ""}, {get + " cookie=n=0", ""}, {get + " cookie=n=0", ""}, {get + " cookie=n=1", ""}, {post + " cookie=n=1", "xy"},
		{post + " cookie=n=2", "xy"}, {get + " cookie=n=2", ""}, {get + " cookie=n=3", ""}, {get + " cookie=n=3", ""},
	}
	p := &peer{answer: func(c *peerConn, n, id int) {
		if n == 5 {
			c.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: 64})
		}
		c.head(id, true, ":status: 200", fmt.Sprintf("set-cookie: n=%d", n/2))
	}}
	cl := New(t.Context(), h2Options(p))
	requests := map[string]*Request{
		"":   NewRequest("GET", parseURL(t, "http://a:81/x?y=z"), []Field{{"X-One", "1"}}, nil, true, ""),
		"xy": NewRequest("POST", parseURL(t, "http://a:81/"), []Field{{"Host", "b"}, {"User-Agent", "me"}}, []byte("xy"), true, ""),
	}
	var sent []int64
	for _, row := range rows {
		var a Answer
		if err := cl.Do(requests[row.body], &a); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, a.Sent)
	}
	cl.Close()
	p.serving.Wait()
	for i, row := range rows {
		if p.heads[i] != row.head || p.bodies[i] != len(row.body) {
			t.Errorf("request %d, %d bytes of content:\ngot  %s\nwant %s", i, p.bodies[i], p.heads[i], row.head)
		}
	}
	if sent[2] != frame.HeadBytes+8 || sent[0] <= 2*sent[2] || sent[8] <= 2*sent[2] {
		t.Errorf("sent %v", sent)
	}
}

// Without cookies, all but the first requests of a kind are a byte for each field,
// and still mean the same.
func TestH2BlocksSettle(t *testing.T) {
	p := &peer{answer: func(c *peerConn, _, id int) { c.ok(id) }}
	opts := h2Options(p)
	opts.Cookies = false
	cl := New(t.Context(), opts)
	a, b := request(t, "GET", "http://a/a", ""), request(t, "GET", "http://a/b", "")
	long := []int{0, 3} // which are the first of their kind
	for n, r := range []*Request{a, a, a, b, b, a, b, a} {
		var answer Answer
		if err := cl.Do(r, &answer); err != nil {
			t.Fatal(err)
		}
		if short := int64(frame.HeadBytes + len(r.fields)); !slices.Contains(long, n) && answer.Sent != short {
			t.Errorf("request %d: %d bytes, want %d", n, answer.Sent, short)
		}
		if want := ":path=" + []string{"/a", "/b"}[strings.Count("---bb-b-"[n:n+1], "b")]; !strings.Contains(p.heads[n], want) {
			t.Errorf("request %d: %s, want %s", n, p.heads[n], want)
		}
	}
	cl.Close()
	p.serving.Wait()
}

// What the client sends besides requests: its settings, what acknowledges the
// server's and its pings, and the end of content that nobody wants any more.
func TestH2OtherFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &peer{early: true, answer: func(c *peerConn, _, id int) {
			c.WritePing(false, [8]byte{1})
			c.head(id, true, ":status: 413")
		}}
		cl := New(t.Context(), h2Options(p))
		var a Answer
		if err := cl.Do(request(t, "POST", "http://a/", strings.Repeat("x", 100_000)), &a); err != nil || a.Status != 413 {
			t.Errorf("%v, %d", err, a.Status)
		}
		synctest.Wait()
		cl.Close()
		p.serving.Wait()
		slices.Sort(p.other)
		want := []http2.FrameType{http2.FrameRSTStream, http2.FrameSettings, http2.FrameSettings, http2.FramePing, http2.FrameWindowUpdate}
		if !slices.Equal(p.other, want) {
			t.Errorf("%v, want %v", p.other, want)
		}
	})
}

// goServer is net/http's server of HTTP/2, with or without TLS.
func goServer(t *testing.T, secure bool, handler http.HandlerFunc) (url string) {
	server := httptest.NewUnstartedServer(handler)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP2(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 100_000, MaxReceiveBufferPerConnection: 300_000}
	if server.EnableHTTP2 = secure; secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.URL
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

// Content goes both ways through small windows, with trailers at its end, beside
// other content.
func TestH2Content(t *testing.T) {
	const bytes = 1 << 20
	var wrong atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		if n != bytes || r.ProtoMajor != 2 {
			wrong.Add(1)
		}
		w.Header().Set("Trailer", "X-Sum")
		for range bytes / 1024 {
			w.Write(make([]byte, 1024))
		}
		w.Header().Set("X-Sum", "1")
	}
	for _, secure := range []bool{false, true} {
		for _, window := range []int{0, 100_000} {
			opts := options(dialTCP)
			opts.Protocol, opts.Window = HTTP2, window
			opts.TLS = &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}
			cl := New(t.Context(), opts)
			r := NewRequest("POST", parseURL(t, goServer(t, secure, handler)), nil, make([]byte, bytes), true, "")
			for range 2 {
				answers, failures := together(cl, r, 4)
				for i, failure := range failures {
					a := answers[i]
					if failure != nil || a.Status != 200 || a.Sent < bytes || a.Received < bytes || wrong.Load() != 0 {
						t.Errorf("TLS %v, window %d: %v, %+v", secure, window, failure, a)
					}
				}
			}
			if peak := opts.Open.Peak(); peak != 1 {
				t.Errorf("%d connections", peak)
			}
			cl.Close()
		}
	}
}

// An answer that comes before all content has been sent ends the exchange; the
// connection lives on.
func TestH2EarlyAnswer(t *testing.T) {
	url := goServer(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 2 {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})
	opts := options(dialTCP)
	opts.Protocol = HTTP2
	cl := New(t.Context(), opts)
	defer cl.Close()
	long := NewRequest("POST", parseURL(t, url), nil, make([]byte, 8<<20), true, "")
	short := NewRequest("POST", parseURL(t, url), nil, []byte("xy"), true, "")
	for _, c := range []struct {
		r      *Request
		status int
	}{{long, 413}, {short, 200}, {long, 413}, {short, 200}} {
		var a Answer
		if err := cl.Do(c.r, &a); err != nil || a.Status != c.status {
			t.Errorf("%v, status %d, want %d", err, a.Status, c.status)
		}
	}
	if peak := opts.Open.Peak(); peak != 1 {
		t.Errorf("%d connections", peak)
	}
}

// A server that does not speak HTTP/2 is a failure, not another measurement.
func TestH2NotChosen(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	opts := options(dialTCP)
	opts.Protocol = HTTP2
	opts.TLS = &tls.Config{InsecureSkipVerify: true}
	cl := New(t.Context(), opts)
	defer cl.Close()
	var a Answer
	var failure *Failure
	err := cl.Do(request(t, "GET", server.URL, ""), &a)
	if !errors.As(err, &failure) || failure.Kind != BadTLS || !strings.Contains(err.Error(), "not h2") {
		t.Errorf("%v", err)
	}
}

// A server that sends more than it may is found out. The window opens again when
// more than half of it is used.
func TestH2WindowExceeded(t *testing.T) {
	for _, c := range []struct {
		second int // bytes of the second frame; the first has half the window
		status int
	}{{10_000, 200}, {10_001, 0}} {
		p := &peer{answer: func(conn *peerConn, _, id int) {
			conn.head(id, false, ":status: 200")
			conn.WriteData(uint32(id), false, make([]byte, 10_000))
			conn.WriteData(uint32(id), true, make([]byte, c.second))
		}}
		opts := h2Options(p)
		opts.Window = 20_000
		cl := New(t.Context(), opts)
		var a Answer
		err := cl.Do(request(t, "GET", "http://a/", ""), &a)
		var failure *Failure
		if errors.As(err, &failure) && failure.Kind != BadResponse || a.Status != c.status {
			t.Errorf("%d bytes more: %v, status %d", c.second, err, a.Status)
		}
		cl.Close()
		p.serving.Wait()
	}
}
