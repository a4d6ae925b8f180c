package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/message"
)

// arrives notes that a server begins with a request.
func (w *tempest) arrives(method, path string) {
	if w.seen[path]++; method == "POST" && w.seen[path] > 1 {
		w.t.Errorf("%s %s reaches servers %d times", method, path, w.seen[path])
	}
}

// took checks the content of a request: what came before err, and the trailer x-path if one
// was announced.
func (w *tempest) took(path string, content []byte, err error, sends, announced, tail string) {
	n, _ := strconv.Atoi(sends)
	switch {
	case string(content) != fill(path, len(content)):
		w.t.Errorf("a server gets, as content of %s, %d bytes of another", path, len(content))
	case err == nil && len(content) != n:
		w.t.Errorf("a server gets, as the whole content of %s, %d bytes of %s", path, len(content), sends)
	case err == nil && announced != tail:
		w.t.Errorf("a server gets the content of %s with the trailer %q, want %q", path, tail, announced)
	}
}

// app is the server of HTTP/2.
func (w *tempest) app(a ask) {
	path := a.path()
	w.arrives(string(a.req.MethodName), path)
	how, content := strings.Split(path, "/")[2], answers(path)
	switch how {
	case "slow":
		w.ground.sleep(200 * time.Millisecond)
	case "turn":
		a.Read(make([]byte, 100))
		a.Reset()
		return
	case "hint":
		a.Respond(&message.Response{Status: 103, Fields: message.Fields{{Name: []byte("link"), Value: []byte("</x>")}}}, false)
	case "tunnel":
		w.echo(a)
		return
	}
	if how != "early" {
		came, err := io.ReadAll(a)
		w.took(path, came, err, valueOf(a.req.Fields, "x-sends"), valueOf(a.req.Fields, "x-tail"), valueOf(a.Trailers(), "x-path"))
		if err != nil {
			return
		}
	}
	r, trailers := message.Response{Status: 200, ContentLength: -1}, message.Fields{{Name: []byte("x-path"), Value: []byte(path)}}
	switch how {
	case "web":
		if kind := valueOf(a.req.Fields, "content-type"); kind != "application/grpc+proto" {
			w.t.Errorf("a server of gRPC is asked in %q", kind)
		}
		r.Fields = message.Fields{{Name: []byte("content-type"), Value: []byte("application/grpc+proto"), ID: message.ContentType}}
	case "tail":
	default:
		trailers = nil
	}
	if a.Respond(&r, false) != nil {
		return
	}
	if how == "cut" {
		a.Write([]byte(content[:len(content)/2]))
		a.Reset()
		return
	}
	if _, err := a.Write([]byte(content)); err == nil {
		a.End(trailers)
	}
}

// echo is a WebSocket that sends back what comes.
func (w *tempest) echo(a ask) {
	if string(a.req.MethodName) != "CONNECT" || string(a.req.Protocol) != "websocket" {
		w.t.Errorf("a WebSocket is asked for by %s and %q", a.req.MethodName, a.req.Protocol)
	}
	if a.Respond(&message.Response{Status: 200, ContentLength: -1}, false) != nil {
		return
	}
	if _, err := io.Copy(a, a); err == nil {
		a.End(nil)
	}
}

// serveHTTP1 is the server of HTTP/1.1.
func (w *tempest) serveHTTP1(far *simConn) {
	defer far.Close()
	in := bufio.NewReader(far)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		w.arrives(r.Method, r.URL.Path)
		if !w.answerHTTP1(far, in, r) {
			return
		}
	}
}

// answerHTTP1 serves one request, and reports whether another may follow.
func (w *tempest) answerHTTP1(far *simConn, in *bufio.Reader, r *http.Request) bool {
	path := r.URL.Path
	how, content := strings.Split(path, "/")[2], answers(path)
	switch how {
	case "slow":
		w.ground.sleep(200 * time.Millisecond)
	case "turn":
		r.Body.Read(make([]byte, 100))
		return false
	case "hint":
		io.WriteString(far, "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
	case "tunnel":
		fmt.Fprintf(far, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptOf([]byte(r.Header.Get("Sec-WebSocket-Key"))))
		io.Copy(far, in)
		return false
	}
	if how != "early" {
		if r.Header.Get("Expect") != "" && len(path)%2 == 0 { // others leave it to who stands before them
			io.WriteString(far, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		came, err := io.ReadAll(r.Body)
		w.took(path, came, err, r.Header.Get("X-Sends"), r.Header.Get("X-Tail"), r.Trailer.Get("X-Path"))
		if err != nil {
			return false
		}
	}
	if how == "tail" {
		io.WriteString(far, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		if content != "" {
			io.WriteString(chunks{far}, content)
		}
		_, err := io.WriteString(far, "0\r\nX-Path: "+path+"\r\n\r\n")
		return err == nil
	}
	if how == "web" { // it speaks gRPC-Web itself
		content += endOf(path)
	}
	fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(content))
	if how == "cut" {
		far.Write([]byte(content[:len(content)/2]))
		return false
	}
	_, err := io.WriteString(far, content)
	return err == nil && how != "early"
}
