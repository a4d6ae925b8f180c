package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"

	"sluice/cmd/hb/frame"
)

// Limits of a connection of HTTP/2.
const (
	h2BufferBytes  = 32 << 10 // a whole frame of 16 KiB fits, and more beside it
	h2BlockBytes   = 64 << 10 // fields of an answer, in Headers and Continuations
	h2TableBytes   = 4 << 10  // of HPACK, both ways: the value before Settings come
	h2StreamsFirst = 100      // at once, until the server has said how many
	h2LastStream   = 1<<31 - 1
	h2FirstWindow  = 1<<16 - 1 // section 6.9.2
	h2OutBytes     = 64 << 10  // of content that is put into one write
	h2Window       = 1 << 30
)

// errDone is the end that a client makes of its connection.
var errDone = errors.New("the client has ended the connection")

// h2 is a connection of HTTP/2 (RFC 9113). The way of a request:
//
//  1. begin: it gets a stream, and its frames are appended to out
//  2. write: one of those who have appended writes for all of them
//  3. read: the connection's own goroutine takes frames; they change the stream
//  4. finish: the stream has ended, and the goroutine that asked is woken
//
// Watch runs from time to time and finishes what has waited for too long.
type h2 struct {
	client *Client
	conn   net.Conn
	unbar  func() bool
	timer  *time.Timer
	window int // bytes that the server may send on a stream; immutable
	whole  int // the same, on all streams together; immutable

	mu       sync.Mutex // guards what follows
	room     sync.Cond  // there may be room for a stream, or none any more
	err      error      // why the connection ended; nil: it has not
	leaving  error      // why it takes no more requests; nil: it does
	useful   bool       // the server says that it has worked on some
	calm     bool       // the connection ended while nothing was under way on it
	live     map[uint32]*stream
	finished []*stream // to be woken once mu is free
	spare    []*stream
	next     uint32    // the next stream's number
	most     int       // streams that the server allows at once
	lastRead time.Time // when bytes came
	unseen   int       // bytes of content that came since the window was last opened

	credit      int64 // bytes of content that the server takes
	firstCredit int64 // the same, of each new stream
	maxFrame    int   // bytes
	blocked     []*stream
	out         []byte // frames to be written
	written     []byte // the writer's, while it writes; then the next out
	writing     bool
	blocks      blocks

	// The reader's own.
	buf     []byte
	r, w    int // buf[r:w] has come and is not yet taken
	decoder *hpack.Decoder
	fields  answerFields
	block   []byte     // fields of an answer whose Continuation is awaited
	pending frame.Head // the Headers frame that they began with; Length 0: none
	woken   []*stream
}

// stream is one exchange. The connection's mu guards it until it is finished; then
// the goroutine that asked owns it.
type stream struct {
	id     uint32
	done   chan struct{} // of capacity 1
	err    error
	answer *Answer
	jar    *hostJar
	noBody bool
	began  time.Time

	body   []byte // not yet sent
	credit int64  // bytes that the server takes

	headed bool  // the final head has come
	length int64 // of the content, as its head says; -1: it does not
	got    int64 // of the content
	unseen int   // bytes of content since the window was last opened
}

// newH2 begins the protocol on a new connection.
func newH2(c *Client, conn net.Conn) *h2 {
	s := &h2{
		client: c, conn: conn, window: c.opts.Window,
		live: map[uint32]*stream{}, next: 1, most: h2StreamsFirst, lastRead: time.Now(),
		credit: h2FirstWindow, firstCredit: h2FirstWindow, maxFrame: frame.MaxPayload,
		buf: make([]byte, h2BufferBytes),
	}
	if s.window == 0 {
		s.window = h2Window
	}
	s.whole = max(s.window, h2FirstWindow) // it cannot be made smaller
	s.room.L = &s.mu
	s.blocks.begin()
	s.decoder = hpack.NewDecoder(h2TableBytes, s.emit)
	s.out = frame.AppendSettings(append(s.out, frame.Preface...),
		frame.Setting{ID: frame.EnablePush, Value: 0},
		frame.Setting{ID: frame.InitialWindowSize, Value: uint32(s.window)})
	if more := s.whole - h2FirstWindow; more > 0 {
		s.out = frame.AppendWindowUpdate(s.out, 0, uint32(more))
	}
	c.opts.Open.up()
	s.mu.Lock()
	s.timer = time.AfterFunc(c.opts.Timeout/4, s.watch)
	s.unbar = context.AfterFunc(c.ctx, s.halt)
	s.mu.Unlock()
	c.shared.running.Go(s.read)
	return s
}

