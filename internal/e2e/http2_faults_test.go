package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"sluice/internal/testkit"
)

// unlimited lets all requests go to their server at once, and 100 (Continue) come from it.
const unlimited = "admission: {limit: off}"

// byVersion are clients of Go's own, of both versions, each with connections of its own.
func byVersion(t *testing.T) map[string]*http.Client {
	only2 := new(http.Protocols)
	only2.SetUnencryptedHTTP2(true)
	clients := map[string]*http.Client{"HTTP/1.1": {Transport: &http.Transport{ExpectContinueTimeout: testkit.Patience}}, "HTTP/2": {Transport: &http.Transport{Protocols: only2, ExpectContinueTimeout: testkit.Patience}}}
	for _, c := range clients {
		t.Cleanup(c.CloseIdleConnections)
		c.Timeout = testkit.Patience
	}
	return clients
}

// fetch makes a request and reads its answer to the end.
func fetch(c *http.Client, method, url, content string) (status int, got string, err error) {
	request, err := http.NewRequest(method, url, strings.NewReader(content))
	if err != nil {
		return 0, "", err
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, string(b), err
}

// each calls f for every request whose content has come to its end.
func (f *frames) each(do func(stream uint32, content string) (goOn bool)) {
	contents := map[uint32]string{}
	for frame := f.next(); frame != nil; frame = f.next() {
		ended := false
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			ended = frame.StreamEnded()
		case *http2.DataFrame:
			contents[frame.StreamID] += string(frame.Data())
			ended = frame.StreamEnded()
			f.WriteWindowUpdate(0, max(1, uint32(len(frame.Data()))))
		}
		if id := frame.Header().StreamID; ended && !do(id, contents[id]) {
			return
		}
	}
}

// A request that a server has not processed, and says so, is sent once more, whatever it
// is; one that was reset otherwise is not.
func TestUnprocessed(t *testing.T) {
	t.Parallel()
	refuse := func(code http2.ErrCode) func(*frames) {
		return func(f *frames) {
			f.WriteSettings()
			first := f.number == 1
			f.each(func(stream uint32, content string) bool {
				if first {
					first = false
					f.WriteRSTStream(stream, code)
					return true
				}
				f.answer(stream, "again "+content)
				return true
			})
		}
	}
	goAway := func(f *frames) {
		f.WriteSettings()
		f.each(func(stream uint32, content string) bool {
			if f.number == 1 {
				f.WriteGoAway(0, http2.ErrCodeNo, nil)
				return true // it ends when the client has ended it
			}
			f.answer(stream, "again "+content)
			return true
		})
	}
	for name, c := range map[string]struct {
		script func(*frames)
		status int
	}{
		"REFUSED_STREAM": {refuse(http2.ErrCodeRefusedStream), 200},
		"GOAWAY":         {goAway, 200},
		"CANCEL":         {refuse(http2.ErrCodeCancel), 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for version, client := range byVersion(t) {
				s := start(t, farm(serveFrames(t, c.script)), oneWorker)
				status, got, err := fetch(client, "POST", s.url("/"), "content")
				if err != nil || status != c.status || status == 200 && got != "again content" {
					t.Errorf("%s: %d, %q, %v; want %d", version, status, got, err, c.status)
				}
				mustSettle(t, s)
			}
		})
	}
}

// mustSettle expects that no request is left, and that all connections to servers are idle.
func mustSettle(t *testing.T, s *sluice) {
	t.Helper()
	testkit.Eventually(t, "all connections to servers are idle, and none is in use", func() bool {
		for _, f := range s.status().Farms {
			for _, server := range f.Servers {
				if server.In_flight != 0 || server.Open != server.Idle {
					return false
				}
			}
		}
		return true
	})
}

