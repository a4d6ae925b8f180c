package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// splitCases are streams that are cut at every byte. What the other side must
// read is told by net/http, another's reader: request or response, its content,
// its trailers.
var splitCases = []struct {
	name, request, response string
	has, answered           string // what must be read on the other sides, in part
}{
	{"length", crlf("POST /a HTTP/1.1|Host: x|Content-Length: 11||hello world"), crlf("HTTP/1.1 200 OK|Content-Length: 5|Date: now||there"),
		"POST /a x map[Content-Length:[11]] 11 [] hello world <nil>", "200 OK map[Content-Length:[5] Date:[now]] 5 [] there <nil>"},
	{"chunks", crlf("PUT /b HTTP/1.1|Host: x|Transfer-Encoding: chunked||5;a=b|hello|6| world|0|X-Sum: 11||"),
		crlf("HTTP/1.1 200 OK|Transfer-Encoding: chunked|Trailer: X-Sum||3|the|2;x|re|0|X-Sum: 5||"),
		"PUT /b x map[] -1 [chunked] hello world <nil> map[X-Sum:[11]]", "[chunked] there <nil> map[X-Sum:[5]]"},
	{"none", crlf("GET /c HTTP/1.1|Host: x|Accept: */*||"), crlf("HTTP/1.1 103 Early Hints|Link: </a>||HTTP/1.1 204 No Content|X: y||"),
		"GET /c x map[Accept:[*/*]]", "103 Early Hints map[Link:[</a>]]"},
	{"after an empty line", crlf("|GET /d HTTP/1.1|Host: x||"), crlf("HTTP/1.0 200|Content-Length: 1||x"),
		"GET /d x map[]", "1 [] x <nil>"},
}

func crlf(text string) string { return strings.ReplaceAll(text, "|", "\r\n") }

// TestEverySplit: wherever a stream is cut in two, the other side reads the same;
// also if the request is held meanwhile, so that its head is read anew, and called
// when all of it has come, or between the two parts.
func TestEverySplit(t *testing.T) {
	for _, c := range splitCases {
		for _, held := range []string{"", ", held", ", held, called between"} {
			t.Run(c.name+held, func(t *testing.T) {
				wantRequest, wantResponse := "", ""
				for cut := range max(len(c.request), len(c.response)) {
					synctest.Test(t, func(t *testing.T) {
						p := pieces{c.request, min(cut, len(c.request)), c.response, min(cut, len(c.response))}
						gotRequest, gotResponse := p.exchange(t, held)
						if cut == 0 {
							wantRequest, wantResponse = gotRequest, gotResponse
							if !strings.Contains(gotRequest, c.has) || !strings.Contains(gotResponse, c.answered) {
								t.Fatalf("uncut, the server reads\n%sthe client reads\n%s", gotRequest, gotResponse)
							}
						}
						if gotRequest != wantRequest {
							t.Fatalf("cut at %d, the server reads\n%s\nwant\n%s", cut, gotRequest, wantRequest)
						}
						if gotResponse != wantResponse {
							t.Fatalf("cut at %d, the client reads\n%s\nwant\n%s", cut, gotResponse, wantResponse)
						}
					})
				}
			})
		}
	}
}

// pieces are two messages, and where each is cut.
type pieces struct {
	request    string
	at         int
	response   string
	responseAt int
}

// exchange has both messages go through; it tells what arrived. To have the
// request held, another goes before it, where one may go at once.
func (p *pieces) exchange(t *testing.T, held string) (gotRequest, gotResponse string) {
	r := newVirtual()
	s := newStage(t, r, &script{servers: 1, farm: []string{"admission: 1"}})
	defer r.finish()
	defer s.close()
	client := r.client(s)
	if held != "" {
		r.client(s).send(crlf("GET /first HTTP/1.1|Host: x||"))
		synctest.Wait()
	}
	client.send(p.request[:p.at])
	synctest.Wait()
	if strings.HasSuffix(held, "between") {
		p.call(t, s)
	}
	client.send(p.request[p.at:])
	synctest.Wait()
	if held == ", held" {
		if n := s.loop.Held.Load(); n != 1 {
			t.Errorf("%d requests are held", n)
		}
		p.call(t, s)
	}
	server := r.server('a', 1)
	if server == nil {
		return "nothing", "nothing"
	}
	text, _ := server.received()
	gotRequest = readRequest(text)
	server.send(p.response[:p.responseAt])
	synctest.Wait()
	server.send(p.response[p.responseAt:])
	synctest.Wait()
	text, _ = client.received()
	return gotRequest, readResponses(text)
}

// call answers the request that went before.
func (p *pieces) call(t *testing.T, s *stage) {
	server := s.rig.server('a', 1)
	if err := s.expect(server, crlf("GET /first HTTP/1.1|Host: x||")); err != nil {
		t.Error(err)
	}
	server.send(crlf("HTTP/1.1 204 No Content||"))
	synctest.Wait()
}

func readRequest(text string) string {
	in := bufio.NewReader(strings.NewReader(text))
	r, err := http.ReadRequest(in)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(r.Body)
	return fmt.Sprintln(r.Method, r.RequestURI, r.Host, r.Header, r.ContentLength, r.TransferEncoding, string(body), err, r.Trailer, in.Buffered())
}

// readResponses reads up to the final one.
func readResponses(text string) (all string) {
	in := bufio.NewReader(strings.NewReader(text))
	for {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return all + err.Error()
		}
		body, err := io.ReadAll(r.Body)
		all += fmt.Sprintln(r.Status, r.Header, r.ContentLength, r.TransferEncoding, string(body), err, r.Trailer)
		if r.StatusCode >= 200 {
			return all + fmt.Sprintln(in.Buffered(), "bytes behind")
		}
	}
}
