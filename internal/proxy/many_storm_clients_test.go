package proxy

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sluice/internal/http2"
	"sluice/internal/message"
)

// errand is what a request is to do.
type errand struct {
	path   string
	how    string // the path's second segment: what the server does
	method message.Method
	sends  int           // bytes
	pause  time.Duration // while it sends
	known  bool          // the length is told
	leaves time.Duration // 0: it stays
	expect bool          // it sends content once it may
	tail   bool          // its content has trailers
}

// hows are what servers do: nothing remarkable; late; up to the middle; before the request's
// end, or not at all; with an interim answer, or trailers; as gRPC; as a WebSocket.
var hows = []string{"well", "well", "slow", "cut", "early", "turn", "hint", "tail", "web", "tunnel"}

func (w *tempest) errand() errand {
	w.asked++
	how := hows[w.dice.IntN(len(hows))]
	e := errand{
		path: fmt.Sprintf("/%d/%s/%d", w.asked, how, []int{0, 5, 3000, 100_000, 300_000}[w.dice.IntN(5)]), how: how,
		method: message.GET, pause: time.Duration(w.dice.IntN(30)) * time.Millisecond,
	}
	if how == "tunnel" {
		e.sends = 1 + w.dice.IntN(100_000)
	} else if how == "web" || w.dice.IntN(2) == 0 {
		e.method, e.sends = message.POST, []int{0, 5, 3000, 70_000, 300_000}[w.dice.IntN(5)]
		e.known, e.expect, e.tail = w.dice.IntN(2) == 0, w.dice.IntN(4) == 0, w.dice.IntN(3) == 0
		e.tail = e.tail && !e.known && e.sends > 0
	}
	if w.dice.IntN(4) == 0 {
		e.leaves = time.Duration(1+w.dice.IntN(500)) * time.Millisecond
	}
	return e
}

// fill is content that belongs to a path alone.
func fill(path string, n int) string {
	return strings.Repeat(path+",", n/(len(path)+1)+1)[:n]
}

// answers is the content that a path is answered with.
func answers(path string) string {
	n := 0
	fmt.Sscan(path[strings.LastIndexByte(path, '/')+1:], &n)
	return fill(path, n)
}

// endOf is how gRPC-Web says a path's trailers.
func endOf(path string) string {
	text := "x-path: " + path + "\r\n"
	return string(binary.BigEndian.AppendUint32([]byte{0x80}, uint32(len(text)))) + text
}

// verdict is what came of an errand.
type verdict struct {
	reply
	tail   string // the trailer x-path
	status string // of gRPC, in the head
}

// judge looks at an answer.
func (w *tempest) judge(e errand, a verdict) {
	want, tail := answers(e.path), ""
	switch e.how {
	case "tail":
		tail = e.path
	case "web":
		want += endOf(e.path)
	case "tunnel":
		want = fill(e.path, e.sends)
	}
	ok := a.reply.status == 200
	switch {
	case ok && a.err == nil && a.content == want && a.tail == tail:
		w.whole++
		if e.how == "tunnel" {
			w.tunnels++
		}
	case ok && a.err == nil && a.status != "" && a.content == "":
		w.refused++
	case ok && !strings.HasPrefix(want, a.content):
		w.t.Errorf("%+v is answered by %.60q and then %v", e, a.content, a.err)
	case ok && a.err == nil && e.how != "tunnel": // which ends when one of its ends does
		w.t.Errorf("%+v is answered by %d bytes as whole and %q, want %d", e, len(a.content), a.tail, len(want))
	case errors.Is(a.err, http2.ErrUnprocessed):
		w.away = append(w.away, e.path)
	case ok || a.err != nil:
		w.cut++
	case a.reply.status < 400:
		w.t.Errorf("%+v is answered by %d", e, a.reply.status)
	default:
		w.refused++
	}
}

// head is the request of HTTP/2 for it.
func (e *errand) head() *message.Request {
	r := request(e.method, e.path)
	switch {
	case e.how == "tunnel":
		r = request(message.CONNECT, e.path)
		r.Protocol, r.Body = []byte("websocket"), message.UntilClose
		return r
	case e.sends > 0 && e.known:
		r.Body, r.ContentLength = message.Length, int64(e.sends)
	case e.sends > 0:
		r.Body = message.UntilClose
	}
	r.ExpectContinue = e.expect && e.sends > 0
	r.Fields = append(r.Fields, message.Field{Name: []byte("x-sends"), Value: fmt.Append(nil, e.sends)})
	if e.tail {
		r.Fields = append(r.Fields, message.Field{Name: []byte("x-tail"), Value: []byte(e.path)})
	}
	if e.how == "web" {
		r.Fields = append(r.Fields, message.Field{Name: []byte("content-type"), Value: []byte("application/grpc-web+proto"), ID: message.ContentType})
	}
	return r
}

// byHTTP2 has a client of HTTP/2 send a request.
func (w *tempest) byHTTP2() {
	if len(w.visits) == 0 || w.dice.IntN(6) == 0 {
		w.visits = append(w.visits, w.visit(w.stage))
	}
	v, e := w.visits[w.dice.IntN(len(w.visits))], w.errand()
	w.ground.Submit(func() {
		call, err := v.Call()
		if err != nil {
			return
		}
		defer call.Close()
		if call.Send(e.head(), e.sends == 0) != nil {
			return
		}
		if e.leaves > 0 {
			call.SetReadTimeout(e.leaves)
			call.SetWriteTimeout(e.leaves)
		}
		begun, sending := e.sends == 0, false
		send := func() {
			if begun {
				return
			}
			begun, sending = true, true
			w.ground.Submit(func() { w.sends(call, e); sending = false })
		}
		if !e.expect {
			send()
		}
		w.judge(e, hearAll(call, send))
		for call.Abort(io.ErrClosedPipe); sending; { // the call is another's once it is closed
			w.sim.wait(0)
		}
	})
}

