package e2e

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"sluice/internal/testkit"
)

// attack3 is a way to abuse a connection of HTTP/3.
type attack3 struct {
	code string // that the connection ends with
	// strike comes again and again until it fails; n counts from 0.
	strike func(s *strand, n int) error
}

const tooMuch = "whole H3_EXCESSIVE_LOAD"

// attacks3, by name: those of RFC 9114 10.5 and RFC 9204 7, and what has become of attacks
// on HTTP/2 there.
var attacks3 = map[string]attack3{
	"rapid reset":             {tooMuch, give(head3(insteadOf(":method", "GET")...), (*quic.Stream).CancelWrite)},
	"rapid reset of answers":  {tooMuch, give(head3(insteadOf(":method", "GET")...), (*quic.Stream).CancelRead)},
	"rapid reset of uploads":  {tooMuch, give(append(head3(usually()...), frame3(data3, make([]byte, 10))...), (*quic.Stream).CancelWrite)},
	"half a head, given up":   {tooMuch, give(head3(usually()...)[:9], (*quic.Stream).CancelWrite)},
	"nothing, given up":       {tooMuch, give(nil, (*quic.Stream).CancelWrite)},
	"requests of nothing":     {tooMuch, give(nil, ended)},
	"malformed requests":      {tooMuch, give(head3(":method", "GET"), ended)},
	"too many fields":         {tooMuch, give(head3(usually(strings.Split(strings.Repeat("a,b,", 200)+"a,b", ",")...)...), ended)},
	"empty frames":            {tooMuch, give(append(head3(usually()...), bytes.Repeat(frame3(0x21, nil), 20_000)...), ended)},
	"empty frames before all": {tooMuch, give(bytes.Repeat(frame3(0x21, nil), 20_000), ended)},
	"empty content":           {tooMuch, give(append(head3(usually()...), bytes.Repeat(frame3(data3, nil), 20_000)...), ended)},
	"unknown streams":         {tooMuch, oneWays("\x21grease")},
	"unknown frames":          {tooMuch, onControl(frame3(0x21, []byte("grease")))},
	"MAX_PUSH_ID":             {tooMuch, onControl(frame3(0xd, []byte{5}))},
	"GOAWAY":                  {tooMuch, onControl(frame3(0x7, []byte{5}))},
	"PRIORITY_UPDATE":         {tooMuch, onControl(frame3(0xf0700, []byte("\x00u=1")))},
	"a table without room":    {tooMuch, once("\x02" + strings.Repeat("\x20", 20_000))},
	"streams given up":        {tooMuch, once("\x03" + strings.Repeat("\x40", 20_000))},
	"an entry for the table":  {"whole QPACK_ENCODER_STREAM_ERROR", once("\x02\x41a\x01b")},
	"room for a table":        {"whole QPACK_ENCODER_STREAM_ERROR", once("\x02\x3f\xe1\x1f")},
	"a number without end":    {"whole QPACK_DECODER_STREAM_ERROR", once("\x03\x7f" + strings.Repeat("\xff", 1000))},
	"a section that waits":    {"whole QPACK_DECOMPRESSION_FAILED", give([]byte("\x01\x03\x02\x00\x80"), ended)},
	"a push":                  {"whole H3_STREAM_CREATION_ERROR", once("\x01\x00")},
	"a second control stream": {"whole H3_STREAM_CREATION_ERROR", once("\x00\x04\x00")},
	"the control stream gone": {"whole H3_CLOSED_CRITICAL_STREAM", func(s *strand, _ int) error { return s.control.Close() }},
}

// give opens a stream, sends what it says, and has done with it in some way.
func give(text []byte, end func(*quic.Stream, quic.StreamErrorCode)) func(*strand, int) error {
	return func(s *strand, _ int) error {
		q, err := s.OpenStreamSync(s.Context())
		if err != nil {
			return err
		}
		q.SetWriteDeadline(time.Now().Add(testkit.Patience))
		_, err = q.Write(text)
		end(q, 0x10c)
		if q.CancelRead(0x10c); err != nil && s.Context().Err() == nil {
			return nil // the stream alone was refused
		}
		return err
	}
}

func ended(q *quic.Stream, _ quic.StreamErrorCode) { q.Close() }

// oneWays opens a one-way stream each time.
func oneWays(text string) func(*strand, int) error {
	return func(s *strand, _ int) error {
		q, err := s.OpenUniStreamSync(s.Context())
		if err != nil {
			return err
		}
		if _, err = io.WriteString(q, text); s.Context().Err() == nil {
			return nil // an unknown one is not wanted
		}
		return err
	}
}

// once opens one and no other.
func once(text string) func(*strand, int) error {
	open := oneWays(text)
	return func(s *strand, n int) error {
		if n > 0 {
			return io.EOF
		}
		return open(s, n)
	}
}

// onControl sends a frame many times.
func onControl(frame []byte) func(*strand, int) error {
	many := bytes.Repeat(frame, 1000)
	return func(s *strand, _ int) error {
		_, err := s.control.Write(many)
		return err
	}
}

// Whoever abuses a connection of HTTP/3 loses it, by the code that says why. Memory stays
// as it was, but for little, and nobody else notices.
func TestAbusesOfHTTP3(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	const andAnother = "}\n  - {name: web, address: \"127.0.0.1:0\"" // listener, without TLS
	q := startHTTP3(t, andAnother, farm(b.URL()), oneWorker)
	load := testkit.StartLoad(t, q.web(), testkit.Request("GET", "/"), 2)
	load.AwaitMore(t, 200)
	worker := q.workers()[0]
	before := grown(t, worker)
	for name, a := range attacks3 {
		var all sync.WaitGroup
		for range attackers / 2 {
			s := q.strand()
			all.Go(func() {
				for n := 0; n < mostBlows && a.strike(s, n) == nil; n++ {
				}
				if code := s.toTheEnd(); code != a.code {
					t.Errorf("%s: the connection ends with %s, want %s", name, code, a.code)
				}
			})
		}
		all.Wait()
		load.AwaitMore(t, 20)
	}
	if tally := load.Stop(); len(tally.Failures) > 0 {
		t.Errorf("of others' %d requests %d failed, first: %s", tally.Good, len(tally.Failures), tally.Failures[0])
	}
	grownBy(t, worker, before)
	testkit.Eventually(t, "nothing of it is left", func() bool { return q.connections() == 0 })
}
