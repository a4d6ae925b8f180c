package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"

	"sluice/internal/segment"
)

// index is what a person sees who opens the address without a path.
const index = `Sluice %s

  GET  /status   processes, nodes, listeners, farms and servers, as JSON
  GET  /nodes    traffic and memory by NUMA node, as JSON
  GET  /limits   the limit of each server with its last moves, as JSON; ?farm=NAME, ?decisions=N
  GET  /metrics  for Prometheus
  GET  /healthz  200 while the supervisor lives
  GET  /readyz   200 while every worker serves, else 503
  GET  /config   the configuration in force, with all defaults, as YAML
  POST /reload   read the configuration file again: 200, or 409 and its faults
`

// handler answers every page. A method that a page does not have gives 405 with
// Allow (RFC 9110 section 15.5.6).
func handler(view View, samples *sampler) http.Handler {
	p := pages{view: view, samples: samples}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.index)
	mux.HandleFunc("GET /healthz", p.healthz)
	mux.HandleFunc("GET /readyz", p.readyz)
	mux.HandleFunc("GET /status", p.status)
	mux.HandleFunc("GET /nodes", p.nodes)
	mux.HandleFunc("GET /limits", p.limits)
	mux.Handle("GET /metrics", metricsHandler(view))
	mux.HandleFunc("GET /config", p.config)
	mux.HandleFunc("POST /reload", p.reload)
	mux.Handle("GET /debug/pprof/", p.ifAsked(pprof.Index))
	mux.Handle("GET /debug/pprof/cmdline", p.ifAsked(pprof.Cmdline))
	mux.Handle("GET /debug/pprof/profile", p.ifAsked(pprof.Profile))
	mux.Handle("GET /debug/pprof/symbol", p.ifAsked(pprof.Symbol))
	mux.Handle("GET /debug/pprof/trace", p.ifAsked(pprof.Trace))
	return guard(view, mux)
}

// pages answers the small pages. It is immutable.
type pages struct {
	view    View
	samples *sampler
}

func (p pages) index(w http.ResponseWriter, _ *http.Request) {
	text(w, http.StatusOK, fmt.Sprintf(index, p.view.Build()))
}

// healthz says that the supervisor lives; it answers, so it does.
func (p pages) healthz(w http.ResponseWriter, _ *http.Request) {
	text(w, http.StatusOK, "ok\n")
}

// readyz is for whoever sends traffic: not before every worker takes it.
func (p pages) readyz(w http.ResponseWriter, _ *http.Request) {
	if p.view.Ready() {
		text(w, http.StatusOK, "ready\n")
		return
	}
	w.Header().Set("Retry-After", "1")
	text(w, http.StatusServiceUnavailable, notReady(p.view.Workers()))
}

// notReady is the reason why not, one line for each worker that does not serve.
func notReady(workers []WorkerView) string {
	var b strings.Builder
	for _, w := range workers {
		if w.State != segment.Serving.String() {
			fmt.Fprintf(&b, "not ready: worker %d (pid %d, node %d) is %s\n", w.Index, w.PID, w.Node, w.State)
		}
	}
	if b.Len() == 0 {
		return "not ready: the workers have not all taken the configuration yet\n"
	}
	return b.String()
}

func (p pages) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(newStatus(p.view, p.samples)) // fails only if the client has gone
}

func (p pages) config(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml") // RFC 9512
	p.view.Config().Print(w)                           // fails only if the client has gone
}

// reload answers when every worker has the new configuration, or all keep the old.
func (p pages) reload(w http.ResponseWriter, _ *http.Request) {
	if err := p.view.Reload(); err != nil {
		text(w, http.StatusConflict, strings.TrimRight(err.Error(), "\n")+"\n")
		return
	}
	text(w, http.StatusOK, fmt.Sprintf("reloaded: generation %d\n", p.view.Generation()))
}

// ifAsked hides a page of pprof unless admin.pprof is true now.
func (p pages) ifAsked(page http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.view.Config().Admin.Pprof {
			text(w, http.StatusNotFound, "Profiles are off. Set admin: {pprof: true} and reload.\n")
			return
		}
		page(w, r)
	})
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	w.Write([]byte(body)) // fails only if the client has gone
}
