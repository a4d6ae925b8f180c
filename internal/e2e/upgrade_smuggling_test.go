package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// What comes on a stream of extended CONNECT is for a tunnel. Where the server opens none,
// none of it is sent there, and the server's connection serves the next request.
func TestEarlyBytesOfTunnels(t *testing.T) {
	t.Parallel()
	asks := []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/chat", ":authority", "a.example", "sec-websocket-version", "13", "sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==", "expect", "100-continue"}
	for name, c := range map[string]struct{ answer, status string }{
		"declined":        {"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "403"},
		"upgrade wanted":  {"HTTP/1.1 426 Upgrade Required\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n", "426"},
		"no switch":       {ok, "502"},
		"content instead": {"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nHTTP/1.1 101", "502"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := testkit.Serve(t, func(p *testkit.Peer) {
				for {
					if m := p.Request(); m.Target() == "/chat" {
						p.Send(c.answer)
					} else {
						p.Send(ok)
					}
				}
			})
			q := startHTTP3(t, "", farm(b.URL()), oneWorker)
			for _, v := range versions {
				conn, before := v.dial(q), len(b.Heard())
				if got := conn.say(asks, []string{hidden, hidden}, nil); got != c.status {
					t.Errorf("%s: %s, want %s", v.name, got, c.status)
				}
				for _, m := range goesOn(t, v.name, conn, b, before) {
					if keys := m.All("Sec-WebSocket-Key"); m.Start != "GET /chat HTTP/1.1" || len(m.Body) > 0 || len(keys) != 1 || keys[0] == "dGhlIHNhbXBsZSBub25jZQ==" || m.Get("Expect") != "" {
						t.Errorf("%s: the server heard %s, %q, %q", v.name, m.Start, m.Fields, m.Body)
					}
				}
			}
		})
	}
}

// badAnswers are what a server of HTTP/2 must not say: fields, and content behind them.
var badAnswers = map[string]struct {
	fields  []string
	content string
}{
	"CR LF in a value":           {[]string{":status", "200", "x-a", marker + "\r\nSet-Cookie: a=1"}, ""},
	"LF in a value":              {[]string{":status", "200", "x-a", marker + "\nb"}, ""},
	"NUL in a value":             {[]string{":status", "200", "x-a", marker + "\x00"}, ""},
	"space before a value":       {[]string{":status", "200", "x-a", " " + marker}, ""},
	"an answer in a value":       {[]string{":status", "200", "x-a", "b\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 " + marker}, ""},
	"a colon in a name":          {[]string{":status", "200", "set-cookie: a=1\r\nx", marker}, ""},
	"upper case":                 {[]string{":status", "200", "X-A", marker}, ""},
	"an empty name":              {[]string{":status", "200", "", marker}, ""},
	"transfer-encoding":          {[]string{":status", "200", "transfer-encoding", "chunked", "x-a", marker}, "0\r\n\r\n" + marker},
	"connection":                 {[]string{":status", "200", "connection", "upgrade", "x-a", marker}, ""},
	"upgrade":                    {[]string{":status", "200", "upgrade", "h2c", "x-a", marker}, ""},
	"two lengths":                {[]string{":status", "200", "content-length", "6", "content-length", "7", "x-a", marker}, marker},
	"a list of lengths":          {[]string{":status", "200", "content-length", "6, 6", "x-a", marker}, marker},
	"a length with a sign":       {[]string{":status", "200", "content-length", "+6", "x-a", marker}, marker},
	"no status":                  {[]string{"x-a", marker}, ""},
	"two statuses":               {[]string{":status", "200", ":status", "200", "x-a", marker}, ""},
	"a status of four digits":    {[]string{":status", "2000", "x-a", marker}, ""},
	"a status of two":            {[]string{":status", "20", "x-a", marker}, ""},
	"a status with a reason":     {[]string{":status", "200 OK", "x-a", marker}, ""},
	"a status with CR LF":        {[]string{":status", "200\r\nX-A: " + marker}, ""},
	"a status behind fields":     {[]string{"x-a", marker, ":status", "200"}, ""},
	"status 0":                   {[]string{":status", "000", "x-a", marker}, ""},
	"status 600":                 {[]string{":status", "600", "x-a", marker}, ""},
	"status 101":                 {[]string{":status", "101", "x-a", marker}, marker},
	"a pseudo-field of requests": {[]string{":status", "200", ":path", "/", "x-a", marker}, ""},
	"more than its length":       {[]string{":status", "200", "content-length", "1"}, marker},
	"content of 204":             {[]string{":status", "204"}, marker},
	"content of 304":             {[]string{":status", "304"}, marker},
}

