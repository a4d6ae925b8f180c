package reactor

import (
	"testing"
	"time"
)

// What a request needs of the loop allocates nothing once all is warm.
func TestNothingIsAllocated(t *testing.T) {
	for _, tc := range []struct {
		name  string
		setUp func(t *testing.T, l *Loop) func() // returns what is measured, which runs in a task
	}{
		{"echo, with a task for each message", func(t *testing.T, l *Loop) func() {
			client, server := connPair(t, l)
			on(t, l, func() { server.Idle(&echo{Stream: server}) })
			return exchange(t, client)
		}},
		{"echo, with a task that stays", func(t *testing.T, l *Loop) func() {
			client, server := connPair(t, l)
			spawn(l, func() {
				p := make([]byte, 64)
				for {
					n, err := server.Read(p)
					if err != nil {
						return
					}
					server.Write(p[:n])
				}
			})
			return exchange(t, client)
		}},
		{"deadlines", func(t *testing.T, l *Loop) func() {
			c, _ := connPair(t, l)
			return func() {
				c.SetReadTimeout(time.Minute)
				c.SetWriteTimeout(time.Second)
				c.SetReadTimeout(0)
				c.SetWriteTimeout(0)
			}
		}},
		{"a job that begins and ends", func(_ *testing.T, l *Loop) func() {
			ended := &setter{l.NewSignal()}
			return func() { l.Go(ended); ended.Wait(time.Minute) }
		}},
		{"a signal", func(_ *testing.T, l *Loop) func() {
			s := l.NewSignal()
			return func() { s.Set(); s.Wait(0) }
		}},
		{"what comes from elsewhere", func(_ *testing.T, l *Loop) func() {
			came := l.NewSignal()
			f := came.Set
			return func() { l.Submit(f); came.Wait(time.Minute) }
		}},
		{"a splice", func(t *testing.T, l *Loop) func() {
			a, b := connPair(t, l)
			c, d := connPair(t, l)
			p := make([]byte, 64)
			each := func(int) {}
			return func() {
				a.Write(p)
				c.SpliceFrom(b, int64(len(p)), 0, each)
				d.Read(p)
			}
		}},
		{"a turn's share", func(_ *testing.T, l *Loop) func() {
			return func() { l.spent(turnBytes) }
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := startLoop(t, Options{Observe: func(Stats) {}})
			f := tc.setUp(t, l)
			allocs := -1.0
			inTask(t, l, func() { allocs = testing.AllocsPerRun(100, f) })
			if allocs != 0 {
				t.Errorf("%v allocations, want none", allocs)
			}
		})
	}
}

// exchange sends a message and reads the echo.
func exchange(t *testing.T, client *Conn) func() {
	p := make([]byte, 64)
	return func() {
		client.SetReadTimeout(time.Minute)
		client.Write(p[:5])
		if n, err := client.Read(p); n != 5 || err != nil {
			t.Errorf("echo of %d bytes, %v", n, err)
		}
	}
}

// setter is a job that sets a signal.
type setter struct{ Signal }

func (s *setter) Run() { s.Set() }