// hearAll reads an answer to its end; proceed is called when content may come.
func hearAll(call *http2.Call, proceed func()) (a verdict) {
	var r message.Response
	for a.reply.status < 200 {
		if a.err = call.Await(); a.err != nil {
			return a
		}
		ok, err := call.Answer(&r)
		if a.err = err; err != nil {
			return a
		}
		if ok {
			a.reply.status = r.Status
		}
		if ok && r.Status == 100 {
			proceed()
		}
	}
	a.status = valueOf(r.Fields, "grpc-status")
	content, err := io.ReadAll(call)
	a.content, a.err = string(content), err
	a.tail = valueOf(call.Trailers(), "x-path")
	return a
}

// valueOf is the value of a field by its name, in any case; empty if there is none.
func valueOf(fields message.Fields, name string) string {
	for _, f := range fields {
		if strings.EqualFold(string(f.Name), name) {
			return string(f.Value)
		}
	}
	return ""
}

// sends sends a request's content.
func (w *tempest) sends(call *http2.Call, e errand) {
	if !w.inPieces(call, e) {
		return
	}
	var trailers message.Fields
	if e.tail {
		trailers = message.Fields{{Name: []byte("x-path"), Value: []byte(e.path)}}
	}
	call.End(trailers)
}

// byHTTP1 has a client of HTTP/1.1 do the same, on a connection of its own.
func (w *tempest) byHTTP1() {
	e := w.errand()
	far := w.client(w.stage).(*actor).c
	w.ground.Submit(func() {
		defer far.Close()
		if e.leaves > 0 {
			far.SetReadTimeout(e.leaves)
			far.SetWriteTimeout(e.leaves)
		}
		e.expect = e.expect && e.sends > 0
		in := bufio.NewReader(far)
		w.sayHTTP1(far, e)
		if e.how != "tunnel" && !e.expect {
			far.in.window = 0 // it takes nothing before all is sent
			w.sendHTTP1(far, e)
			far.in.window = socketBytes
		}
		w.judge(e, w.hearHTTP1(far, in, e))
	})
}

// hearHTTP1 reads an answer to its end, and sends what it gives leave to.
func (w *tempest) hearHTTP1(far *simConn, in *bufio.Reader, e errand) (a verdict) {
	r, err := http.ReadResponse(in, nil)
	for err == nil && r.StatusCode < 200 && r.StatusCode != http.StatusSwitchingProtocols {
		if r.StatusCode == http.StatusContinue && e.expect {
			e.expect = false
			w.sendHTTP1(far, e)
		}
		r, err = http.ReadResponse(in, nil)
	}
	if a.err = err; err != nil {
		return a
	}
	if a.reply.status, a.status = r.StatusCode, r.Header.Get("Grpc-Status"); r.StatusCode == http.StatusSwitchingProtocols {
		a.reply.status, r.Body = 200, io.NopCloser(in)
		sending := true
		w.ground.Submit(func() {
			if w.inPieces(far, e) {
				far.CloseWrite()
			}
			sending = false
		})
		defer func() {
			for far.Abort(io.ErrClosedPipe); sending; {
				w.sim.wait(0)
			}
		}()
	}
	content, err := io.ReadAll(r.Body)
	a.content, a.err, a.tail = string(content), err, r.Trailer.Get("X-Path")
	return a
}

// sayHTTP1 sends a request's head.
func (w *tempest) sayHTTP1(far *simConn, e errand) {
	text := "Host: x\r\nX-Sends: " + fmt.Sprint(e.sends) + "\r\n"
	switch {
	case e.how == "tunnel":
		text += "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	case e.method == message.POST && (e.known || e.sends == 0):
		text += fmt.Sprintf("Content-Length: %d\r\n", e.sends)
	case e.method == message.POST:
		text += "Transfer-Encoding: chunked\r\n"
	}
	if e.expect {
		text += "Expect: 100-continue\r\n"
	}
	if e.tail {
		text += "X-Tail: " + e.path + "\r\n"
	}
	if e.how == "web" {
		text += "Content-Type: application/grpc-web+proto\r\n"
	}
	fmt.Fprintf(far, "%s %s HTTP/1.1\r\n%s\r\n", map[bool]string{true: "POST", false: "GET"}[e.method == message.POST], e.path, text)
}

// sendHTTP1 sends a request's content to its end.
func (w *tempest) sendHTTP1(far *simConn, e errand) {
	if e.known || e.sends == 0 {
		w.inPieces(far, e)
		return
	}
	if w.inPieces(chunks{far}, e) && e.tail {
		io.WriteString(far, "0\r\nX-Path: "+e.path+"\r\n\r\n")
	} else if !e.tail {
		io.WriteString(far, "0\r\n\r\n")
	}
}

// chunks writes each piece as a chunk.
type chunks struct{ io.Writer }

// Write implements io.Writer.
func (c chunks) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(c.Writer, "%x\r\n%s\r\n", len(p), p)
	return len(p), err
}

// inPieces sends content with pauses between; it reports whether that was all.
func (w *tempest) inPieces(to io.Writer, e errand) bool {
	text := fill(e.path, e.sends)
	for len(text) > 0 {
		n := min(len(text), 20_000)
		if _, err := io.WriteString(to, text[:n]); err != nil {
			return false
		}
		text = text[n:]
		w.ground.sleep(e.pause)
	}
	return true
}
