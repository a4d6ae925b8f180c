package http2

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
)

// carry brings what is sent on one wire to the other, each byte after delay. It is a
// goroutine, and ends with either wire.
func carry(from, to *simWire, delay time.Duration) {
	type load struct {
		at int64
		b  []byte
	}
	m := from.m
	var under []load
	m.do(func() {
		for !from.closed && !to.closed {
			if b := from.out.sent; len(b) > 0 {
				from.out.sent = nil
				under = append(under, load{m.Now() + int64(delay), b})
				m.changed.Broadcast()
			}
			next := int64(0)
			for len(under) > 0 && under[0].at <= m.Now() {
				to.in.sent = append(to.in.sent, under[0].b...)
				under = under[1:]
				m.changed.Broadcast()
			}
			if len(under) > 0 {
				next = under[0].at
			}
			m.wait(next)
		}
		to.in.ended = true
		m.changed.Broadcast()
	})
}

// fountain answers every request without end.
type fountain struct{ m *sim }

func (f fountain) Accept(s *Stream) {
	f.m.Go(job(func() {
		s.Respond(&message.Response{Status: 200, ContentLength: -1}, false)
		for b := make([]byte, 64<<10); ; {
			if _, err := s.Write(b); err != nil {
				s.Close()
				return
			}
		}
	}))
}

func (f fountain) Ended() {}

// distance is a link to a server that is some way off.
type distance struct {
	m    *sim
	link *Link
}

// apart makes one; half of trip is the way there. In synctest.
func apart(trip time.Duration, cfg Config) *distance {
	d := &distance{m: newSim()}
	near, far := d.m.newWire(), d.m.newWire()
	near.out.holds, far.out.holds = 64<<20, 64<<20
	d.m.tasks.Go(func() { carry(near, far, trip/2) })
	d.m.tasks.Go(func() { carry(far, near, trip/2) })
	d.m.do(func() {
		d.link = NewClient(d.m, cfg).Connect(near, new(mirror))
		NewServer(d.m, playConfig(nil)).Serve(far, nil, fountain{d.m})
	})
	<-time.After(10 * trip)
	return d
}

// ask begins a call, whose answer is read in pieces, with a pause after each, until
// the link ends; read counts them. In a task.
func (d *distance) ask(piece int, pause time.Duration, read *int) {
	k, err := d.link.Call()
	if err != nil {
		panic(err)
	}
	defer k.Close()
	r := message.Request{Method: message.GET, MethodName: []byte("GET"), Scheme: []byte("http"), Host: []byte("a"), Target: []byte("/"), MaxForwards: -1}
	if k.Send(&r, true) != nil || k.Await() != nil {
		return
	}
	var head message.Response
	k.Answer(&head)
	for b := make([]byte, piece); ; {
		n, err := io.ReadFull(k, b)
		*read += n
		if err != nil {
			return
		}
		for at := d.m.Now() + int64(pause); d.m.Now() < at; {
			d.m.wait(at)
		}
	}
}

// sizes are the windows of the open streams, in all.
func (d *distance) sizes() (all int64) {
	d.m.do(func() {
		for s := range d.link.all {
			all += s.size
		}
	})
	return all
}

// TestDistance: windows grow where the way is what bounds the speed, and nowhere else.
func TestDistance(t *testing.T) {
	const window, widest, spare = 64 << 10, 1 << 20, 3 << 20
	for _, tc := range []struct {
		name  string
		trip  time.Duration
		calls int
		piece int
		pause time.Duration
		speed int // least bytes in each second and for each call, once windows have grown
		sizes int64
	}{
		{"a distant server", 50 * time.Millisecond, 1, 32 << 10, 0, 20 * widest * 9 / 10, widest},
		{"a distant server, fixed windows", 50 * time.Millisecond, 1, 32 << 10, 0, 20 * window, -window},
		{"more than the spare is for", 50 * time.Millisecond, 5, 32 << 10, 0, 10 * widest, 5*window + spare},
		{"next door", 100 * time.Microsecond, 1, 32 << 10, time.Millisecond, 8 << 20, window},
		{"a slow reader", 50 * time.Millisecond, 1, 16 << 10, 100 * time.Millisecond, 150_000, window},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := playConfig(nil)
				cfg.Window, cfg.Widest, cfg.Spare, cfg.ConnWindow = window, widest, spare, 0
				if tc.sizes < 0 {
					cfg.Widest, tc.sizes = 0, -tc.sizes
				}
				d := apart(tc.trip, cfg)
				read := make([]int, tc.calls)
				for i := range read {
					d.m.Go(job(func() { d.ask(tc.piece, tc.pause, &read[i]) }))
				}
				<-time.After(2 * time.Second)
				before := 0
				d.m.do(func() { before = sum(read) })
				<-time.After(time.Second)
				d.m.do(func() {
					if speed := (sum(read) - before) / tc.calls; speed < tc.speed {
						t.Errorf("%d bytes in a second, want %d", speed, tc.speed)
					}
				})
				if got := d.sizes(); got != tc.sizes {
					t.Errorf("windows of %d bytes, want %d", got, tc.sizes)
				}
				d.m.do(d.link.Close)
				d.m.tasks.Wait()
				if f := d.link.flow; f.spare != int64(cfg.Spare) || d.link.housed != 0 {
					t.Errorf("%d bytes are spare of %d, and %d calls have room", f.spare, cfg.Spare, d.link.housed)
				}
			})
		})
	}
}

func sum(all []int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}
