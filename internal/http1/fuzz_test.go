package http1

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"strings"
	"testing"

	"sluice/internal/message"
)

// Whatever we accept, net/http accepts too and reads in the same way: method,
// target, host, fields, framing, content, trailers, and where the next message
// begins. It may accept more; we are never more lenient, save for these, each of
// which is harmless:
//
//	what net/http does                            why we may differ
//	refuses an empty line before a request        RFC 9112 2.2 asks servers to pass over one
//	refuses a second Content-Length "05" to "5"   the values agree, and one is sent on
//	refuses Trailer: Content-Length and the like  such trailers end here, the field tells nothing
//	refuses chunks with much overhead             a limit of its own; ours is of each size line
//	refuses white space before a chunk's ";"      RFC 9112 7.1.1 has recipients remove it; we write chunks anew
//	refuses trailers longer than its buffer       a limit of its own; ours is limits.head
//	refuses odd codings in 1xx and 204            they have no content; the connection is not kept
//
// fuzzLimits let through what the fuzzer makes.
var fuzzLimits = &Limits{Head: 2 << 10, Line: 1 << 10, Fields: 30}

func FuzzRequest(f *testing.F) {
	for _, in := range requestCorpus() {
		f.Add([]byte(in))
	}
	for _, c := range chunkedBodies {
		f.Add([]byte("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + c.in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var r message.Request
		n, err := ParseRequest(in, fuzzLimits, &r)
		holdSplits(t, string(in), func(in string) any { return requestUnder(fuzzLimits, in) })
		if err != nil || n == 0 {
			return
		}
		if excused := harmlessRequest(&r); excused {
			return
		}
		theirs := bufio.NewReaderSize(bytes.NewReader(bytes.TrimPrefix(in, []byte("\r\n"))), 64<<10)
		req, err := http.ReadRequest(theirs)
		if err != nil {
			t.Fatalf("%q: we accept, net/http says %v", in, err)
		}
		if got, want := asWeReadIt(&r), asTheyReadIt(req); got != want {
			t.Fatalf("%q\nours:  %s\ntheirs: %s", in, got, want)
		}
		holdFields(t, r.Fields, req.Header)
		holdBody(t, in[n:], r.Body, r.ContentLength, req.Body, theirs, func() http.Header { return req.Trailer })
		holdForwarded(t, &r)
	})
}

// holdForwarded: what we would send on is, to net/http too, one head without a
// byte behind it, of the same request with the same framing and no other field.
func holdForwarded(t *testing.T, r *message.Request) {
	t.Helper()
	if len(r.Host) == 0 {
		r.Host = []byte("given")
	}
	out := writeRequest(r)
	theirs := bufio.NewReaderSize(bytes.NewReader(out), 64<<10)
	req, err := http.ReadRequest(theirs)
	if err != nil {
		t.Fatalf("we forward %q, net/http says %v", out, err)
	}
	got := fmt.Sprintf("%s %s for %s%s", req.Method, req.RequestURI, req.Host, theirFraming(req))
	want := fmt.Sprintf("%s %s for %s%s", r.MethodName, r.Target, r.Host, framingTranscript(r.Body, r.ContentLength))
	if got != want || theirs.Buffered() > 0 {
		t.Fatalf("we forward %q\nwhich is to be: %s\nto net/http:    %s, and %d bytes", out, want, got, theirs.Buffered())
	}
	for name := range req.Header {
		if id := message.Lookup([]byte(name)); id.OfConnection() && id != message.TransferEncoding || id == message.Disguised {
			t.Fatalf("we forward %s: %q", name, out)
		}
	}
}

// harmlessRequest reports whether net/http refuses the request for a reason of
// the table above.
func harmlessRequest(r *message.Request) bool {
	if r.Body == message.Chunked && tellsOfFraming(r.Fields) {
		return true
	}
	return spellsLengthDifferently(r.Fields)
}

// tellsOfFraming: Trailer names fields that net/http refuses there.
func tellsOfFraming(fs message.Fields) bool {
	for _, f := range fs {
		if f.ID != message.Trailer {
			continue
		}
		for token, rest := message.NextToken(f.Value); token != nil; token, rest = message.NextToken(rest) {
			switch message.Lookup(token) {
			case message.ContentLength, message.TransferEncoding, message.Trailer:
				return true
			}
		}
	}
	return false
}

// spellsLengthDifferently: two lengths that agree are not written alike.
func spellsLengthDifferently(fs message.Fields) bool {
	var first []byte
	for _, f := range fs {
		if f.ID != message.ContentLength {
			continue
		}
		if first != nil && !bytes.Equal(first, f.Value) {
			return true
		}
		first = f.Value
	}
	return false
}

func asWeReadIt(r *message.Request) string {
	return fmt.Sprintf("%s %s for %s, %d, stays %v%s", r.MethodName, r.Target, r.Host, r.Version, r.KeepAlive, framingTranscript(r.Body, r.ContentLength))
}

func asTheyReadIt(req *http.Request) string {
	target := req.RequestURI
	if req.URL.IsAbs() {
		_, rest, _ := strings.Cut(target, "://")
		target = strings.TrimPrefix(rest, req.URL.Host)
		switch {
		case target == "" && req.Method == "OPTIONS":
			target = "*"
		case target == "":
			target = "/"
		}
	}
	return fmt.Sprintf("%s %s for %s, %d, stays %v%s", req.Method, target, req.Host, req.ProtoMajor*10+req.ProtoMinor, !req.Close, theirFraming(req))
}

func theirFraming(req *http.Request) string {
	switch {
	case len(req.TransferEncoding) > 0:
		return framingTranscript(message.Chunked, 0)
	case len(req.Header["Content-Length"]) > 0:
		return framingTranscript(message.Length, req.ContentLength)
	}
	return ""
}

// holdFields compares the fields that net/http leaves in its header, value by
// value; those that frame are compared by what they mean.
func holdFields(t *testing.T, fs message.Fields, header http.Header) {
	t.Helper()
	ours := http.Header{}
	for _, f := range fs {
		ours.Add(string(f.Name), string(f.Value))
	}
	for name, values := range header {
		switch name {
		case "Content-Length", "Transfer-Encoding", "Trailer", "Cache-Control": // Cache-Control is added for Pragma
			continue
		}
		for i := range values {
			values[i] = strings.TrimRight(values[i], " \t")
		}
		if fmt.Sprintf("%q", ours[name]) != fmt.Sprintf("%q", values) {
			t.Fatalf("%s: ours %q, theirs %q", name, ours[name], values)
		}
	}
	for name := range ours {
		switch name {
		case "Content-Length", "Transfer-Encoding", "Trailer", "Host", "Connection": // net/http takes Host out of a request's, and Connection that says close
			continue
		}
		if _, ok := header[name]; !ok {
			t.Fatalf("%s: ours only", name)
		}
	}
}

// holdBody compares content, trailers and what stands behind the body, if we
// find it whole and without fault.
func holdBody(t *testing.T, in []byte, framing message.Framing, length int64, theirs io.Reader, behind *bufio.Reader, trailer func() http.Header) {
	t.Helper()
	var d decoding
	if err := d.body.Start(framing, length, 0, fuzzLimits); err != nil {
		t.Fatal(err)
	}
	if err := d.feed(in); err != nil || d.body.End() != nil {
		return
	}
	content, err := io.ReadAll(theirs)
	if err != nil {
		if harmlessChunks(in, err) {
			return
		}
		t.Fatalf("%q: we accept, net/http says %v", in, err)
	}
	if !bytes.Equal(d.content, content) {
		t.Fatalf("%q: our content %q, theirs %q", in, d.content, content)
	}
	holdTrailers(t, d.body.Trailers(), trailer())
	if framing == message.UntilClose {
		return
	}
	rest, err := io.ReadAll(behind)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(in[d.used:], rest) {
		t.Fatalf("%q: behind the body we find %q, they %q", in, in[d.used:], rest)
	}
}

// harmlessChunks reports whether net/http refuses chunks for a reason of the
// table above.
func harmlessChunks(in []byte, err error) bool {
	switch err.Error() {
	case "chunked encoding contains too much non-data":
		return true
	case "invalid byte in chunk length":
		return bytes.Contains(in, []byte(" ;")) || bytes.Contains(in, []byte("\t;"))
	}
	return false
}

// holdTrailers compares trailers, whatever becomes of them.
func holdTrailers(t *testing.T, fs message.Fields, trailer http.Header) {
	t.Helper()
	ours := http.Header{}
	for _, f := range fs {
		ours.Add(string(f.Name), string(f.Value))
	}
	for name, values := range ours {
		theirs := trailer[name]
		for i := range theirs {
			theirs[i] = strings.TrimRight(theirs[i], " \t")
		}
		if fmt.Sprintf("%q", values) != fmt.Sprintf("%q", theirs) {
			t.Fatalf("trailer %s: ours %q, theirs %q", name, values, theirs)
		}
	}
}

func FuzzResponse(f *testing.F) {
	for _, in := range responseCorpus() {
		f.Add([]byte(in), false)
		f.Add([]byte(in), true)
	}
	for _, c := range chunkedBodies {
		f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+c.in), false)
	}
	f.Fuzz(func(t *testing.T, in []byte, toHEAD bool) {
		to, asked := message.GET, &http.Request{Method: "GET"}
		if toHEAD {
			to, asked = message.HEAD, &http.Request{Method: "HEAD"}
		}
		var r message.Response
		n, err := ParseResponse(in, fuzzLimits, to, &r)
		holdSplits(t, string(in), func(in string) any { return responseUnder(fuzzLimits, to, in) })
		if err != nil || n == 0 {
			return
		}
		if harmlessResponse(&r) {
			return
		}
		theirs := bufio.NewReaderSize(bytes.NewReader(in), 64<<10)
		resp, err := http.ReadResponse(theirs, asked)
		if err != nil {
			t.Fatalf("%q: we accept, net/http says %v", in, err)
		}
		if resp.StatusCode != r.Status || resp.ProtoMajor*10+resp.ProtoMinor != int(r.Version) {
			t.Fatalf("%q: ours %d of %d, theirs %s %s", in, r.Status, r.Version, resp.Status, resp.Proto)
		}
		holdFields(t, r.Fields, resp.Header)
		holdBody(t, in[n:], r.Body, r.ContentLength, resp.Body, theirs, func() http.Header { return resp.Trailer })
		if r.KeepAlive && resp.Close {
			t.Fatalf("%q: we keep the connection, net/http closes it", in)
		}
	})
}

