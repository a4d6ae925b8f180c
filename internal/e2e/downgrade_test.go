package e2e

import (
	"crypto/tls"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"sluice/internal/testkit"
)

// outcome is what becomes of a stream: the status of its answer, the code it is reset
// with, or "whole" and the code that the connection ends with.
func (f *framer) outcome(stream uint32) string {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeNo {
				return "whole " + frame.ErrCode.String()
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return frame.ErrCode.String()
			}
		case *http2.MetaHeadersFrame:
			if status := frame.PseudoValue("status"); frame.StreamID == stream && status[0] != '1' {
				return status
			}
		}
	}
}

// usually are the lines of a request, name, value, name, value …, and more of them.
func usually(more ...string) []string {
	return append([]string{":method", "POST", ":scheme", "https", ":path", "/", ":authority", "a.example"}, more...)
}

// insteadOf are the usual lines with another value in one, which may be given twice or,
// as "-", be left out.
func insteadOf(name string, values ...string) (fields []string) {
	all := usually()
	for i := 0; i < len(all); i += 2 {
		switch {
		case all[i] != name:
			fields = append(fields, all[i], all[i+1])
		case values[0] != "-":
			for _, v := range values {
				fields = append(fields, name, v)
			}
		}
	}
	return fields
}

// refusedDowngrades are requests of HTTP/2 and HTTP/3 that would be others, or more than one, as
// HTTP/1.1, or that are none by RFC 9113 8.
var refusedDowngrades = map[string][]string{
	"CR LF in a value":          usually("x-a", "b\r\nTransfer-Encoding: chunked"),
	"LF in a value":             usually("x-a", "b\nX-B: c"),
	"CR in a value":             usually("x-a", "b\rX-B: c"),
	"NUL in a value":            usually("x-a", "b\x00c"),
	"DEL in a value":            usually("x-a", "b\x7f"),
	"a value ends with CR LF":   usually("x-a", "b\r\n"),
	"a request in a value":      usually("x-a", "b\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n"),
	"space before a value":      usually("x-a", " b"),
	"tab behind a value":        usually("x-a", "b\t"),
	"CR LF in a name":           usually("x-a: b\r\nx-b", "c"),
	"LF in a name":              usually("x\na", "b"),
	"NUL in a name":             usually("x\x00a", "b"),
	"a colon in a name":         usually("transfer-encoding: chunked\r\nx", "b"),
	"a name ends with a colon":  usually("content-length:", "5"),
	"a name ends with space":    usually("content-length ", "5"),
	"a name begins with space":  usually(" content-length", "5"),
	"a name beyond ASCII":       usually("x-\xc3\xa4", "b"),
	"an empty name":             usually("", "b"),
	"upper case":                usually("X-A", "b"),
	"Content-Length":            usually("Content-Length", "5"),
	"transfer-encoding":         usually("transfer-encoding", "chunked"),
	"transfer-encoding, odd":    usually("transfer-encoding", "xchunked"),
	"transfer-encoding, empty":  usually("transfer-encoding", ""),
	"connection":                usually("connection", "close"),
	"connection, hiding":        usually("connection", "x-forwarded-for"),
	"keep-alive":                usually("keep-alive", "timeout=5"),
	"proxy-connection":          usually("proxy-connection", "close"),
	"upgrade":                   usually("upgrade", "websocket"),
	"te":                        usually("te", "trailers, chunked"),
	"content-length, two":       usually("content-length", "5", "content-length", "6"),
	"content-length, list":      usually("content-length", "5, 5"),
	"content-length, sign":      usually("content-length", "+5"),
	"content-length, minus":     usually("content-length", "-1"),
	"content-length, hex":       usually("content-length", "0x5"),
	"content-length, empty":     usually("content-length", ""),
	"content-length, huge":      usually("content-length", "18446744073709551621"),
	"a space in the method":     insteadOf(":method", "GET /smuggled HTTP/1.1"),
	"CR LF in the method":       insteadOf(":method", "GET / HTTP/1.1\r\nX-A: b\r\n\r\nPOST"),
	"an empty method":           insteadOf(":method", ""),
	"no method":                 insteadOf(":method", "-"),
	"two methods":               insteadOf(":method", "GET", "POST"),
	"two equal methods":         insteadOf(":method", "POST", "POST"),
	"another scheme":            insteadOf(":scheme", "ftp"),
	"a scheme with a path":      insteadOf(":scheme", "http://a.example/x?"),
	"no scheme":                 insteadOf(":scheme", "-"),
	"two schemes":               insteadOf(":scheme", "http", "https"),
	"CR LF in the path":         insteadOf(":path", "/ HTTP/1.1\r\nX-A: b\r\nX-B:"),
	"a space in the path":       insteadOf(":path", "/a HTTP/1.1"),
	"a tab in the path":         insteadOf(":path", "/a\tb"),
	"NUL in the path":           insteadOf(":path", "/\x00"),
	"a fragment":                insteadOf(":path", "/#a"),
	"half an escape":            insteadOf(":path", "/%4"),
	"a path beyond ASCII":       insteadOf(":path", "/\xc3\xa4"),
	"a path without slash":      insteadOf(":path", "a"),
	"a URL for a path":          insteadOf(":path", "http://b.example/"),
	"an authority for a path":   insteadOf(":path", "b.example:80"),
	"an asterisk":               insteadOf(":path", "*"),
	"an empty path":             insteadOf(":path", ""),
	"no path":                   insteadOf(":path", "-"),
	"two paths":                 insteadOf(":path", "/a", "/b"),
	"CR LF in the authority":    insteadOf(":authority", "a.example\r\nX-A: b"),
	"a space in the authority":  insteadOf(":authority", "a.example b"),
	"a path in the authority":   insteadOf(":authority", "a.example/b"),
	"a user in the authority":   insteadOf(":authority", "u@a.example"),
	"two in the authority":      insteadOf(":authority", "a.example,b.example"),
	"a port that is none":       insteadOf(":authority", "a.example:80x"),
	"an empty authority":        insteadOf(":authority", ""),
	"no authority":              insteadOf(":authority", "-"),
	"two authorities":           insteadOf(":authority", "a.example", "b.example"),
	"host is another":           usually("host", "b.example"),
	"host and its port":         usually("host", "a.example:8080"),
	"two hosts":                 usually("host", "a.example", "host", "a.example"),
	"host with CR LF":           append(insteadOf(":authority", "-"), "host", "a.example\r\nX-A: b"),
	"a pseudo-field behind":     usually("x-a", "b", ":path", "/smuggled"),
	"an unknown pseudo-field":   append([]string{":smuggled", "a"}, usually()...),
	"a pseudo-field of answers": append([]string{":status", "200"}, usually()...),
	"protocol, not CONNECT":     append([]string{":protocol", "websocket"}, usually()...),
	"CONNECT with a path":       insteadOf(":method", "CONNECT"),
	"CONNECT without a port":    {":method", "CONNECT", ":authority", "a.example"},
	"CONNECT with CR LF":        {":method", "CONNECT", ":authority", "a.example:80\r\nX-A: b"},
}

