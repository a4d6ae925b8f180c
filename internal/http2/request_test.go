package http2

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sluice/internal/http1"
	"sluice/internal/message"
)

// fieldsOf makes fields of words name=value.
func fieldsOf(text string) (fs message.Fields) {
	for _, w := range words(text) {
		name, value, _ := strings.Cut(strings.TrimPrefix(w, ":"), "=")
		if w[0] == ':' {
			name = ":" + name
		}
		value = strings.ReplaceAll(strings.Trim(value, `"`), `\t`, "\t")
		value = strings.ReplaceAll(strings.ReplaceAll(value, `\n`, "\n"), `\0`, "\x00")
		fs = append(fs, message.Field{Name: []byte(name), Value: []byte(value), ID: message.Lookup([]byte(name))})
	}
	return fs
}

// TestRequests: what a field section means, or which rule it breaks. $ stands for
// a good GET's pseudo-fields.
func TestRequests(t *testing.T) {
	for _, test := range []struct {
		fields string
		end    bool
		want   string // method, target, host, other; or a fault
	}{
		{"$", true, "GET / a"},
		{"$ x=", true, "GET / a x="},
		{":path=/ :authority=a :method=GET :scheme=http", true, "GET / a"},
		{":method=GET :scheme=https :path=/ host=a", true, "GET / a"},
		{"$ host=A", true, "GET / a"},
		{":method=OPTIONS :scheme=https :path=* :authority=a", true, "OPTIONS * a"},
		{":method=get :scheme=https :path=/ :authority=a", true, "get / a"},
		{"$ te=trailers", true, "GET / a (trailers)"},
		{"$ te=TRAILERS", true, "GET / a (trailers)"},
		{"$ content-length=0", true, "GET / a"},
		{"$ content-length=3", false, "GET / a (3)"},
		{"$ content-length=3 content-length=3", false, "GET / a (3)"},
		{"$", false, "GET / a (…)"},
		{"$ expect=100-continue", false, "GET / a (…) (expects)"},
		{"$ expect=100-continue", true, "GET / a"},
		{"$ expect=100-continue content-length=0", false, "GET / a (0)"},
		{"$ expect=more", false, "GET / a expect=more (…)"},
		{"$ proxy-authorization=x http2-settings=x content_length=9", true, "GET / a"},
		{"$ max-forwards=x", true, "GET / a max-forwards=x"},
		{":method=OPTIONS :scheme=https :path=/ :authority=a max-forwards=7", true, "OPTIONS / a (7 hops)"},
		{"$ cookie=a cookie= cookie=b", true, "GET / a cookie=a; ; b"},
		{":method=CONNECT :authority=a:1", false, "CONNECT a:1 a:1 (…)"},
		{":method=CONNECT :authority=a:1 host=a", false, "CONNECT a:1 a:1 (…)"},
		{":method=CONNECT :protocol=websocket :scheme=https :path=/x :authority=a", false, "CONNECT /x a (…) websocket"},
		{`$ x="a	b"`, true, "GET / a x=a	b"},

		{"", true, errPseudos.Rule},
		{":method=GET :path=/ :authority=a", true, errPseudos.Rule},
		{":method=GET :scheme=https :authority=a", true, errPseudos.Rule},
		{":scheme=https :path=/ :authority=a", true, errPseudos.Rule},
		{"$ :path=/", true, errPseudo.Rule},
		{"$ x=y :path=/", true, errPseudo.Rule},
		{"$ :status=200", true, errPseudo.Rule},
		{"$ :=200", true, errPseudo.Rule},
		{":method= :scheme=https :path=/ :authority=a", true, errMethod.Rule},
		{`:method="G T" :scheme=https :path=/ :authority=a`, true, errMethod.Rule},
		{":method=GET :scheme=ftp :path=/ :authority=a", true, errScheme.Rule},
		{":method=GET :scheme= :path=/ :authority=a", true, errScheme.Rule},
		{":method=GET :scheme=https :path= :authority=a", true, errPath.Rule},
		{":method=GET :scheme=https :path=* :authority=a", true, errPath.Rule},
		{":method=GET :scheme=https :path=http://a/ :authority=a", true, errPath.Rule},
		{":method=GET :scheme=https :path=/#f :authority=a", true, errPath.Rule},
		{":method=GET :scheme=https :path=/%zz :authority=a", true, errPath.Rule},
		{`:method=GET :scheme=https :path="/ HTTP/1.1" :authority=a`, true, errPath.Rule},
		{":method=GET :scheme=https :path=/", true, errAuthority.Rule},
		{":method=GET :scheme=https :path=/ :authority=", true, errAuthority.Rule},
		{":method=GET :scheme=https :path=/ :authority=u@a", true, errAuthority.Rule},
		{":method=GET :scheme=https :path=/ :authority=a/b", true, errAuthority.Rule},
		{":method=GET :scheme=https :path=/ host=", true, errAuthority.Rule},
		{"$ host=b", true, errAuthority.Rule},
		{"$ host=a host=a", true, errAuthority.Rule},
		{":method=CONNECT :authority=a", false, errConnect.Rule},
		{":method=CONNECT host=a:1", false, errConnect.Rule},
		{":method=CONNECT :scheme=https :path=/ :authority=a:1", false, errPseudos.Rule},
		{":method=CONNECT :protocol=websocket :authority=a", false, errPseudos.Rule},
		{":method=CONNECT :protocol= :scheme=https :path=/ :authority=a", false, errProtocol.Rule},
		{"$ :protocol=websocket", false, errProtocol.Rule},
		{"$ X=y", true, errNames.Rule},
		{"$ =y", true, errNames.Rule},
		{`$ "x y"=z`, true, errNames.Rule},
		{"$ x:y=z", true, errNames.Rule},
		{`$ x="a\0"`, true, errValues.Rule},
		{`$ x="a\nb"`, true, errValues.Rule},
		{`$ x=" a"`, true, errValues.Rule},
		{`$ x="a "`, true, errValues.Rule},
		{`$ x="a\t"`, true, errValues.Rule},
		{"$ connection=close", true, errOfConnection.Rule},
		{"$ keep-alive=x", true, errOfConnection.Rule},
		{"$ proxy-connection=x", true, errOfConnection.Rule},
		{"$ transfer-encoding=chunked", false, errOfConnection.Rule},
		{"$ upgrade=h2c", true, errOfConnection.Rule},
		{"$ te=gzip", true, errTE.Rule},
		{`$ te="trailers, gzip"`, true, errTE.Rule},
		{"$ content-length=1", true, errContent.Rule},
		{"$ content-length=+1", false, errLengths.Rule},
		{`$ content-length="1, 1"`, false, errLengths.Rule},
		{"$ content-length=1 content-length=2", false, errLengths.Rule},
		{":method=TRACE :scheme=https :path=/ :authority=a", false, errNoContent.Rule},
		{":method=CONNECT :authority=a:1 content-length=1", false, errNoContent.Rule},
		{":method=CONNECT :protocol=websocket :scheme=https :path=/ :authority=a content-length=1", false, errNoContent.Rule},
		{":method=TRACE :scheme=https :path=/ :authority=a max-forwards=x", true, errMaxForwards.Rule},
		{":method=TRACE :scheme=https :path=/ :authority=a max-forwards=1 max-forwards=1", true, errMaxForwards.Rule},
	} {
		var r message.Request
		text := strings.Replace(test.fields, "$", ":method=GET :scheme=https :path=/ :authority=a", 1)
		_, f := request(fieldsOf(text), test.end, true, &r, nil)
		got := said(&r)
		if f != nil {
			got = f.Rule
		}
		if got != test.want {
			t.Errorf("%s\ngives %s\nwant  %s", test.fields, got, test.want)
		}
	}
}

