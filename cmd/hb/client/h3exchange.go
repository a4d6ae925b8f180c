package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
	"golang.org/x/net/http2/hpack"
)

// h3Exchange is one request and its answer. The goroutine that asks owns it.
type h3Exchange struct {
	stream *quic.Stream
	answer *Answer
	cookie []byte

	buf     []byte
	r, w    int       // buf[r:w] has come and is not yet taken
	last    time.Time // when the last of it came
	fields  answerFields
	block   []byte // fields that have come in part
	headed  bool   // the final head has come
	trailed bool   // trailers have come
	length  int64  // of the content, as its head says; -1: it does not
	got     int64  // of the content
}

// exchange is the way of one request: a stream, the request, frames, the end.
func (s *h3) exchange(r *Request, jar *hostJar, a *Answer) error {
	x, err := s.begin(a)
	if err != nil {
		return err
	}
	err = s.open(x)
	if err == nil {
		err = x.run(r, jar)
	}
	return s.finish(x, err)
}

// begin counts an exchange, if the connection takes it.
func (s *h3) begin(a *Answer) (*h3Exchange, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, unprocessed{h3Error(s.err), s.refused > 0}
	}
	if s.leaving != nil {
		return nil, unprocessed{s.leaving, s.refused > 0}
	}
	x := &h3Exchange{buf: make([]byte, h3BufferBytes)}
	if n := len(s.spare); n > 0 {
		x, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	*x = h3Exchange{answer: a, cookie: x.cookie, buf: x.buf, block: x.block[:0], length: -1}
	s.live[x] = true
	return x, nil
}

// open opens the stream, when the server allows one more, and sets its time-out.
func (s *h3) open(x *h3Exchange) error {
	deadline := time.Now().Add(s.client.opts.Timeout)
	stream, err := s.conn.OpenStream()
	if errors.As(err, new(*quic.StreamLimitReachedError)) {
		ctx, cancel := context.WithDeadline(s.client.ctx, deadline)
		defer cancel()
		stream, err = s.conn.OpenStreamSync(ctx)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	x.stream = stream
	s.drop(x)
	s.mu.Unlock()
	return stream.SetDeadline(deadline)
}

// finish puts an exchange aside, and says what its error means.
func (s *h3) finish(x *h3Exchange, err error) error {
	if err != nil {
		x.answer.Status = 0 // half an answer is none
	}
	if err != nil && x.stream != nil {
		x.cancel()
	}
	broken := errors.Is(err, net.ErrClosed) // quic-go's word for a connection that has ended
	s.mu.Lock()
	delete(s.live, x)
	over := s.leaving != nil && len(s.live) == 0
	switch {
	case err != nil && s.refuses(x):
		err = unprocessed{s.leaving, s.refused > 0}
	case broken && x.stream == nil: // it ended before we asked
		err = unprocessed{h3Error(err), true}
	case broken && s.err != nil: // perhaps we ended it, for this reason
		err = s.err
	}
	s.spare = append(s.spare, x)
	s.mu.Unlock()
	if broken || over {
		s.end(cmp.Or(err, io.EOF))
	}
	if err == nil {
		return nil
	}
	return h3Error(err)
}

// cancel ends the stream both ways.
func (x *h3Exchange) cancel() {
	x.stream.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
	x.stream.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
}

// run sends the request and reads the answer.
func (x *h3Exchange) run(r *Request, jar *hostJar) error {
	writeErr := x.send(r, jar)
	err := x.receive(r.noBody, jar)
	if err == nil && writeErr != nil {
		// A server may answer before it has read all of a body: the answer counts.
		x.stream.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
	}
	return err
}

func (x *h3Exchange) send(r *Request, jar *hostJar) error {
	head := r.h3
	if x.cookie = jar.appendLine(x.cookie[:0]); len(x.cookie) > 0 {
		head = h3Head(r.fields, string(x.cookie), len(r.body))
	}
	for _, part := range [][]byte{head, r.body} {
		n, err := x.stream.Write(part)
		x.answer.Sent += int64(n)
		if err != nil {
			return err
		}
	}
	return x.stream.Close()
}

// receive reads frames up to the stream's end.
func (x *h3Exchange) receive(noBody bool, jar *hostJar) error {
	x.fields = answerFields{jar: jar}
	for {
		kind, err := x.number()
		if errors.Is(err, io.EOF) && x.headed {
			break
		}
		if err != nil {
			return whole(err)
		}
		length, err := x.number()
		if err != nil {
			return whole(err)
		}
		if err := x.take(kind, length); err != nil {
			return whole(err)
		}
	}
	a := x.answer
	a.End = x.last
	if x.length >= 0 && x.got != x.length && !noBody && a.Status != 304 {
		return badResponse("its content is not as long as its content-length")
	}
	return nil
}

// whole makes of an end that comes too early one that is not whole.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// take takes one frame (section 7.2).
func (x *h3Exchange) take(kind, length uint64) error {
	switch kind {
	case h3Headers:
		return x.takeFields(length)
	case h3Data:
		if !x.headed || x.trailed {
			return badResponse("content comes before its head, or after trailers")
		}
		x.got += int64(length)
		return x.skip(length)
	case h3CancelPush, h3Settings, h3PushPromise, h3GoAway, h3MaxPushID, 0x2, 0x6, 0x8, 0x9:
		return badResponse("a frame on a request's stream does not belong there")
	}
	return x.skip(length)
}

// takeFields takes the head of an answer, an interim one, or trailers.
func (x *h3Exchange) takeFields(length uint64) error {
	if x.trailed {
		return badResponse("fields come after its trailers")
	}
	if length > h3BlockBytes {
		return badResponse("its fields are longer than 64 KiB")
	}
	for x.block = x.block[:0]; len(x.block) < int(length); {
		if x.r == x.w {
			if err := x.fill(); err != nil {
				return err
			}
		}
		n := min(int(length)-len(x.block), x.w-x.r)
		x.block = append(x.block, x.buf[x.r:x.r+n]...)
		x.r += n
	}
	x.fields = answerFields{headed: x.headed, jar: x.fields.jar, length: -1}
	next := qpack.NewDecoder().Decode(x.block)
	for {
		f, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return badResponse("its fields cannot be decoded: " + err.Error())
		}
		x.fields.take(f.Name, f.Value)
	}
	// Whether anything follows is only known later: trailers are their own end.
	switch kind, fault := x.fields.kind(x.headed); kind {
	case wrongHead:
		return fault
	case trailers:
		x.trailed = true
	case finalHead:
		x.headed, x.answer.Status, x.length = true, x.fields.status, x.fields.length
	}
	return nil
}

