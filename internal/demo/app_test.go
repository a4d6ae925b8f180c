package demo

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

var testApp = app{name: "demo-1", node: 0}

func TestPlaythings(t *testing.T) {
	for _, c := range []struct {
		method, target, body string
		status               int
		want                 string // part of the body
	}{
		{"GET", "/", "", 200, "Send 20 requests"},
		{"POST", "/", "", 405, ""},
		{"GET", "/nothing", "", 404, ""},
		{"GET", "/whoami", "", 200, `"name": "demo-1"`},
		{"GET", "/slow?ms=0", "", 200, "demo-1 answered after 0 ms"},
		{"GET", "/slow?ms=60001", "", 400, "from 0 to 60000"},
		{"GET", "/slow?ms=-1", "", 400, "from 0 to 60000"},
		{"GET", "/slow?ms=x", "", 400, "from 0 to 60000"},
		{"GET", "/bytes?n=5", "", 200, "~~~~~"},
		{"GET", "/bytes?n=1073741825", "", 400, "from 0 to 1073741824"},
		{"POST", "/echo?a=b", "the body", 200, "POST /echo?a=b HTTP/1.1\r\nHost: example.com\r\n\r\nthe body"},
		{"POST", "/echo", strings.Repeat("x", maxEcho), 200, "xxx"},
		{"POST", "/echo", strings.Repeat("x", maxEcho+1), 413, ""},
		{"GET", "/status/200", "", 200, "200 OK, from demo-1"},
		{"GET", "/status/599", "", 599, ""},
		{"DELETE", "/status/404", "", 404, "404 Not Found, from demo-1"},
		{"GET", "/status/304", "", 304, ""},
		{"GET", "/status/199", "", 400, "from 200 to 599"},
		{"GET", "/status/600", "", 400, "from 200 to 599"},
		{"GET", "/status/x", "", 400, "from 200 to 599"},
	} {
		w := httptest.NewRecorder()
		testApp.handler().ServeHTTP(w, httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s %s: %d %.200q, want %d and %q", c.method, c.target, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestBytesHasALength(t *testing.T) {
	w := httptest.NewRecorder()
	testApp.handler().ServeHTTP(w, httptest.NewRequest("GET", "/bytes?n=100000", nil))
	if w.Body.Len() != 100_000 || w.Header().Get("Content-Length") != "100000" {
		t.Errorf("%d bytes, Content-Length %s", w.Body.Len(), w.Header().Get("Content-Length"))
	}
}

func TestWhoami(t *testing.T) {
	r := httptest.NewRequest("GET", "/whoami?x=1", nil)
	r.Header.Set("X-Sluice-Placement", "worker=1 node=0 loop=3 farm=demo server=http://127.0.0.1:4000 waited_us=12 connection=reused")
	r.Header.Set("X-Forwarded-For", "192.0.2.7")
	w := httptest.NewRecorder()
	testApp.handler().ServeHTTP(w, r)
	var got answer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Placement.Loop != 3 || got.Request.ForwardedFor != "192.0.2.7" || got.Request.Target != "/whoami?x=1" || got.App.PID == 0 {
		t.Errorf("%+v", got)
	}
	if w.Header().Get("Cache-Control") != "no-store" {
		t.Error("a cache may answer in place of a server")
	}
}

// What a client sends can become neither markup nor script of the page.
func TestPageKeepsForeignTextInside(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Request-Id", "</script><script>alert(1)</script>")
	w := httptest.NewRecorder()
	testApp.handler().ServeHTTP(w, r)
	body := w.Body.String()
	if strings.Contains(body, "alert(1)</script>") || !strings.Contains(body, "alert(1)") {
		t.Error("the request's id left its place in the page, or did not reach it")
	}
	if strings.Contains(body, answerMark) {
		t.Error("the page has no answer in it")
	}
}

// The page must work on a machine without the Internet.
func TestPageAsksNobodyElse(t *testing.T) {
	rest := strings.ReplaceAll(pageHTML, "http://www.w3.org/2000/svg", "") // the name of a namespace
	for _, foreign := range []string{"http://", "https://", "//cdn", "@import", "<link rel=\"stylesheet\"", "src="} {
		if strings.Contains(rest, foreign) {
			t.Errorf("the page holds %s", foreign)
		}
	}
	if strings.Count(pageHTML, answerMark) != 1 {
		t.Errorf("%s stands %d times in the page", answerMark, strings.Count(pageHTML, answerMark))
	}
}

func TestParsePassage(t *testing.T) {
	for field, want := range map[string]passage{
		"": {},
		"worker=0 node=1 loop=2 farm=demo server=http://127.0.0.1:4000 waited_us=12 connection=taken": {
			Known: true, Node: 1, Loop: 2, Farm: "demo", Server: "http://127.0.0.1:4000", WaitedUS: 12, Connection: "taken"},
		"node=-1":                   {Known: true, Node: -1},
		"worker=7  colour=red =x y": {Known: true, Worker: 7},
		"worker=x server=a=b":       {Known: true, Server: "a=b"},
	} {
		if got := parsePassage(field); !reflect.DeepEqual(got, want) {
			t.Errorf("%q:\ngot  %+v\nwant %+v", field, got, want)
		}
	}
}