// An answer that is cut short is seen to be so, by clients of both versions: by a reset,
// by the end of the connection, or where less comes than was announced.
func TestCutByHTTP2(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *frames, stream uint32) bool{
		"reset":      func(f *frames, stream uint32) bool { f.WriteRSTStream(stream, http2.ErrCodeInternal); return true },
		"connection": func(*frames, uint32) bool { return false },
		"too short":  func(f *frames, stream uint32) bool { f.WriteData(stream, true, nil); return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			half := make(chan bool) // the client has the first half
			defer close(half)
			s := start(t, farm(serveFrames(t, func(f *frames) {
				f.WriteSettings()
				f.each(func(stream uint32, _ string) bool {
					f.head(stream, false, ":status", "200", "content-length", "10")
					f.WriteData(stream, false, []byte("half"))
					<-half
					return end(f, stream)
				})
			})), oneWorker)
			for version, client := range byVersion(t) {
				response, err := client.Get(s.url("/"))
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 4)
				_, err = io.ReadFull(response.Body, got)
				half <- true
				if rest, cut := io.ReadAll(response.Body); err != nil || len(rest) > 0 || cut == nil {
					t.Errorf("%s: %v, then %q is taken for the rest", version, err, rest)
				}
				response.Body.Close()
			}
			mustSettle(t, s)
		})
	}
}

// A server that dies under 50 requests fails them, all of them soon, and serves the next
// ones when it is there again.
func TestDiesUnderStreams(t *testing.T) {
	t.Parallel()
	const requests = 50
	s := start(t, farm(serveFrames(t, func(f *frames) {
		f.WriteSettings()
		n := 0
		f.each(func(stream uint32, _ string) bool {
			if f.number > 1 {
				f.answer(stream, "alive")
				return true
			}
			n++
			return n < requests
		})
	}), "timeouts: {first_byte: 300s}", unlimited), "workers: {per: machine, loops: 1}")
	client := byVersion(t)["HTTP/2"]
	var group sync.WaitGroup
	var failed atomic.Int64
	for range requests {
		group.Go(func() {
			if status, _, err := fetch(client, "POST", s.url("/"), "x"); err == nil && status == 502 {
				failed.Add(1)
			}
		})
	}
	group.Wait()
	if failed.Load() != requests {
		t.Errorf("%d of %d requests were answered by 502", failed.Load(), requests)
	}
	if status, got, err := fetch(client, "POST", s.url("/"), "x"); status != 200 || got != "alive" || err != nil {
		t.Errorf("then %d, %q, %v", status, got, err)
	}
	mustSettle(t, s)
}

// A server that never sends SETTINGS costs a request its time-out and no more; one that
// takes no request is a 502, as is one that speaks HTTP/1.1.
func TestUselessHTTP2(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(*frames){
		"silent": func(f *frames) {
			for f.next() != nil {
			}
		},
		"takes none": func(f *frames) {
			f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
			f.each(func(stream uint32, _ string) bool { f.WriteRSTStream(stream, http2.ErrCodeRefusedStream); return true })
		},
		"HTTP/1.1": func(f *frames) { io.WriteString(f.conn, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, farm(serveFrames(t, script), "timeouts: {connect: 200ms}"), "timeouts: {header: 500ms}", oneWorker)
			client := byVersion(t)["HTTP/1.1"]
			var group sync.WaitGroup
			for range 3 {
				group.Go(func() {
					if status, got, err := fetch(client, "GET", s.url("/"), ""); err != nil || status != 502 && status != 504 {
						t.Errorf("%d, %q, %v", status, got, err)
					}
				})
			}
			group.Wait()
			mustSettle(t, s)
		})
	}
}

