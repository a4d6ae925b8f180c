package main

import (
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"sluice/bench/overload/sharing"
)

// answer is the body of a good response.
const answer = "53 bytes are what a small response of the bench is of.\n"

// backend is a station behind HTTP.
type backend struct {
	constant bool // every request is one unit of work; else exponential with that mean

	mu      sync.Mutex // guards what follows
	begin   time.Time
	station *sharing.Station
	timer   *time.Timer // fires when the next request is finished
	random  *rand.Rand
	delay   time.Duration // mean of what each request waits for before its work
	lie     lie
	figures figures
}

func newBackend(c sharing.Curve, seed uint64) *backend {
	b := &backend{begin: time.Now(), station: sharing.New(c), random: rand.New(rand.NewPCG(seed, 0))}
	b.timer = time.AfterFunc(math.MaxInt64, b.finish)
	return b
}

// now is the time since the start, in seconds.
func (b *backend) now() float64 { return time.Since(b.begin).Seconds() }

// ServeHTTP holds a request for as long as its work takes. A client that goes
// meanwhile is not noticed, as few servers do.
func (b *backend) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	b.enter()
	defer b.leave()
	if told := b.draw(); told != nil {
		told(w)
		return
	}
	<-b.work()
	b.good()
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, answer)
}

// work waits for the delay, enters the station, and tells when it is finished.
func (b *backend) work() <-chan struct{} {
	if wait := b.drawDelay(); wait > 0 {
		<-time.After(wait)
	}
	done := make(chan struct{})
	b.mu.Lock()
	defer b.mu.Unlock()
	work := 1.0
	if !b.constant {
		work = b.random.ExpFloat64()
	}
	now := b.now()
	b.station.Advance(now)
	b.station.Enter(now, work, func(float64) { close(done) })
	b.arm()
	return done
}

func (b *backend) drawDelay() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Duration(b.random.ExpFloat64() * float64(b.delay))
}

// draw decides whether a request is lied to, and how; nil: it is not.
func (b *backend) draw() func(http.ResponseWriter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.random.Float64() >= b.lie.share {
		return nil
	}
	b.figures.lies++
	return b.lie.tell
}

// finish is the timer's: it lets those go who are finished.
func (b *backend) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.station.Advance(b.now())
	b.arm()
}

// arm sets the timer to the next end. The caller holds mu.
func (b *backend) arm() {
	next := b.station.Next()
	if math.IsInf(next, 1) {
		b.timer.Stop()
		return
	}
	// Rounded up: a timer that fires a moment early would find nobody finished.
	b.timer.Reset(time.Duration(math.Ceil((next - b.now()) * float64(time.Second))))
}

// change takes a new curve.
func (b *backend) change(c sharing.Curve) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	b.station.Advance(now)
	b.station.SetCurve(now, c)
	b.arm()
}

// ---- what it counts ----

func (b *backend) enter() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.figures.hold(b.now(), 1)
}

func (b *backend) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.figures.hold(b.now(), -1)
}

func (b *backend) good() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.figures.good++
}

// count follows the connections (http.Server.ConnState).
func (b *backend) count(_ net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateNew:
		b.figures.connect(1)
	case http.StateClosed, http.StateHijacked:
		b.figures.connect(-1)
	}
}