// harmlessResponse reports whether net/http refuses the response for a reason of
// the table above.
func harmlessResponse(r *message.Response) bool {
	if noContent := r.Status < 200 || r.Status == 204; noContent && r.Fields.Get(message.TransferEncoding) != nil {
		return true
	}
	if r.Fields.Get(message.TransferEncoding) != nil && tellsOfFraming(r.Fields) {
		return true
	}
	return spellsLengthDifferently(r.Fields)
}

// FuzzBody holds the decoder against the reader of net/http, and any cut against
// the whole.
func FuzzBody(f *testing.F) {
	for i, in := range corpus(chunkedBodies) {
		f.Add([]byte(in), uint16(i))
	}
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		whole := decode(fuzzLimits, 0, string(in))
		at := min(int(cut), len(in))
		if got := decode(fuzzLimits, 0, string(in[:at]), string(in[at:])); got != whole {
			t.Fatalf("%q cut at %d: %v, whole: %v", in, at, got, whole)
		}
		var d decoding
		if err := d.body.Start(message.Chunked, 0, 0, fuzzLimits); err != nil {
			t.Fatal(err)
		}
		if err := d.feed(in); err != nil || !d.body.Done() {
			return
		}
		theirs := bufio.NewReaderSize(bytes.NewReader(in), 64<<10)
		content, err := io.ReadAll(httputil.NewChunkedReader(theirs))
		if err != nil {
			if harmlessChunks(in, err) {
				return
			}
			t.Fatalf("%q: we accept, net/http says %v", in, err)
		}
		if !bytes.Equal(content, d.content) {
			t.Fatalf("%q: our content %q, theirs %q", in, d.content, content)
		}
		trailers, err := textproto.NewReader(theirs).ReadMIMEHeader()
		if err != nil {
			t.Fatalf("%q: we accept the trailers, net/textproto says %v", in, err)
		}
		holdTrailers(t, d.body.Trailers(), http.Header(trailers))
		rest, err := io.ReadAll(theirs)
		if err != nil || !bytes.Equal(rest, in[d.used:]) {
			t.Fatalf("%q: behind the body we find %q, they %q (%v)", in, in[d.used:], rest, err)
		}
	})
}
