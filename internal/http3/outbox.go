package http3

import (
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
)

const (
	// outboxRoom is how many bytes of an answer wait for the goroutine that sends
	// them; as many more are in its hands.
	outboxRoom = 64 << 10

	// atOnce is how many bytes of an answer are given to quic-go without a goroutine:
	// it takes them whole or not at all, and keeps them until they are acknowledged.
	atOnce = 16 << 10

	// piece is the least room that a part of a longer content is put into, bytes.
	piece = 8 << 10

	// firstOutbox is the room that an outbox begins with: a head and a short answer.
	firstOutbox = 1 << 10
)

var outboxes = sync.Pool{New: func() any { b := make([]byte, 0, outboxRoom+maxFrameHead); return &b }}

// outbox is an answer on its way from the loop to quic-go, as frames. The lock is
// held for an append or a swap.
type outbox struct {
	begun   bool // something has been given to quic-go; loop only
	pumping bool // a goroutine sends; loop only
	soon    bool // a task of this loop will flush; loop only

	mu      sync.Mutex
	b       []byte
	spare   []byte        // of the pump
	last    bool          // nothing follows
	void    bool          // nobody wants it any more
	resting bool          // the pump wants to hear of more
	awaited bool          // the loop wants to hear of room
	stall   time.Duration // for the client to take anything; 0: no limit
	work    chan struct{} // a token: look again
}

// append adds what f appends.
func (o *outbox) append(f func([]byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b == nil {
		o.b = make([]byte, 0, firstOutbox)
	}
	o.b = f(o.b)
}

// put adds as much of p as there is room for, as a frame. If nothing is taken, the
// loop will be told of room.
func (o *outbox) put(p []byte) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := min(len(p), outboxRoom-len(o.b))
	if n <= 0 || n < len(p) && n < piece {
		o.awaited = true
		return 0
	}
	if cap(o.b) < len(o.b)+n+maxFrameHead && len(o.b)+n > 2*firstOutbox {
		o.b = append((*outboxes.Get().(*[]byte))[:0], o.b...)
	}
	o.b = append(appendFrame(o.b, frameData, n), p[:n]...)
	return n
}

// size is how much waits.
func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.b)
}

// full reports whether a head has no room; then the loop will be told of it.
func (o *outbox) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.awaited = len(o.b) >= outboxRoom
	return o.awaited
}

// hand has the pump look again; last: nothing follows.
func (o *outbox) hand(last bool) {
	o.mu.Lock()
	o.last = last
	resting := o.resting
	o.resting = false
	o.mu.Unlock()
	if resting {
		o.work <- struct{}{} // it has room: who rests has taken the token before
	}
}

// cancel ends the pump, if there is one.
func (o *outbox) cancel() {
	o.mu.Lock()
	o.void = true
	resting := o.resting
	o.resting = false
	o.mu.Unlock()
	if resting {
		o.work <- struct{}{}
	}
}

// next waits for more; wake: the loop waits for the room that there is now. No bytes:
// it was the last, or nobody wants it, or over is closed.
func (o *outbox) next(sent []byte, over <-chan struct{}) (b []byte, void, wake bool) {
	for {
		o.mu.Lock()
		if sent != nil {
			o.spare, sent = sent[:0], nil
		}
		switch {
		case o.void:
			o.mu.Unlock()
			return nil, true, false
		case len(o.b) > 0:
			b, o.b, o.spare = o.b, o.spare, nil
			wake, o.awaited = o.awaited, false
			o.mu.Unlock()
			return b, false, wake
		case o.last:
			o.mu.Unlock()
			return nil, false, false
		}
		o.resting = true
		o.mu.Unlock()
		select {
		case <-o.work:
		case <-over:
			return nil, true, false
		}
	}
}

// recycle gives the room back.
func (o *outbox) recycle() {
	for _, b := range [][]byte{o.b, o.spare} {
		if cap(b) == outboxRoom+maxFrameHead {
			b = b[:0]
			outboxes.Put(&b)
		}
	}
	o.b, o.spare = nil, nil
}

// flush gives quic-go what was gathered: by itself if that is short, and the whole
// answer or its beginning; else by a goroutine. Loop only.
func (s *Stream) flush() {
	o := &s.out
	if !o.pumping && (s.done || !o.begun) && o.size() <= atOnce {
		o.begun = true
		switch err := s.q.TryWriteAll(o.b); {
		case err == nil:
			if o.b = o.b[:0]; s.done {
				s.unwatch()
				s.q.Close()
			}
			return
		case !errors.Is(err, quic.ErrWouldBlock):
			s.fail(reason(err))
			return
		}
	}
	o.begun = true
	if !o.pumping {
		o.pumping = true
		o.work = make(chan struct{}, 1)
		o.stall = s.stall
		o.last = s.done
		s.users.Add(1)
		go s.pump()
		return
	}
	o.hand(s.done)
}

// pump sends an answer that is not short. It is a goroutine, and ends with the
// answer.
func (s *Stream) pump() {
	defer s.leave()
	defer func() {
		if v := recover(); v != nil {
			slog.Error("an answer of HTTP/3 ended by a panic", "panic", v, "stack", string(debug.Stack()))
			s.q.CancelWrite(quic.StreamErrorCode(InternalError))
			s.submit(func() { s.fail(errPanic) })
		}
	}()
	var b []byte
	for {
		var void, wake bool
		b, void, wake = s.out.next(b, s.c.quic.Context().Done())
		if wake {
			s.submit(s.Resume)
		}
		switch {
		case void:
			return
		case b == nil:
			s.unwatch()
			s.q.Close()
			return
		}
		if err := s.send(b); err != nil {
			s.submit(func() { s.fail(reason(err)) })
			return
		}
	}
}

// send writes b, all of it at once, so that there is something to send whenever it is the
// stream's turn. The client must take something within the time for a stall, and all
// within that and what the least rate allows: it may open its window as little at a time
// as it likes.
func (s *Stream) send(b []byte) error {
	for all := s.takenBy(len(b)); len(b) > 0; {
		by := s.takenBy(0)
		if s.c.cfg.Rate > 0 && by.After(all) {
			by = all
		}
		s.q.SetWriteDeadline(by)
		n, err := s.q.Write(b)
		if b = b[n:]; err == nil {
			break
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || by == all {
			return s.giveUp(err)
		}
	}
	return nil
}

// giveUp ends an answer that cannot be sent.
func (s *Stream) giveUp(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.noteStall()
	}
	s.q.CancelWrite(quic.StreamErrorCode(RequestCancelled))
	return err
}

// takenBy is when the client must have taken n bytes; zero: it has all the time.
func (s *Stream) takenBy(n int) time.Time {
	within := s.out.stall
	if within == 0 {
		return time.Time{}
	}
	if rate := s.c.cfg.Rate; rate > 0 {
		within += time.Duration(n) * time.Second / time.Duration(rate)
	}
	return time.Now().Add(within)
}