// A server that takes one request at a time on a connection gets no more, and no request
// is refused to the client.
func TestOneStreamAtATime(t *testing.T) {
	t.Parallel()
	var refused atomic.Int64
	s := start(t, farm(serveFrames(t, func(f *frames) {
		f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		open := false
		for frame := f.next(); frame != nil; frame = f.next() {
			head, is := frame.(*http2.MetaHeadersFrame)
			switch {
			case is && open:
				refused.Add(1)
				f.WriteRSTStream(head.StreamID, http2.ErrCodeRefusedStream)
			case is && !head.StreamEnded():
				open = true
			case is, frame.Header().Flags.Has(http2.FlagDataEndStream) && frame.Header().Type == http2.FrameData:
				open = false
				f.answer(frame.Header().StreamID, "done")
			}
		}
	}), "connections: {max: 3}", unlimited), oneWorker)
	client := byVersion(t)["HTTP/2"]
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			if status, got, err := fetch(client, "POST", s.url(fmt.Sprint("/", i)), "x"); status != 200 || got != "done" || err != nil {
				t.Errorf("%d, %q, %v", status, got, err)
			}
		})
	}
	group.Wait()
	if n := refused.Load(); n > 0 {
		t.Errorf("%d requests were more than the server takes", n)
	}
	mustSettle(t, s)
}

// An upload that the server has answered before its end, and wants no more of, ends with
// that answer.
func TestEarlyAnswerOfHTTP2(t *testing.T) {
	t.Parallel()
	s := start(t, farm(serveFrames(t, func(f *frames) {
		f.WriteSettings()
		for frame := f.next(); frame != nil; frame = f.next() {
			if head, is := frame.(*http2.MetaHeadersFrame); is {
				f.head(head.StreamID, false, ":status", "413")
				f.WriteData(head.StreamID, true, []byte("too much"))
				f.WriteRSTStream(head.StreamID, http2.ErrCodeNo)
			}
		}
	})), oneWorker)
	client := s.dial()
	client.Send("POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10000000\r\n\r\n", strings.Repeat("x", 100_000))
	if m := client.Respond("POST"); m.Status() != 413 || string(m.Body) != "too much" {
		t.Errorf("by HTTP/1.1: %s %q", m.Start, m.Body)
	}
	f := dialHTTP2(t, s.web())
	f.ask(1, ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "x.example")
	f.WriteData(1, false, []byte("some"))
	head, is := f.next().(*http2.MetaHeadersFrame)
	if !is || head.PseudoValue("status") != "413" {
		t.Fatalf("by HTTP/2: %v", head)
	}
	content, reset := "", http2.ErrCodeInternal
	for ended := false; !ended; {
		switch frame := f.next().(type) {
		case *http2.DataFrame:
			content += string(frame.Data())
		case *http2.RSTStreamFrame:
			reset, ended = frame.ErrCode, true
		}
	}
	if content != "too much" || reset != http2.ErrCodeNo {
		t.Errorf("by HTTP/2: %q, then %v", content, reset)
	}
	mustSettle(t, s)
}

// between has a handler serve in both versions, and a Sluice before each.
func between(t *testing.T, handler http.HandlerFunc) map[string]*sluice {
	b := newH2C(handler)
	t.Cleanup(b.Close)
	old := httptest.NewServer(handler)
	t.Cleanup(old.Close)
	return map[string]*sluice{
		"HTTP/2": start(t, farm(strings.Replace(b.URL, "http://", "h2://", 1), unlimited), oneWorker), "HTTP/1.1": start(t, farm(old.URL, unlimited), oneWorker),
	}
}

// newH2C is a server of both versions without TLS.
func newH2C(handler http.Handler) *httptest.Server {
	b := httptest.NewUnstartedServer(handler)
	b.Config.Protocols = new(http.Protocols)
	b.Config.Protocols.SetHTTP1(true)
	b.Config.Protocols.SetUnencryptedHTTP2(true)
	b.Start()
	return b
}

// What has no content, cookies, 100-continue and trailers come through between both
// versions, either way.
func TestFourPairs(t *testing.T) {
	t.Parallel()
	for to, s := range between(t, answerFour) {
		for from, client := range byVersion(t) {
			t.Run(from+" to "+to, func(t *testing.T) {
				withoutContent(t, client, s, to)
				cookies(t, client, s)
				continued(t, client, s)
				trailers(t, client, s)
				mustSettle(t, s)
			})
		}
	}
}

