package http1

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/message"
)

// A case is bytes from the wire and what they must be read as: a transcript, or
// the fault.
type wireCase struct {
	section string // that demands it
	name    string
	in      string
	want    any // a transcript (string), or a *Fault
}

// title names the case's test.
func (c wireCase) title() string { return c.section + ": " + c.name }

// hold compares what was read, a string or an error, with what was wanted.
func (c wireCase) hold(t *testing.T, got any) {
	t.Helper()
	if got != c.want {
		t.Errorf("%q\nis read as %v\nwant       %v", c.in, got, c.want)
	}
}

// readAsRequest is what in is read as: the fault, or the transcript of the head
// and of what stands behind it. Limits are the usual ones.
func readAsRequest(in string) any { return requestUnder(usual, in) }

func requestUnder(lim *Limits, in string) any {
	var r message.Request
	n, err := ParseRequest([]byte(in), lim, &r)
	return outcome(in, n, err, func() string { return requestTranscript(&r) })
}

// readAsResponse is the same for the response to a request with this method.
func readAsResponse(to message.Method, in string) any { return responseUnder(usual, to, in) }

func responseUnder(lim *Limits, to message.Method, in string) any {
	var r message.Response
	n, err := ParseResponse([]byte(in), lim, to, &r)
	return outcome(in, n, err, func() string { return responseTranscript(&r) })
}

func outcome(in string, n int, err error, transcript func() string) any {
	switch {
	case err != nil:
		return err
	case n == 0:
		return "incomplete"
	case n < len(in):
		return fmt.Sprintf("%s | then %q", transcript(), in[n:])
	}
	return transcript()
}

// requestTranscript writes a whole request head on one line:
//
//	GET /path 1.1 for host; length 5; stays | -Host: host | Accept: */*
//
// A field with a minus before it ends at this hop. What is as usual is left out:
// no body, no expectation, no upgrade.
func requestTranscript(r *message.Request) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s %s for %s", r.MethodName, r.Target, versions[r.Version], r.Host)
	s.WriteString(framingTranscript(r.Body, r.ContentLength))
	s.WriteString(pick(r.KeepAlive, "; stays", "; closes"))
	s.WriteString(pick(r.Absolute, "; absolute", ""))
	s.WriteString(pick(r.ExpectContinue, "; awaits 100", ""))
	s.WriteString(pick(r.Trailers, "; takes trailers", ""))
	if r.Upgrade != nil {
		fmt.Fprintf(&s, "; upgrade to %s", r.Upgrade)
	}
	if r.MaxForwards >= 0 {
		fmt.Fprintf(&s, "; %d hops left", r.MaxForwards)
	}
	return s.String() + fieldsTranscript(r.Fields)
}

// responseTranscript writes a whole response head on one line:
//
//	200 OK 1.1; length 5; stays; dated | Date: now | -Content-Length: 5
func responseTranscript(r *message.Response) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%d %s %s", r.Status, r.Reason, versions[r.Version])
	s.WriteString(framingTranscript(r.Body, r.ContentLength))
	if r.Body == message.NoBody && r.ContentLength >= 0 {
		fmt.Fprintf(&s, "; %d declared", r.ContentLength)
	}
	s.WriteString(pick(r.KeepAlive, "; stays", "; closes"))
	s.WriteString(pick(r.HasDate, "; dated", ""))
	return s.String() + fieldsTranscript(r.Fields)
}

var versions = map[message.Version]string{message.HTTP10: "1.0", message.HTTP11: "1.1"}

func framingTranscript(f message.Framing, length int64) string {
	switch f {
	case message.Length:
		return fmt.Sprintf("; length %d", length)
	case message.Chunked:
		return "; chunked"
	case message.UntilClose:
		return "; until close"
	}
	return ""
}

func fieldsTranscript(fs message.Fields) string {
	var s strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&s, " | %s%s: %s", pick(f.Drop, "-", ""), f.Name, f.Value)
	}
	return s.String()
}

func pick(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}
