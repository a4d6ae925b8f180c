package client

import (
	"errors"
	"io"
	"time"

	"golang.org/x/net/http2/hpack"

	"sluice/cmd/hb/frame"
)

// read takes frames until the connection ends. It is the connection's goroutine.
func (s *h2) read() {
	for {
		if s.w == len(s.buf) { // a frame is never longer than the buffer
			s.w = copy(s.buf, s.buf[s.r:s.w])
			s.r = 0
		}
		n, err := s.conn.Read(s.buf[s.w:])
		if n > 0 {
			s.w += n
			if faulty := s.takeAll(time.Now()); faulty != nil {
				err = faulty
			}
		}
		if err != nil {
			s.end(s.cause(err))
			return
		}
	}
}

// cause is why the connection ended: what the server said, if it did.
func (s *h2) cause(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone goneAway
	if closedByPeer(err) && errors.As(s.leaving, &gone) && gone.code != frame.NoError {
		return gone
	}
	return err
}

// takeAll takes the frames that are whole, and wakes those whose streams ended.
func (s *h2) takeAll(now time.Time) error {
	s.mu.Lock()
	s.lastRead = now
	var err error
	for err == nil && s.w-s.r >= frame.HeadBytes {
		h := frame.ParseHead(s.buf[s.r:])
		if h.Length > frame.MaxPayload {
			err = badResponse("a frame is longer than 16 KiB")
			break
		}
		end := s.r + frame.HeadBytes + h.Length
		if end > s.w {
			break
		}
		payload := s.buf[s.r+frame.HeadBytes : end]
		s.r = end
		err = s.take(h, payload, now)
	}
	if s.r == s.w {
		s.r, s.w = 0, 0
	}
	if err == nil && s.leaving != nil && len(s.live) == 0 {
		err = io.EOF
	}
	write := len(s.out) > 0 && !s.writing || len(s.blocked) > 0 && !s.writing
	s.woken = append(s.woken[:0], s.finished...)
	s.finished = s.finished[:0]
	s.mu.Unlock()
	for _, st := range s.woken {
		st.done <- struct{}{}
	}
	if write && err == nil {
		s.client.shared.running.Go(s.write) // not here: who reads must not wait for the server to read
	}
	return err
}

// take takes one frame. The caller holds mu. An error ends the connection.
func (s *h2) take(h frame.Head, payload []byte, now time.Time) error {
	if s.pending.Type == frame.Headers && h.Type != frame.Continuation {
		return badResponse("a block of fields is broken off by another frame")
	}
	st := s.live[h.Stream]
	if st != nil {
		st.answer.Received += int64(frame.HeadBytes + h.Length)
	}
	switch h.Type {
	case frame.Data:
		return s.takeData(h, payload, st, now)
	case frame.Headers, frame.Continuation:
		return s.takeHeaders(h, payload, st, now)
	case frame.Reset:
		code, err := frame.ParseReset(payload)
		if err == nil && st != nil {
			st.body = nil
			s.unblock(st)
			s.finish(st, streamReset{code})
		}
		return err
	case frame.Settings:
		return s.takeSettings(h, payload)
	case frame.Ping:
		if !h.Flags.Has(frame.Ack) {
			s.out = frame.Append(s.out, frame.Ping, frame.Ack, 0, payload)
		}
	case frame.GoAway:
		return s.takeGoAway(payload)
	case frame.WindowUpdate:
		bytes, err := frame.ParseWindowUpdate(payload)
		if h.Stream == 0 {
			s.credit += int64(bytes)
		} else if st != nil {
			st.credit += int64(bytes)
		}
		return err
	case frame.PushPromise:
		return badResponse("it pushes, which we had forbidden")
	}
	return nil // of another type, which means nothing to us (section 4.1)
}

// takeData counts content, and opens the windows again when half of them is used.
func (s *h2) takeData(h frame.Head, payload []byte, st *stream, now time.Time) error {
	s.unseen += h.Length
	if s.unseen > s.whole {
		return badResponse("it sends more than the connection's window")
	}
	if s.unseen > s.whole/2 {
		s.out = frame.AppendWindowUpdate(s.out, 0, uint32(s.unseen))
		s.unseen = 0
	}
	content, err := frame.Content(h, payload)
	if err != nil || st == nil {
		return err
	}
	last := h.Flags.Has(frame.EndStream)
	st.got += int64(len(content))
	st.unseen += h.Length
	switch {
	case !st.headed:
		s.abandon(st, frame.ProtocolError, badResponse("content comes before its head"))
		return nil
	case st.unseen > s.window:
		return badResponse("it sends more than the stream's window")
	case last:
		s.complete(st, now)
	case st.unseen > s.window/2:
		s.out = frame.AppendWindowUpdate(s.out, st.id, uint32(st.unseen))
		st.unseen = 0
	}
	return nil
}

