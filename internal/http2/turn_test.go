package http2

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	xhttp2 "golang.org/x/net/http2"

	"sluice/internal/reactor"
)

// turner is a sim whose tasks run when the test says so, as those of a loop's turn do:
// all that are ready at its beginning.
type turner struct {
	*sim
	ready []reactor.Job
}

func (r *turner) Go(job reactor.Job) { r.ready = append(r.ready, job) }

func (r *turner) turn() {
	ready := r.ready
	r.ready = nil
	for _, job := range ready {
		r.do(job.Run)
	}
}

// counter is an owner that lets requests be.
type counter struct{ accepted int }

func (c *counter) Accept(*Stream) { c.accepted++ }
func (c *counter) Ended()         {}

// TestTurns: however much of it has come, a connection begins few requests in a turn, and
// takes few frames, and loses none.
func TestTurns(t *testing.T) {
	const requests = 60
	head := []byte("\x82\x86\x84\x01\x01a")
	for name, c := range map[string]struct {
		frames       func(f *xhttp2.Framer, n uint32) // of request n
		least, begun int                              // turns that all take, requests that one may begin
	}{
		"requests": {func(f *xhttp2.Framer, n uint32) {
			f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: head, EndHeaders: true, EndStream: true})
		}, requests * sectionEffort / turnEffort, turnEffort / sectionEffort},
		"requests in pieces": {func(f *xhttp2.Framer, n uint32) {
			f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: head[:3], EndStream: true})
			f.WriteContinuation(2*n+1, true, head[3:])
		}, requests * sectionEffort / turnEffort, turnEffort / sectionEffort},
		"requests with much in them": {func(f *xhttp2.Framer, n uint32) {
			long := append(slices.Clone(head), 0, 1, 'a', effortBytes) // a literal of as many bytes
			long = append(long, strings.Repeat("b", effortBytes)...)
			f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: long, EndHeaders: true, EndStream: true})
		}, requests * (sectionEffort + 1) / turnEffort, turnEffort/(sectionEffort+2) + 1},
		"frames that mean nothing": {func(f *xhttp2.Framer, n uint32) {
			for range 30 {
				f.WriteRawFrame(0xee, 0, 0, []byte("a"))
			}
			f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: head, EndHeaders: true, EndStream: true})
		}, requests * 31 / turnEffort, turnEffort / 31},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent strings.Builder
				sent.WriteString(xhttp2.ClientPreface)
				f := xhttp2.NewFramer(&sent, nil)
				f.WriteSettings()
				f.WriteSettingsAck()
				for n := range uint32(requests) {
					c.frames(f, n)
				}
				exec := &turner{sim: newSim()}
				wire, owner := exec.newWire(), &counter{}
				wire.in.sent = []byte(sent.String())
				cfg := playConfig(func(c Class) { t.Errorf("counted as %s", c) })
				cfg.Streams = requests
				conn := NewServer(exec, cfg).Serve(wire, nil, owner)
				turns := 0
				for ; len(exec.ready) > 0; turns++ {
					before := owner.accepted
					exec.turn()
					if begun := owner.accepted - before; begun > c.begun {
						t.Errorf("turn %d begins %d requests, at most %d may be", turns, begun, c.begun)
					}
				}
				if owner.accepted != requests || turns < c.least {
					t.Errorf("%d of %d requests are there after %d turns; at least %d were due", owner.accepted, requests, turns, c.least)
				}
				exec.do(func() { conn.Close() })
			})
		})
	}
}