// said is a request in words.
func said(r *message.Request) string {
	line := fmt.Sprintf("%s %s %s", r.MethodName, r.Target, r.Host)
	for _, f := range r.Fields {
		if !f.Drop {
			line += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		}
	}
	switch {
	case r.Body == message.Length:
		line += fmt.Sprintf(" (%d)", r.ContentLength)
	case r.Body == message.UntilClose:
		line += " (…)"
	}
	if r.ExpectContinue {
		line += " (expects)"
	}
	if r.Trailers {
		line += " (trailers)"
	}
	if r.MaxForwards >= 0 {
		line += fmt.Sprintf(" (%d hops)", r.MaxForwards)
	}
	if r.Protocol != nil {
		line += " " + string(r.Protocol)
	}
	return line
}

// TestWithoutExtendedConnect: where it was not announced it is a fault.
func TestWithoutExtendedConnect(t *testing.T) {
	var r message.Request
	if _, f := request(fieldsOf(":method=CONNECT :protocol=websocket :scheme=https :path=/ :authority=a"), false, false, &r, nil); f != errProtocol {
		t.Errorf("the fault is %v", f)
	}
}

func TestTrailers(t *testing.T) {
	for text, want := range map[string]*Fault{
		"a=b": nil, "content-length=1": nil, "host=x": nil, "": nil,
		":path=/": errPseudo, "A=b": errNames, "a=\" b\"": errValues, "te=trailers": errOfConnection, "connection=x": errOfConnection,
	} {
		fs := fieldsOf(text)
		if f := trailers(fs); f != want {
			t.Errorf("%s: %v, want %v", text, f, want)
		}
		if dropped := len(fs) > 0 && fs[0].Drop; want == nil && text != "" && dropped == (text == "a=b") {
			t.Errorf("%s: dropped is %v", text, dropped)
		}
	}
}