// complete ends a stream whose answer has come whole, unless it is not as long as
// it said (section 8.1.1).
func (s *h2) complete(st *stream, now time.Time) {
	st.answer.End = now
	if st.length >= 0 && st.got != st.length && !st.noBody && st.answer.Status != 304 {
		s.finish(st, badResponse("its content is not as long as its content-length"))
		return
	}
	s.finish(st, nil)
}

// takeHeaders takes a block of fields, or a part of one.
func (s *h2) takeHeaders(h frame.Head, payload []byte, st *stream, now time.Time) error {
	begun := s.pending.Type == frame.Headers
	switch {
	case h.Type == frame.Headers:
		s.pending = h
		var err error
		if payload, err = frame.Content(h, payload); err != nil {
			return err
		}
	case !begun || h.Stream != s.pending.Stream:
		return badResponse("a Continuation follows no block of fields")
	}
	if len(s.block)+len(payload) > h2BlockBytes {
		return badResponse("its fields are longer than 64 KiB")
	}
	if !h.Flags.Has(frame.EndHeaders) {
		s.block = append(s.block, payload...)
		return nil
	}
	if begun {
		s.block = append(s.block, payload...)
		payload = s.block
	}
	last := s.pending.Flags.Has(frame.EndStream)
	if s.fields = (answerFields{ignore: st == nil, length: -1}); st != nil {
		s.fields.headed, s.fields.jar = st.headed, st.jar
	}
	_, err := s.decoder.Write(payload)
	if err == nil {
		err = s.decoder.Close()
	}
	if err != nil {
		return badResponse("its fields cannot be decoded: " + err.Error())
	}
	s.pending, s.block = frame.Head{}, s.block[:0]
	if st != nil {
		s.takeHead(st, last, now)
	}
	return nil
}

// takeHead takes the head of an answer, an interim one, or trailers.
func (s *h2) takeHead(st *stream, last bool, now time.Time) {
	if st.answer.First.IsZero() {
		st.answer.First = now
	}
	switch kind, fault := s.fields.kind(last); kind {
	case wrongHead:
		s.abandon(st, frame.ProtocolError, fault)
	case trailers:
		s.complete(st, now)
	case finalHead:
		st.headed, st.answer.Status, st.length = true, s.fields.status, s.fields.length
		if last {
			s.complete(st, now)
		}
	}
}

// emit is called by the decoder.
func (s *h2) emit(f hpack.HeaderField) { s.fields.take(f.Name, f.Value) }

// takeSettings follows the server's settings (section 6.5.3).
func (s *h2) takeSettings(h frame.Head, payload []byte) error {
	if h.Flags.Has(frame.Ack) {
		return nil
	}
	err := frame.ParseSettings(payload, func(p frame.Setting) error {
		switch p.ID {
		case frame.HeaderTableSize:
			s.blocks.resize(p.Value)
		case frame.MaxConcurrentStreams:
			s.most = int(p.Value)
			s.room.Broadcast()
		case frame.InitialWindowSize:
			if p.Value > 1<<31-1 {
				return badResponse("its window is larger than 2 GiB")
			}
			for _, st := range s.live {
				st.credit += int64(p.Value) - s.firstCredit
			}
			s.firstCredit = int64(p.Value)
		case frame.MaxFrameSize:
			if p.Value < frame.MaxPayload || p.Value >= 1<<24 {
				return badResponse("its frames are not of 16 KiB to 16 MiB")
			}
			s.maxFrame = int(p.Value)
		}
		return nil
	})
	s.out = frame.Append(s.out, frame.Settings, frame.Ack, 0, nil)
	return err
}

// takeGoAway fails what the server will not work on any more (section 6.8). What it
// still works on may go on to its end.
func (s *h2) takeGoAway(payload []byte) error {
	last, code, err := frame.ParseGoAway(payload)
	if err != nil {
		return err
	}
	s.leaving, s.useful = goneAway{code}, last > 0
	for _, st := range s.live {
		if st.id <= last {
			continue
		}
		st.body = nil
		s.unblock(st)
		if code == frame.NoError {
			s.finish(st, unprocessed{s.leaving, s.useful})
		} else {
			s.finish(st, s.leaving)
		}
	}
	s.room.Broadcast()
	return nil
}
