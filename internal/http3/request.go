package http3

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/http2"
	"sluice/internal/message"
)

const (
	// beyond is how many times the limit of a head is read to its end, so that it can
	// be answered with 431; of a longer one the stream is reset.
	beyond = 4

	// inCode is how many times as long as what it stands for a field section may be:
	// the Huffman code makes rare symbols longer.
	inCode = 2

	// endWait is how long the end of a request is waited for that should have no
	// content: some clients send it in a packet of its own.
	endWait = 100 * time.Millisecond
)

var errPanic = errors.New("a fault of ours has ended the stream")

// request reads a request from a stream that the client has opened, and gives it to
// the loop. It is a goroutine, and ends with the request's content.
func (c *Conn) request(q *quic.Stream) {
	defer c.requests.Done()
	s := &Stream{c: c, q: q, declared: -1, unwatch: func() bool { return true }}
	s.users.Store(2) // this goroutine, and the owner
	defer s.leave()
	given := false
	defer func() {
		if v := recover(); v != nil {
			slog.Error("a request of HTTP/3 ended by a panic; its connection is closed", "panic", v, "stack", string(debug.Stack()))
			c.lose(InternalError, "")
		}
		if !given {
			s.leave()
		}
	}()
	from := newSource(q)
	if !s.readHead(from) {
		return
	}
	given = true
	s.heard = s.come
	if s.request.Body == message.NoBody {
		s.in.end = io.EOF
	} else {
		s.in.open(s.declared)
	}
	s.submit(s.arrive)
	if s.request.Body != message.NoBody {
		s.finish(s.readContent(from))
	}
}

// arrive gives the stream to its owner. Its end, which may have come already, is heard of
// from here on: the loop must not be told of it before.
func (s *Stream) arrive() {
	s.begin()
	s.unwatch = context.AfterFunc(s.q.Context(), func() { s.gone(context.Cause(s.q.Context())) })
	if s.c.owner == nil {
		s.Close() // it has gone already
		return
	}
	s.c.owner.Accept(s)
}

// readHead reads up to the end of the request's head; false: the request is not
// served, and what is to be said about it has been said.
func (s *Stream) readHead(from *source) bool {
	c := s.c
	s.q.SetReadDeadline(time.Now().Add(c.cfg.Header))
	block, err := s.headBlock(from)
	long, f := err == errLongBlock, (*Fault)(nil)
	if err == nil {
		long, f = s.head.decode(block, c.cfg.Head, c.cfg.Fields)
	}
	switch {
	case f != nil:
		s.refuse(f)
		return false
	case err != nil && !long:
		s.refuse(err)
		return false
	case long:
		s.turnAway(431)
		return false
	}
	end := s.endsHere(from)
	s.q.SetReadDeadline(time.Time{})
	r := &s.request
	wrong := (*http2.Fault)(nil)
	if s.joined, wrong = http2.ReadRequest(s.head.fields, end, true, r, s.joined); wrong != nil {
		c.noteMalformed()
		s.refuse(malformed(wrong))
		return false
	}
	r.Version = message.HTTP3
	if len(r.MethodName)+len(r.Target)+len("  HTTP/1.1") > c.cfg.Line {
		s.turnAway(414)
		return false
	}
	if r.Body == message.Length {
		s.declared = r.ContentLength
	}
	if p, said := http2.PriorityOf(r.Fields); said {
		c.asked(s.q, p)
	}
	return true
}

// errLongBlock means that a head is too long to be kept, and has been read to its end.
var errLongBlock = errors.New("the head is longer than limits.head")

// headBlock reads to the end of the first HEADERS; frames of unknown types may stand
// before it (RFC 9114 9). Heads of all requests may be under way at once, so of one that
// is sure to be too long nothing is kept.
func (s *Stream) headBlock(from *source) ([]byte, error) {
	for {
		h, err := from.frame()
		switch {
		case err == io.EOF:
			return nil, errIncomplete
		case err != nil:
			return nil, err
		case h.kind == frameHeaders && h.length > int64(beyond*s.c.cfg.Head):
			return nil, errLongSection
		case h.kind == frameHeaders && h.length > int64(inCode*s.c.cfg.Head):
			if err := from.skip(h.length); err != nil {
				return nil, err
			}
			return nil, errLongBlock
		case h.kind == frameHeaders:
			return from.whole(int(h.length))
		case known(h.kind):
			return nil, errFirst
		}
		if err := s.c.pass(from, h); err != nil {
			return nil, err
		}
	}
}

// known reports whether frames of a type must stand elsewhere if not here.
func known(kind uint64) bool {
	switch kind {
	case frameData, frameHeaders, frameCancelPush, frameSettings, framePushPromise, frameGoAway, frameMaxPushID, framePriority, framePushPriority:
		return true
	}
	return ofHTTP2(kind)
}