// number reads an integer of variable length (RFC 9000, section 16).
func (x *h3Exchange) number() (uint64, error) {
	for {
		n, length, err := quicvarint.Parse(x.buf[x.r:x.w])
		if err == nil {
			x.r += length
			return n, nil
		}
		begun := x.r < x.w
		if err := x.fill(); err != nil {
			if begun {
				err = whole(err)
			}
			return 0, err
		}
	}
}

// skip passes over n bytes.
func (x *h3Exchange) skip(n uint64) error {
	for {
		have := min(n, uint64(x.w-x.r))
		x.r += int(have)
		if n -= have; n == 0 {
			return nil
		}
		if err := x.fill(); err != nil {
			return err
		}
	}
}

// fill reads what has come.
func (x *h3Exchange) fill() error {
	if x.r == x.w {
		x.r, x.w = 0, 0
	} else if x.w == len(x.buf) {
		x.w = copy(x.buf, x.buf[x.r:x.w])
		x.r = 0
	}
	n, err := x.stream.Read(x.buf[x.w:])
	if n == 0 && err != nil {
		return err
	}
	x.last = time.Now()
	if x.answer.First.IsZero() {
		x.answer.First = x.last
	}
	x.w += n
	x.answer.Received += int64(n)
	return nil
}

// h3Head is what a request begins with: a frame of its fields as QPACK has them
// without a table (RFC 9204), with the client's cookies if there are any, and the
// head of the one frame that its content is.
func h3Head(fields []hpack.HeaderField, cookie string, content int) []byte {
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	for _, f := range fields {
		encoder.WriteField(qpack.HeaderField{Name: f.Name, Value: f.Value})
	}
	if cookie != "" {
		encoder.WriteField(qpack.HeaderField{Name: "cookie", Value: cookie})
	}
	b := quicvarint.Append([]byte{h3Headers}, uint64(block.Len()))
	b = append(b, block.Bytes()...)
	if content > 0 {
		b = quicvarint.Append(append(b, h3Data), uint64(content))
	}
	return b
}