// pieces are what hostile requests are put together from.
var pieces = []string{
	"GET", "POST", "CONNECT", "TRACE", "OPTIONS", "*", "/", "/a", "a", "a:80", "[::1]", "http", "https", "chunked", "trailers", "0", "5",
	"+5", "5, 5", " ", "\t", "\r\n", "\n", "\x00", "\x7f", "\xff", ":", "%", "%41", "#", "?", "@", "close", "x", "X", "-", "_", "\"", "\\", ",", ";", "websocket",
}

var someNames = []string{
	":method", ":scheme", ":path", ":authority", ":protocol", "host", "content-length", "transfer-encoding", "te", "connection", "upgrade",
	"cookie", "x", "X", "expect", "max-forwards", "content_length", "", ":", "a b", "a\r\nb", "trailer",
}

// TestNeverMoreLenientThanHTTP1: a request that is accepted here and written as
// HTTP/1.1, as a proxy does it, is accepted there and means the same. Three of
// four field sections begin as good ones.
func TestNeverMoreLenientThanHTTP1(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	lim := http1.Limits{Head: 1 << 16, Line: 1 << 12, Fields: 100}
	accepted := 0
	for range 100_000 {
		fs := hostile(random)
		var r, back message.Request
		end := random.IntN(2) == 0
		if _, f := request(fs, end, true, &r, nil); f != nil {
			continue
		}
		accepted++
		if r.Protocol != nil {
			continue // is written as an upgrade, if at all
		}
		head := asHTTP1(&r)
		n, err := http1.ParseRequest(head, &lim, &back)
		switch {
		case err != nil || n != len(head):
			t.Fatalf("accepted here, and there %d of %d bytes, %v:\n%q", n, len(head), err, head)
		case back.Method != r.Method || !bytes.Equal(back.Target, r.Target) || !bytes.Equal(back.Host, r.Host):
			t.Fatalf("means another thing there:\n%q\n%s\n%s", head, said(&r), said(&back))
		case (back.Body == message.NoBody) != (r.Body == message.NoBody) || r.Body == message.Length && back.ContentLength != r.ContentLength:
			t.Fatalf("has another body there:\n%q", head)
		}
	}
	if accepted < 4_000 {
		t.Errorf("only %d were accepted: this tries little", accepted)
	}
}

func hostile(random *rand.Rand) (fs message.Fields) {
	add := func(name, value string) {
		fs = append(fs, message.Field{Name: []byte(name), Value: []byte(value), ID: message.Lookup([]byte(name))})
	}
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	if random.IntN(4) > 0 {
		for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/"}, {":authority", "a"}} {
			if random.IntN(8) == 0 {
				f[1] = pick(pieces) + pick(pieces)
			}
			if random.IntN(8) > 0 {
				add(f[0], f[1])
			}
		}
	}
	for range random.IntN(4) {
		value := pick(pieces)
		if random.IntN(2) == 0 {
			value += pick(pieces)
		}
		add(pick(someNames), value)
	}
	return fs
}

// asHTTP1 writes a request as a proxy would.
func asHTTP1(r *message.Request) []byte {
	head := http1.AppendRequestLine(nil, r)
	head = http1.AppendField(head, "Host", r.Host)
	head = http1.AppendFields(head, r.Fields)
	framing := r.Body
	if framing == message.UntilClose {
		framing = message.Chunked
	}
	head = http1.AppendFraming(head, framing, r.ContentLength)
	return append(head, "\r\n"...)
}

func TestPriorities(t *testing.T) {
	for text, want := range map[string]Priority{
		"": {3, false}, "u=0": {0, false}, "u=7,i": {7, true}, "i, u=1": {1, true}, "i=?1": {3, true}, "i;x=1,u=2;y": {2, true},
		"u=8": {3, false}, "u=-1": {3, false}, "u": {3, false}, "u=1.0": {3, false}, "i=?0": {3, false}, "u=5,u=2": {2, false}, "i,i=?0": {3, false}, "x=1, u=4": {4, false},
	} {
		if got := ParsePriority([]byte(text)); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
