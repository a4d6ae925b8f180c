package http3

import "sync"

// The room of an inbox, bytes: of content that is known to be short, and of other. A
// power of two.
const (
	shortInbox = 4 << 10
	longInbox  = 64 << 10
)

var rings = sync.Pool{New: func() any { return new([longInbox]byte) }}

// inbox is content on its way from the goroutine that reads it to the loop. The lock
// is held for a look at the marks: between them one side reads and the other writes.
type inbox struct {
	mu         sync.Mutex
	ring       []byte
	head, tail int64         // bytes that were taken, and put, so far
	end        error         // what follows the content; nil: that is not known yet
	awaited    bool          // the loop wants to hear of what comes
	waiting    bool          // the goroutine wants to hear of room
	shut       bool          // nothing is taken any more
	room       chan struct{} // a token: there may be room
}

// open makes room for content of so many bytes; -1: nobody knows.
func (b *inbox) open(length int64) {
	b.room = make(chan struct{}, 1)
	if 0 <= length && length <= shortInbox {
		b.ring = make([]byte, shortInbox)
		return
	}
	b.ring = rings.Get().(*[longInbox]byte)[:]
}

// recycle gives the room back, once neither side uses it.
func (b *inbox) recycle() {
	if len(b.ring) == longInbox {
		rings.Put((*[longInbox]byte)(b.ring))
	}
	b.ring = nil
}

// space waits for room and returns some of it; nil: nobody takes anything, or over is
// closed.
func (b *inbox) space(over <-chan struct{}) []byte {
	for {
		b.mu.Lock()
		free := int64(len(b.ring)) - (b.tail - b.head)
		at := b.tail & int64(len(b.ring)-1)
		shut := b.shut
		b.waiting = free == 0 && !shut
		b.mu.Unlock()
		switch {
		case shut:
			return nil
		case free > 0:
			return b.ring[at:min(at+free, int64(len(b.ring)))]
		}
		select {
		case <-b.room:
		case <-over:
			return nil
		}
	}
}

// put notes n bytes in what space has returned; wake: the loop waits for them.
func (b *inbox) put(n int) (wake bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tail += int64(n)
	wake, b.awaited = b.awaited, false
	return wake
}

// finish notes what follows the content, io.EOF if that is whole.
func (b *inbox) finish(end error) (wake bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end == nil {
		b.end = end
	}
	wake, b.awaited = b.awaited, false
	return wake
}

// look tells what there is: content, else what follows it, else nothing; then the
// loop will be told of what comes.
func (b *inbox) look() (content bool, end error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tail > b.head {
		return true, nil
	}
	b.awaited = b.end == nil
	return false, b.end
}

// ended is what follows the content, taken or not; nil: that is not known yet.
func (b *inbox) ended() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end
}

// take moves content into p.
func (b *inbox) take(p []byte) (n int) {
	b.mu.Lock()
	head, tail := b.head, b.tail
	b.mu.Unlock()
	for n < len(p) && head < tail {
		at := head & int64(len(b.ring)-1)
		m := copy(p[n:], b.ring[at:min(at+tail-head, int64(len(b.ring)))])
		n += m
		head += int64(m)
	}
	b.mu.Lock()
	b.head = head
	waiting := b.waiting
	b.waiting = false
	b.mu.Unlock()
	if waiting {
		b.call()
	}
	return n
}

// close ends the wait of the goroutine, if it waits: nothing is taken any more.
func (b *inbox) close() {
	b.mu.Lock()
	b.shut, b.awaited = true, false
	open := b.room != nil
	b.mu.Unlock()
	if open {
		b.call()
	}
}

func (b *inbox) call() {
	select {
	case b.room <- struct{}{}:
	default: // there is a token already
	}
}