// speaker is a client's end of a connection of HTTP/2 or HTTP/3.
type speaker interface {
	// say sends a request of name, value, name, value …, its content in pieces, and
	// trailers if there are any. It returns what becomes of that: the status of the answer,
	// the code that the stream is reset with, or "whole" and the code that the connection
	// ends with.
	say(fields, content, trailers []string) string
}

// spoken is a version of HTTP whose requests are translated to HTTP/1.1.
type spoken struct {
	name  string
	wrong string // the code that a malformed request is reset with
	dial  func(*quick) speaker
}

var versions = []spoken{
	{"HTTP/2", "PROTOCOL_ERROR", func(q *quick) speaker { return &framesOver{q.framer(), 1} }},
	{"HTTP/3", "H3_MESSAGE_ERROR", func(q *quick) speaker { return q.strand() }},
}

// framer is a connection of HTTP/2 over TLS.
func (q *quick) framer() *framer {
	trust := q.trust.Clone()
	trust.NextProtos, trust.ServerName = []string{"h2"}, "localhost"
	conn, err := tls.Dial("tcp", q.address("tls"), trust)
	if err != nil {
		q.t.Fatal(err)
	}
	return frameOn(q.t.(*testing.T), conn)
}

// framesOver counts its streams.
type framesOver struct {
	*framer
	next uint32
}