// exchange is the way of one request.
func (s *h2) exchange(r *Request, jar *hostJar, a *Answer) error {
	st, err := s.begin(r, jar, a)
	if err != nil {
		return err
	}
	s.write()
	<-st.done
	err = st.err
	s.keep(st)
	return err
}

// begin gives a request its stream, when the server allows one more.
func (s *h2) begin(r *Request, jar *hostJar, a *Answer) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for since := time.Now(); s.takes() && len(s.live) >= s.most; s.room.Wait() {
		if time.Since(since) >= s.client.opts.Timeout {
			return nil, fmt.Errorf("%w: the server allows no more than %d streams", os.ErrDeadlineExceeded, s.most)
		}
	}
	if s.err != nil {
		return nil, unprocessed{s.err, s.useful}
	}
	if s.leaving != nil {
		return nil, unprocessed{s.leaving, s.useful}
	}
	st := s.newStream()
	st.id, st.answer, st.jar, st.noBody = s.next, a, jar, r.noBody
	st.length, st.credit, st.began = -1, s.firstCredit, time.Now()
	s.next += 2
	if s.next > h2LastStream {
		s.leaving = goneAway{frame.NoError} // there are no more numbers
	}
	s.live[st.id] = st
	before := len(s.out)
	s.out = frame.AppendHeaders(s.out, st.id, s.blocks.of(r, jar), len(r.body) == 0)
	a.Sent += int64(len(s.out) - before)
	if len(r.body) > 0 {
		st.body = r.body
		s.blocked = append(s.blocked, st)
	}
	return st, nil
}

// newStream takes a stream that was kept, or makes one.
func (s *h2) newStream() *stream {
	if n := len(s.spare); n > 0 {
		st := s.spare[n-1]
		s.spare = s.spare[:n-1]
		*st = stream{done: st.done}
		return st
	}
	return &stream{done: make(chan struct{}, 1)}
}

// keep puts a stream aside for the next request.
func (s *h2) keep(st *stream) {
	s.mu.Lock()
	s.spare = append(s.spare, st)
	s.mu.Unlock()
}

// takes reports whether the connection takes requests. The caller holds mu.
func (s *h2) takes() bool { return s.err == nil && s.leaving == nil }

func (s *h2) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takes()
}

func (s *h2) endedCalmly() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calm || s.err == nil && s.leaving != nil
}

// finish ends a stream. The caller holds mu, and wakes who asked afterwards.
func (s *h2) finish(st *stream, err error) {
	delete(s.live, st.id)
	if len(st.body) > 0 { // an early answer: the server wants no more
		s.unblock(st)
		if s.err == nil {
			s.out = frame.AppendReset(s.out, st.id, frame.Cancel)
		}
	}
	if st.err = err; err != nil {
		st.answer.Status = 0 // half an answer is none
	}
	s.finished = append(s.finished, st)
	s.room.Signal()
}

// wake wakes those whose streams have ended. The caller holds mu.
func (s *h2) wake() {
	for _, st := range s.finished {
		st.done <- struct{}{}
	}
	s.finished = s.finished[:0]
}

// abandon ends a stream that the server has not ended. The caller holds mu.
func (s *h2) abandon(st *stream, code frame.Code, err error) {
	st.body = nil
	s.unblock(st)
	s.out = frame.AppendReset(s.out, st.id, code)
	s.finish(st, err)
}

// end closes the connection. The first error counts.
func (s *h2) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = err
	s.calm = len(s.live) == 0 && closedByPeer(err)
	for _, st := range s.live {
		s.finish(st, err)
	}
	s.wake()
	s.timer.Stop()
	s.unbar()
	s.conn.Close()
	s.client.opts.Open.down()
	s.room.Broadcast()
}

// halt is the end of the run.
func (s *h2) halt() { s.end(s.client.ctx.Err()) }

// watch finishes streams whose answer takes too long, a quarter late at most, and
// lets those who wait for a stream look at their time. If nothing came at all, the
// connection is given up.
func (s *h2) watch() {
	timeout, now := s.client.opts.Timeout, time.Now()
	s.mu.Lock()
	late := false
	for _, st := range s.live {
		if now.Sub(st.began) >= timeout {
			s.abandon(st, frame.Cancel, os.ErrDeadlineExceeded)
			late = true
		}
	}
	dead := late && now.Sub(s.lastRead) >= timeout
	s.wake()
	s.room.Broadcast()
	if s.err == nil {
		s.timer.Reset(timeout / 4)
	}
	s.mu.Unlock()
	switch {
	case dead:
		s.end(os.ErrDeadlineExceeded)
	case late:
		s.write()
	}
}
