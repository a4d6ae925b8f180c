package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
)

// Bounds of what a visitor may ask the app for.
const (
	maxSlow  = time.Minute
	maxBytes = 1 << 30
	maxEcho  = 1 << 20 // bytes of a request body that /echo gives back
)

// app is one app worker's web site. It is immutable.
type app struct {
	name string // "demo-0"
	node int    // NUMA node that it was placed on; -1 if the machine tells none
}

// handler is the whole site: the page, and small things to play with by curl.
func (a app) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.page)
	mux.HandleFunc("/whoami", a.whoami)
	mux.HandleFunc("/slow", a.slow)
	mux.HandleFunc("/bytes", a.bytes)
	mux.HandleFunc("/echo", a.echo)
	mux.HandleFunc("/status/{code}", a.status)
	return mux
}

// answer is what /whoami tells: who answered, and which way the request came.
type answer struct {
	App       identity `json:"app"`
	Placement passage  `json:"placement"`
	Request   request  `json:"request"`
}

// identity is the app worker that answered.
type identity struct {
	Name string `json:"name"`
	Node int    `json:"node"`
	PID  int    `json:"pid"`
	Go   string `json:"go"`
}

// request is what the app saw of the request behind the proxy.
type request struct {
	Method       string `json:"method"`
	Target       string `json:"target"`
	Host         string `json:"host"`
	ForwardedFor string `json:"x_forwarded_for,omitempty"`
	ID           string `json:"x_request_id,omitempty"`
	Via          string `json:"via,omitempty"`
}

func (a app) answer(r *http.Request) answer {
	return answer{
		App:       identity{Name: a.name, Node: a.node, PID: os.Getpid(), Go: runtime.Version()},
		Placement: parsePassage(r.Header.Get(passageField)),
		Request: request{
			Method: r.Method, Target: r.RequestURI, Host: r.Host,
			ForwardedFor: r.Header.Get("X-Forwarded-For"),
			ID:           r.Header.Get("X-Request-Id"),
			Via:          r.Header.Get("Via"),
		},
	}
}

func (a app) whoami(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(a.answer(r)) // fails only if the client has gone
}

// slow answers after ?ms= milliseconds, or never if the client goes first.
func (a app) slow(w http.ResponseWriter, r *http.Request) {
	ms, err := number(r, "ms", 1000, int(maxSlow.Milliseconds()))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		fmt.Fprintf(w, "%s answered after %d ms\n", a.name, ms)
	case <-r.Context().Done():
	}
}

// bytes answers with ?n= bytes.
func (a app) bytes(w http.ResponseWriter, r *http.Request) {
	n, err := number(r, "n", 1024, maxBytes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(n))
	io.CopyN(w, water{}, int64(n)) // fails only if the client has gone
}

// echo answers with the request as the app saw it: head, empty line, body.
func (a app) echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEcho))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "%s %s %s\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Proto, r.Host)
	r.Header.Write(w)
	w.Write([]byte("\r\n"))
	w.Write(body)
}

// status answers with the status code of the path.
func (a app) status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.PathValue("code"))
	if err != nil || code < 200 || code > 599 {
		http.Error(w, "/status/NNN takes a status code from 200 to 599", http.StatusBadRequest)
		return
	}
	w.WriteHeader(code)
	if code != http.StatusNoContent && code != http.StatusNotModified {
		fmt.Fprintf(w, "%d %s, from %s\n", code, http.StatusText(code), a.name)
	}
}

// number reads a query parameter from 0 to most.
func number(r *http.Request, name string, otherwise, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("?%s= takes a number from 0 to %d", name, most)
	}
	return n, nil
}

// water flows without end.
type water struct{}

func (water) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '~'
	}
	return len(p), nil
}