func (f *framesOver) say(fields, content, trailers []string) string {
	f.t.Helper()
	id := f.next
	f.next += 2
	f.ask(id, fields...)
	for i, d := range content {
		f.WriteData(id, len(trailers) == 0 && i == len(content)-1, []byte(d))
	}
	if len(trailers) > 0 {
		f.end(id, trailers...)
	}
	return f.outcome(id)
}

func (s *strand) say(fields, content, trailers []string) string {
	s.t.Helper()
	frames := [][]byte{head3(fields...)}
	for _, d := range content {
		frames = append(frames, frame3(data3, []byte(d)))
	}
	if len(trailers) > 0 {
		frames = append(frames, head3(trailers...))
	}
	return s.send(frames...)
}

// hidden is what must not become a request.
const hidden = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

// goesOn checks that the connection goes on with the next request, and returns what the
// server has heard but for that.
func goesOn(t *testing.T, name string, c speaker, b *testkit.Backend, before int) []*testkit.Message {
	t.Helper()
	if got := c.say(insteadOf(":path", "/after"), []string{""}, nil); got != "200" {
		t.Errorf("%s: the next request gets %s", name, got)
	}
	heard := b.Heard()[before:]
	others := slices.DeleteFunc(slices.Clone(heard), func(m *testkit.Message) bool { return m.Target() == "/after" })
	if len(heard) != len(others)+1 {
		t.Errorf("%s: the server heard %q", name, starts(heard))
	}
	return others
}

// What is refused is refused by a reset of its stream: the server hears nothing of it, and
// the connection goes on with the next request.
func TestDowngradesAreRefused(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	q := startHTTP3(t, "", farm(b.URL()))
	for _, v := range versions {
		for name, fields := range refusedDowngrades {
			name = v.name + ", " + name
			before := len(b.Heard())
			c := v.dial(q)
			if got := c.say(fields, []string{hidden}, nil); got != v.wrong {
				t.Errorf("%s: %s", name, got)
			}
			if heard := goesOn(t, name, c, b, before); len(heard) > 0 {
				t.Errorf("%s: the server heard %q", name, starts(heard))
			}
		}
	}
	if n := q.abuses("malformed_request"); n != len(refusedDowngrades) {
		t.Errorf("%d malformed requests were counted, of %d", n, len(refusedDowngrades))
	}
}

// Content that is not as long as its head says never makes a whole request for the server,
// and no other request begins where it ends.
func TestDowngradedLengths(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	q := startHTTP3(t, "", farm(b.URL()))
	for _, v := range versions {
		for name, c := range map[string]struct {
			length string
			data   []string
		}{
			"more in one frame": {"4", []string{"abcd" + hidden}},
			"more in another":   {"4", []string{"abcd", hidden}},
			"more than nothing": {"0", []string{hidden}},
			"less":              {"100", []string{hidden}},
			"nothing at all":    {"100", []string{""}},
			"less, in two":      {"100", []string{"ab", "cd"}},
		} {
			name = v.name + ", " + name
			before := len(b.Heard())
			conn := v.dial(q)
			if got := conn.say(usually("content-length", c.length), c.data, nil); got != v.wrong && !(got == "200" && c.length == "0") {
				t.Errorf("%s: %s", name, got)
			}
			for _, m := range goesOn(t, name, conn, b, before) {
				if m.Target() != "/" || strconv.Itoa(len(m.Body)) != c.length {
					t.Errorf("%s: the server heard %s, %q", name, m.Start, m.Body)
				}
			}
		}
	}
}