// answerFour is the server of TestFourPairs.
func answerFour(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Proto", r.Proto)
	switch r.URL.Path {
	case "/204":
		w.WriteHeader(http.StatusNoContent)
	case "/304":
		w.Header().Set("ETag", `"1"`)
		w.WriteHeader(http.StatusNotModified)
	case "/head":
		w.Header().Set("Content-Length", "1234567")
	case "/cookies":
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "1"})
		http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
		fmt.Fprint(w, strings.Join(r.Header["Cookie"], "|"))
	case "/refuse":
		http.Error(w, "no", http.StatusExpectationFailed)
	case "/trailers":
		w.Header().Set("Trailer", "X-Sum")
		content, _ := io.ReadAll(r.Body)
		w.Write(content)
		w.Header().Set("X-Sum", r.Trailer.Get("X-Client"))
	default:
		content, _ := io.ReadAll(r.Body)
		w.Write(content)
	}
}

func withoutContent(t *testing.T, client *http.Client, s *sluice, to string) {
	for _, c := range []struct {
		method, path string
		status       int
		length       int64
		field        string
	}{{"HEAD", "/head", 200, 1234567, ""}, {"GET", "/204", 204, 0, ""}, {"GET", "/304", 304, 0, `"1"`}, {"HEAD", "/304", 304, 0, `"1"`}} {
		request, _ := http.NewRequest(c.method, s.url(c.path), nil)
		response, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s %s: %v", c.method, c.path, err)
		}
		content, err := io.ReadAll(response.Body)
		proto := strings.TrimSuffix(response.Header.Get("X-Proto"), ".0")
		if response.StatusCode != c.status || len(content) > 0 || err != nil || response.Header.Get("ETag") != c.field || proto != to ||
			response.ContentLength > 0 && response.ContentLength != c.length || c.length > 0 && response.ContentLength != c.length {
			t.Errorf("%s %s: %s, length %d, %v, %q, %v", c.method, c.path, response.Status, response.ContentLength, response.Header, content, err)
		}
	}
}

func cookies(t *testing.T, client *http.Client, s *sluice) {
	request, _ := http.NewRequest("GET", s.url("/cookies"), nil)
	request.Header.Set("Cookie", "x=1; y=2; z=3")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	content, _ := io.ReadAll(response.Body)
	if string(content) != "x=1; y=2; z=3" || len(response.Header["Set-Cookie"]) != 2 {
		t.Errorf("the server got %q, the client %q", content, response.Header["Set-Cookie"])
	}
}

// continued sends content only after 100, and none where that is refused.
func continued(t *testing.T, client *http.Client, s *sluice) {
	for path, want := range map[string]int{"/echo": 200, "/refuse": 417} {
		told := 0
		ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { told = code; return nil },
		})
		request, _ := http.NewRequestWithContext(ctx, "POST", s.url(path), strings.NewReader("content"))
		request.Header.Set("Expect", "100-continue")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(response.Body)
		if response.StatusCode != want || err != nil || want == 200 && (string(content) != "content" || told != 100) || want != 200 && told != 0 {
			t.Errorf("%s: %s, %q, told %d, %v", path, response.Status, content, told, err)
		}
	}
}

func trailers(t *testing.T, client *http.Client, s *sluice) {
	request, _ := http.NewRequest("POST", s.url("/trailers"), io.NopCloser(strings.NewReader("content")))
	request.Trailer = http.Header{"X-Client": {"client"}}
	request.Header.Set("TE", "trailers")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(response.Body)
	if string(content) != "content" || response.Trailer.Get("X-Sum") != "client" || err != nil {
		t.Errorf("%q, trailers %v, %v", content, response.Trailer, err)
	}
}
