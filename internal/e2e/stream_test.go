package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// What one side sends reaches the other at once: nothing is held back until a
// body is complete or a buffer is full.
func TestStreaming(t *testing.T) {
	t.Parallel()
	heard := make(chan string)
	b := testkit.Serve(t, func(p *testkit.Peer) {
		p.Head()
		for range 3 { // a chunk each: size line, data, end
			heard <- p.Read(len("1\r\na\r\n"))
		}
		p.Read(len("0\r\n\r\n"))
		p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		for text := range heard {
			p.Send("1\r\n" + text + "\r\n")
		}
		p.Send("0\r\n\r\n")
		p.AwaitEnd()
	})
	c := start(t, farm(b.URL())).dial()
	c.Send(testkit.Request("POST", "/", "Transfer-Encoding: chunked"))
	for _, text := range []string{"a", "b", "c"} {
		chunk := "1\r\n" + text + "\r\n"
		c.Send(chunk)
		if got := <-heard; got != chunk {
			t.Fatalf("the server heard %q, want %q", got, chunk)
		}
	}
	c.Send("0\r\n\r\n")
	if head := c.ReadHead(); head.Status() != 200 {
		t.Fatalf("the head came as %s", head.Start)
	}
	for _, text := range []string{"x", "y", "z"} {
		heard <- text
		if got := c.ReadSome(100); got != "1\r\n"+text+"\r\n" {
			t.Fatalf("the client heard %q", got)
		}
	}
	close(heard)
	if got := c.ReadSome(100); got != "0\r\n\r\n" {
		t.Errorf("the end came as %q", got)
	}
}

// Messages that arrive a byte at a time are the same messages.
func TestByteByByte(t *testing.T) {
	t.Parallel()
	responses := []string{
		ok,
		"HTTP/1.1 103 Early Hints\r\nX-A: 1\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nok\n\r\n0\r\nX-T: 1\r\n\r\n",
		"HTTP/1.0 200 OK\r\n\r\nok\n",
	}
	b := testkit.Serve(t, func(p *testkit.Peer) {
		for stays := true; stays; {
			n, _ := strconv.Atoi(p.Request().Target()[1:])
			for _, c := range []byte(responses[n]) {
				p.Send(string(rune(c)))
			}
			stays = strings.HasPrefix(responses[n], "HTTP/1.1")
		}
	})
	s := start(t, farm(b.URL()))
	for n := range responses {
		for _, request := range []string{
			testkit.Request("GET", fmt.Sprint("/", n)),
			testkit.Request("POST", fmt.Sprint("/", n), "Content-Length: 3") + "abc",
			testkit.Request("POST", fmt.Sprint("/", n), "Transfer-Encoding: chunked") + "2\r\nab\r\n1;x=\"y\"\r\nc\r\n0\r\nX-T: 1\r\n\r\n",
		} {
			c := s.dial()
			before := len(b.Heard())
			for i := range len(request) {
				c.Send(request[i : i+1])
			}
			m := c.Respond("POST")
			for m.Status() < 200 {
				m = c.Respond("POST")
			}
			if m.Status() != 200 || string(m.Body) != "ok\n" {
				t.Errorf("%q answered with %q: %s %q", request, responses[n], m.Start, m.Body)
			}
			if seen := b.Request(t, before); request[0] == 'P' && string(seen.Body) != "abc" {
				t.Errorf("%q: the server saw %q", request, seen.Body)
			}
		}
	}
}

// An upload may take longer than the server has for its first byte, which counts
// from the upload's end.
func TestLongUpload(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second // in which the test and its server, on a busy machine, do what is left
	b := testkit.Serve(t, testkit.Answering(ok))
	c := start(t, farm(b.URL(), fmt.Sprintf("timeouts: {first_byte: %s}", limit))).dial()
	part := strings.Repeat("a", 1000)
	const parts = 10
	c.Send(testkit.Request("POST", "/", fmt.Sprint("Content-Length: ", parts*len(part))))
	tick := time.NewTicker(3 * limit / 2 / parts)
	defer tick.Stop()
	for range parts {
		<-tick.C
		c.Send(part)
	}
	if m := c.Respond("POST"); m.Status() != 200 {
		t.Errorf("%s", m.Start)
	}
}

// A client that expects 100 and does not wait for it.
func TestExpectWithoutWaiting(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	c := start(t, farm(b.URL(), "timeouts: {continue: 200ms}")).dial()
	for range 3 {
		c.Send(testkit.Request("POST", "/", "Content-Length: 3", "Expect: 100-continue"), "abc")
		m := c.Respond("POST")
		if m.Status() == 100 {
			m = c.Respond("POST")
		}
		if m.Status() != 200 {
			t.Errorf("%s", m.Start)
		}
	}
	for _, seen := range b.Heard() {
		if string(seen.Body) != "abc" {
			t.Errorf("the server saw %q", seen.Body)
		}
	}
}