// passing is a request that passes, and what the server hears of it.
type passing struct {
	fields []string
	start  string
	want   []string // "Name: value", "Name" for one that is not there
	body   string
}

// passingDowngrades arrive as one request of HTTP/1.1 whose framing is ours alone.
var passingDowngrades = map[string]passing{
	"content of unknown length": {usually(), "POST / HTTP/1.1", []string{"Transfer-Encoding: chunked", "Content-Length", "Host: a.example"}, endAndNext},
	"content of known length":   {usually("content-length", lengthOf), "POST / HTTP/1.1", []string{"Content-Length: " + lengthOf, "Transfer-Encoding"}, endAndNext},
	"the same length twice":     {usually("content-length", lengthOf, "content-length", lengthOf), "POST / HTTP/1.1", []string{"Content-Length: " + lengthOf, "Transfer-Encoding"}, endAndNext},
	"a host only":               {append(insteadOf(":authority", "-"), "host", "a.example"), "POST / HTTP/1.1", []string{"Host: a.example"}, ""},
	"host as well":              {usually("host", "a.example"), "POST / HTTP/1.1", []string{"Host: a.example"}, ""},
	"a cookie in parts":         {usually("cookie", "a=1", "x-a", "b", "cookie", "c=2"), "POST / HTTP/1.1", []string{"Cookie: a=1; c=2", "X-A: b"}, ""},
	"disguised fields":          {usually("content_length", "1", "transfer_encoding", "chunked"), "POST / HTTP/1.1", []string{"Content_length", "Transfer_encoding"}, endAndNext},
	"forged facts":              {usually("x-forwarded-for", "6.6.6.6", "x-forwarded-proto", "http"), "POST / HTTP/1.1", []string{"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: https"}, ""},
	"two slashes":               {insteadOf(":path", "//b.example/"), "POST //b.example/ HTTP/1.1", []string{"Host: a.example"}, ""},
	"a path of the whole":       {insteadOf(":path", "/?http://b.example/"), "POST /?http://b.example/ HTTP/1.1", []string{"Host: a.example"}, ""},
	"the whole server":          {[]string{":method", "OPTIONS", ":scheme", "https", ":path", "*", ":authority", "a.example"}, "OPTIONS * HTTP/1.1", []string{"Host: a.example"}, ""},
	"a method of one's own":     {insteadOf(":method", "BREW"), "BREW / HTTP/1.1", []string{"Host: a.example"}, ""},
	"GET with content":          {insteadOf(":method", "GET"), "GET / HTTP/1.1", []string{"Transfer-Encoding: chunked", "Content-Length"}, endAndNext},
	"a wish for HTTP/2":         {usually("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA"), "POST / HTTP/1.1", []string{"Http2-Settings", "Connection", "Upgrade"}, ""},
	"an odd expectation":        {usually("expect", "100-continue, b"), "POST / HTTP/1.1", []string{"Expect: 100-continue, b"}, ""},
	"a scheme in upper case":    {insteadOf(":scheme", "HTTPS"), "POST / HTTP/1.1", []string{"X-Forwarded-Proto: https"}, ""},
	"another scheme of HTTP":    {insteadOf(":scheme", "http"), "POST / HTTP/1.1", []string{"X-Forwarded-Proto: https"}, ""},
	"a hundred crumbs":          {usually(slices.Repeat([]string{"cookie", "a=1"}, 100)...), "POST / HTTP/1.1", []string{"Cookie: a=1" + strings.Repeat("; a=1", 99)}, ""},
}

// endAndNext looks like the end of one request in chunks, and another, and lengthOf is
// how long that is.
const endAndNext = "0\r\n\r\n" + hidden

var lengthOf = strconv.Itoa(len(endAndNext))

