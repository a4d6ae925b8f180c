package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/testkit"
)

// rawAnswers are what the server says, by target.
var rawAnswers = map[string]string{
	"/length":    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n\r\nhello",
	"/empty":     "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"/chunks":    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
	"/trailers":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n",
	"/204":       "HTTP/1.1 204 No Content\r\n\r\n",
	"/304":       "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\n\r\n",
	"/early":     "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"/close":     "HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\r\nuntil the end",
	"/cookies":   "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
	"/teapot":    "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 3\r\n\r\ntea",
	"/bad":       "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
	"/cut":       "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
	"/cutchunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"/nothing":   "",
	"/large":     "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n" + strings.Repeat("0123456789abcdef", 65536),
}

// plainServer answers by the table; a response without a length ends its connection.
func plainServer(p *testkit.Peer) {
	for {
		m := p.Request()
		path, _, _ := strings.Cut(m.Target(), "?")
		p.Send(rawAnswers[path])
		switch path {
		case "/close", "/bad", "/cut", "/cutchunks", "/nothing":
			return
		}
	}
}

// asked is a request as a table has it.
type asked struct {
	method, target string
	body           string // "-": none; "~…": its length is not told
	fields         http.Header
}

// Whatever a client speaks, the server is asked the same, and the client told the same.
func TestProtocolsAgree(t *testing.T) {
	t.Parallel()
	b := testkit.Serve(t, plainServer)
	s := startTLS(t, "", farm(b.URL(), "retries: 0"))
	clients := map[string]*http.Client{}
	for name, protocols := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) }, "h2c": func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
		"HTTP/1.1 over TLS": func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/2 over TLS": func(p *http.Protocols) { p.SetHTTP2(true) },
	} {
		var set http.Protocols
		protocols(&set)
		transport := &http.Transport{Protocols: &set, DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		clients[name] = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	large := strings.Repeat("x", 200_000)
	for _, a := range []asked{
		{"GET", "/length", "-", http.Header{"X-A": {"1", "2"}, "Cookie": {"a=1; b=2"}}},
		{"GET", "/length?a=b&c=%20", "-", nil}, {"HEAD", "/length", "-", nil}, {"POST", "/empty", "content", nil}, {"POST", "/empty", "", nil},
		{"POST", "/chunks", "~content", nil}, {"PUT", "/204", large, nil}, {"PUT", "/204", "~" + large, nil}, {"PATCH", "/teapot", "p", nil},
		{"GET", "/chunks", "-", nil}, {"GET", "/trailers", "-", nil}, {"HEAD", "/chunks", "-", nil}, {"GET", "/304", "-", http.Header{"If-None-Match": {`"x"`}}},
		{"GET", "/early", "-", nil}, {"GET", "/close", "-", nil}, {"GET", "/cookies", "-", nil}, {"DELETE", "/204", "-", nil},
		{"GET", "/bad", "-", nil}, {"GET", "/cut", "-", nil}, {"GET", "/cutchunks", "-", nil}, {"GET", "/nothing", "-", nil}, {"GET", "/large", "-", nil},
		{"OPTIONS", "/204", "-", nil}, {"GET", "/length", "-", http.Header{"X-Long": {strings.Repeat("a", 20_000)}}},
	} {
		said := map[string][]string{}
		for _, name := range []string{"HTTP/1.1", "h2c", "HTTP/1.1 over TLS", "HTTP/2 over TLS"} {
			url := s.url(a.target)
			if strings.HasSuffix(name, "TLS") {
				url = s.secure(a.target)
			}
			before := len(b.Heard())
			told := inWords(t, clients[name], a, url)
			said[told+heardSince(b, before)] = append(said[told+heardSince(b, before)], name)
		}
		if len(said) != 1 {
			t.Errorf("%s %.40s is not the same by all:", a.method, a.target)
			for what, names := range said {
				t.Errorf("%v:\n%.1500s", names, what)
			}
		}
	}
}

// inWords asks, and puts what comes back in words.
func inWords(t *testing.T, client *http.Client, a asked, url string) string {
	t.Helper()
	var body io.Reader
	if text, unknown := strings.CutPrefix(a.body, "~"); unknown {
		body = io.NopCloser(strings.NewReader(text))
	} else if a.body != "-" {
		body = strings.NewReader(a.body)
	}
	request, err := http.NewRequest(a.method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "site.example"
	request.Header.Set("User-Agent", "test")
	for name, values := range a.fields {
		request.Header[name] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return "no answer\n"
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if response.StatusCode >= 400 && response.Header.Get("Server") == "sluice" {
		return fmt.Sprintf("refused by %d\n", response.StatusCode) // the page has the request's id
	}
	text := fmt.Sprintf("%d, %d bytes %.20q, whole: %v, length %d\n", response.StatusCode, len(content), content, err == nil, response.ContentLength)
	for _, name := range []string{"Date", "Connection"} {
		response.Header.Del(name)
	}
	if response.StatusCode == http.StatusNotModified {
		response.Header.Del("Content-Length") // left out in HTTP/2
	}
	return text + fmt.Sprint(response.Header, response.Trailer) + "\n"
}

// heardSince is what the server has been asked since.
func heardSince(b *testkit.Backend, before int) string {
	text := ""
	for _, m := range b.Heard()[before:] {
		text += m.Start + "\n"
		var lines []string
		for _, f := range m.Fields {
			switch strings.ToLower(f.Name) {
			case "x-forwarded-proto", "x-forwarded-port", "via", "x-request-id":
			default:
				lines = append(lines, strings.ToLower(f.Name)+": "+fmt.Sprintf("%.200s", f.Value))
			}
		}
		slices.Sort(lines)
		text += strings.Join(lines, "\n") + fmt.Sprintf("\n%d bytes %.20q\n", len(m.Body), m.Body)
	}
	return text
}
