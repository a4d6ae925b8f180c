package http2

import (
	"strconv"

	"sluice/internal/http2/hpack"
	"sluice/internal/message"
)

var contentLength = []byte("content-length")

// Respond sends a head; an interim one if its status is below 200. last says that
// no content follows. Content-length is written if r.ContentLength is not
// negative. It waits while too much else is gathered.
func (s *Stream) Respond(r *message.Response, last bool) error {
	if err := s.awaitRoom(); err != nil {
		return err
	}
	o := &s.c.out
	from := o.open()
	o.b = hpack.AppendStatus(o.b, r.Status)
	o.b = appendFields(o.b, r.Fields)
	if r.ContentLength >= 0 && r.Status >= 200 {
		o.b = hpack.AppendField(o.b, message.ContentLength, contentLength, strconv.AppendInt(s.digits[:0], r.ContentLength, 10))
	}
	f := flags(0)
	if last {
		f = endStream
	}
	o.close(&s.stream, from, f)
	if s.done = last; last {
		s.settle()
	}
	return nil
}