func TestDowngradesThatPass(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	q := startHTTP3(t, "", farm(b.URL()))
	for _, v := range versions {
		for name, c := range passingDowngrades {
			name = v.name + ", " + name
			before := len(b.Heard())
			if got := v.dial(q).say(c.fields, []string{c.body}, nil); got != "200" {
				t.Errorf("%s: %s", name, got)
				continue
			}
			heard := b.Heard()[before:]
			if len(heard) != 1 || heard[0].Start != c.start || string(heard[0].Body) != c.body {
				t.Errorf("%s: the server heard %q", name, starts(heard))
				continue
			}
			for _, want := range c.want {
				field, value, given := strings.Cut(want, ": ")
				if got := heard[0].All(field); !given && len(got) > 0 || given && !slices.Equal(got, []string{value}) {
					t.Errorf("%s: the server heard %s %q, want %q", name, field, got, want)
				}
			}
		}
	}
}

// Trailers may not say what a head has said: about framing, route, or the connection. What
// is known here is left out.
func TestDowngradedTrailers(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, testkit.Answering(ok))
	q := startHTTP3(t, "", farm(b.URL()))
	for _, v := range versions {
		for name, c := range map[string]struct {
			trailers []string
			passes   bool
		}{
			"good":               {[]string{"x-check", "a"}, true},
			"content-length":     {[]string{"content-length", "5"}, true},
			"host":               {[]string{"host", "b.example"}, true},
			"forged facts":       {[]string{"x-forwarded-for", "6.6.6.6"}, true},
			"a disguise":         {[]string{"content_length", "5"}, true},
			"a wish":             {[]string{"expect", "100-continue"}, true},
			"te":                 {[]string{"te", "trailers"}, false},
			"connection":         {[]string{"connection", "x-check"}, false},
			"upgrade":            {[]string{"upgrade", "h2c"}, false},
			"transfer-encoding":  {[]string{"transfer-encoding", "chunked"}, false},
			"a pseudo-field":     {[]string{":path", "/smuggled"}, false},
			"CR LF in a value":   {[]string{"x-check", "a\r\n\r\nGET /smuggled HTTP/1.1"}, false},
			"CR LF in a name":    {[]string{"x-check: a\r\n\r\nGET /smuggled HTTP/1.1\r\nx", "b"}, false},
			"upper case, a name": {[]string{"X-Check", "a"}, false},
		} {
			before := len(b.Heard())
			got := v.dial(q).say(usually("te", "trailers"), []string{"abc"}, c.trailers)
			if want := map[bool]string{true: "200", false: v.wrong}[c.passes]; got != want {
				t.Errorf("%s, %s: %s", v.name, name, got)
			}
			heard := b.Heard()[before:]
			if !c.passes && len(heard) > 0 || len(heard) > 1 {
				t.Errorf("%s, %s: the server heard %q", v.name, name, starts(heard))
			}
			for _, m := range heard {
				if check := m.Trailer("X-Check"); check != map[bool]string{true: "a"}[name == "good"] || name != "good" && len(m.Trailers) > 0 {
					t.Errorf("%s, %s: the server heard trailers %q", v.name, name, m.Trailers)
				}
			}
		}
	}
}

// starts are the first lines of requests, with their content.
func starts(heard []*testkit.Message) (lines []string) {
	for _, m := range heard {
		lines = append(lines, m.Start+" "+string(m.Body))
	}
	return lines
}

// end sends trailers of name, value, name, value …
func (f *framer) end(stream uint32, fields ...string) {
	f.send(lastHead(stream), fields...)
}

// abuses is how often classes of abuse of HTTP/2, a word or more, were counted.
func (s *sluice) abuses(classes string) (n int) {
	s.t.Helper()
	m := s.metrics()
	for _, class := range strings.Fields(classes) {
		for name, value := range m {
			if strings.HasPrefix(name, "sluice_http2_abuses_total{") && strings.Contains(name, `class="`+class+`"`) {
				n += int(value)
			}
		}
	}
	return n
}