// No client sees anything of an answer that cannot be said in HTTP/1.1 in one way, and each
// gets the next answer that is its own.
func TestBadAnswersOfHTTP2(t *testing.T) {
	t.Parallel()
	next := make(chan string, 1)
	url := serveFrames(t, func(f *frames) {
		f.WriteSettings()
		f.each(func(stream uint32, _ string) bool {
			select {
			case name := <-next:
				bad := badAnswers[name]
				f.head(stream, false, bad.fields...)
				f.WriteData(stream, true, []byte(bad.content))
			default:
				f.answer(stream, "good")
			}
			return true
		})
	})
	q := startHTTP3(t, "}\n  - {name: web, address: \"127.0.0.1:0\"", farm(url), oneWorker)
	client, byFrames := q.dial(), []speaker{}
	for _, v := range versions {
		byFrames = append(byFrames, v.dial(q))
	}
	for _, name := range slices.Sorted(maps.Keys(badAnswers)) {
		goodHead := slices.Contains([]string{"more than its length", "content of 204", "content of 304"}, name)
		next <- name
		client.Send(testkit.Request("GET", "/"))
		if m, err := client.TryRespond("GET"); err == nil {
			if m.Status() != 502 && !goodHead || strings.Contains(fmt.Sprint(m.Fields, string(m.Body)), marker) {
				t.Errorf("%s: HTTP/1.1 gets %s %q %q", name, m.Start, m.Fields, m.Body)
			}
		} else if !goodHead {
			t.Errorf("%s: HTTP/1.1 gets %v", name, err)
		}
		client = q.dial()
		client.Send(testkit.Request("GET", "/"))
		if m := client.Respond("GET"); string(m.Body) != "good" {
			t.Errorf("%s: the next answer in HTTP/1.1 is %s %q", name, m.Start, m.Body)
		}
		for i, v := range versions {
			next <- name
			if got := byFrames[i].say(insteadOf(":method", "GET"), []string{""}, nil); got != "502" && !goodHead {
				t.Errorf("%s: %s gets %s", name, v.name, got)
			}
			if got := byFrames[i].say(insteadOf(":method", "GET"), []string{""}, nil); got != "200" {
				t.Errorf("%s: the next answer in %s is %s", name, v.name, got)
			}
		}
	}
}

// Interim heads without end are a server's fault, also if they hold nothing and the client
// takes each.
func TestEndlessInterims(t *testing.T) {
	t.Parallel()
	const lot = 4 // so many wait at most
	taken := make(chan struct{}, 1)
	taken <- struct{}{}
	s := start(t, farm(serveFrames(t, func(f *frames) {
		f.WriteSettings()
		frame := f.next()
		for frame != nil {
			if _, goOn := <-taken; !goOn {
				return
			}
			for range lot {
				f.head(frame.Header().StreamID, false, ":status", "103")
			}
		}
	})))
	client := s.dial()
	client.Send(testkit.Request("GET", "/"))
	defer close(taken)
	for n := 1; ; n++ {
		m := client.ReadHead()
		if m.Status() == 502 {
			break
		}
		if m.Status() != 103 || n > 10_000 {
			t.Fatalf("after %d interim heads comes %s", n, m.Start)
		}
		if n%lot == 0 {
			taken <- struct{}{}
		}
	}
}