// endsHere reports whether the request ends with its head. That may come a moment
// later: it is waited for where content would be unusual.
func (s *Stream) endsHere(from *source) bool {
	wait := time.Duration(0)
	switch text := methodOf(s.head.fields); {
	case from.ended():
		return true
	case from.r < from.w:
		return false
	case text == "GET", text == "HEAD", text == "OPTIONS", text == "DELETE", text == "TRACE":
		wait = endWait
	}
	if wait == 0 || declares(s.head.fields) {
		return false
	}
	s.q.SetReadDeadline(time.Now().Add(wait))
	var one [1]byte
	_, err := s.q.Peek(one[:])
	if err == io.EOF {
		from.err = io.EOF
	}
	return err == io.EOF
}

// methodOf is the method that a head names; empty if none.
func methodOf(fs message.Fields) string {
	for i := range fs {
		if string(fs[i].Name) == ":method" {
			return string(fs[i].Value)
		}
	}
	return ""
}

// declares reports whether a head tells of content.
func declares(fs message.Fields) bool {
	f := fs.Get(message.ContentLength)
	return f != nil && string(f.Value) != "0"
}

// readContent reads the request's content into the inbox, up to its end. io.EOF: all
// of it has come.
func (s *Stream) readContent(from *source) error {
	received := int64(0)
	for {
		h, err := from.frame()
		switch {
		case err == io.EOF && s.declared >= 0 && received != s.declared:
			return errContent
		case err != nil:
			return err
		case h.kind == frameData:
			if received += h.length; s.declared >= 0 && received > s.declared {
				return errContent
			}
			if h.length == 0 && !s.c.bear(1) {
				return errLoad
			}
			err = s.deliver(from, h.length)
		case h.kind == frameHeaders:
			return s.readTrailers(from, h.length, received)
		case known(h.kind):
			return errUnexpected
		default:
			err = s.c.pass(from, h)
		}
		if err != nil {
			return err
		}
	}
}

// errShut means that nobody wants the rest of the content.
var errShut = errors.New("the content is not wanted")

// deliver moves n bytes of content.
func (s *Stream) deliver(from *source, n int64) error {
	for n > 0 {
		room := s.in.space(s.c.quic.Context().Done())
		if room == nil {
			return errShut
		}
		m, err := from.Read(room[:min(int64(len(room)), n)])
		if err != nil {
			return err
		}
		n -= int64(m)
		if s.in.put(m) {
			s.submit(s.heard)
		}
	}
	return nil
}

// readTrailers reads what follows the content, and the end behind it.
func (s *Stream) readTrailers(from *source, length, received int64) error {
	switch {
	case s.declared >= 0 && received != s.declared:
		return errContent
	case length > int64(s.c.cfg.Head):
		return errTrailers
	}
	block, err := from.whole(int(length))
	if err != nil {
		return err
	}
	long, f := s.tail.decode(block, s.c.cfg.Head, s.c.cfg.Fields)
	switch {
	case f != nil:
		return f
	case long:
		return errTrailers
	}
	if f := http2.CheckTrailers(s.tail.fields); f != nil {
		return malformed(f)
	}
	for {
		h, err := from.frame()
		switch {
		case err != nil:
			return err
		case known(h.kind):
			return errUnexpected
		}
		if err := s.c.pass(from, h); err != nil {
			return err
		}
	}
}

// finish tells the loop how the content ended.
func (s *Stream) finish(end error) {
	var f *Fault
	switch {
	case end == errShut:
		return
	case errors.As(end, &f) && f.Whole:
		s.c.lose(f.Code, f.Rule)
	case f != nil:
		s.c.noteMalformed()
		s.q.CancelRead(quic.StreamErrorCode(f.Code))
		s.q.CancelWrite(quic.StreamErrorCode(f.Code))
	case end != io.EOF:
		end = reason(end)
	}
	if s.in.finish(end) || end != io.EOF {
		s.submit(s.heard)
	}
}

// refuse ends a stream that has brought no request.
func (s *Stream) refuse(err error) {
	var f *Fault
	switch {
	case errors.As(err, &f) && f.Whole:
		s.c.lose(f.Code, f.Rule)
		return
	case f != nil:
	case errors.Is(err, os.ErrDeadlineExceeded):
		f = errIncomplete
	default: // the client has reset it, or is gone
		s.c.noteReset(err)
		s.q.CancelWrite(quic.StreamErrorCode(RequestCancelled))
		return
	}
	if !s.c.forgive() {
		s.c.lose(ExcessiveLoad, errLoad.Rule)
		return
	}
	s.q.CancelRead(quic.StreamErrorCode(f.Code))
	s.q.CancelWrite(quic.StreamErrorCode(f.Code))
}

// turnAway answers a request that goes to nobody.
func (s *Stream) turnAway(status int) {
	if !s.c.forgive() {
		s.c.lose(ExcessiveLoad, errLoad.Rule)
		return
	}
	s.q.TryWriteAll(appendHead(nil, &message.Response{Status: status})) // content-length: 0
	s.q.Close()
	s.q.CancelRead(quic.StreamErrorCode(NoError))
}
