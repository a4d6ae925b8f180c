package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
)

// fakeView is a supervisor of two workers on two nodes and a farm of two servers.
type fakeView struct {
	config  *config.Config
	segment *segment.Segment
	workers []WorkerView
	servers []spec.ServerSlot
	started time.Time
	ready   bool
	limits  AdmissionView
	keys    CertificatesView
	reload  func() error // nil: succeeds
	reloads int
}

const fakeConfig = `
admin: {listen: "127.0.0.1:0"}
listeners: [{name: web, address: "127.0.0.1:8080"}]
farms:
  app:
    servers:
      - {url: "http://127.0.0.1:9001", node: 1}
      - {url: "http://127.0.0.1:9002", weight: 50}
`

func newFakeView(t *testing.T) *fakeView {
	t.Helper()
	shared, err := segment.Create(segment.Shape{Workers: 2, Loops: 2, Servers: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shared.Close() })
	v := &fakeView{
		config:  parse(t, fakeConfig),
		segment: shared,
		started: time.Now().Add(-time.Hour),
		ready:   true,
	}
	for i := range 2 {
		shared.Worker(i).Loops.Store(2)
		v.workers = append(v.workers, WorkerView{
			Index: i, PID: os.Getpid(), Node: i, State: "serving", CPUs: []int{2 * i, 2*i + 1},
			Loops: 2, Restarts: 3 * i, Started: v.started,
		})
	}
	for _, s := range v.config.Farms[0].Servers {
		slot, err := shared.Assign("app", s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if node, known := s.Node.Fixed(); known {
			shared.Home(slot).Settle(node)
		}
		v.servers = append(v.servers, spec.ServerSlot{Farm: "app", URL: s.URL, Slot: slot})
	}
	return v
}

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (v *fakeView) Config() *config.Config     { return v.config }
func (v *fakeView) Build() string              { return "1.2.3" }
func (v *fakeView) Started() time.Time         { return v.started }
func (v *fakeView) Ready() bool                { return v.ready }
func (v *fakeView) Workers() []WorkerView      { return v.workers }
func (v *fakeView) Servers() []spec.ServerSlot { return v.servers }
func (v *fakeView) Segment() *segment.Segment  { return v.segment }
func (v *fakeView) Generation() uint64         { return 7 }
func (v *fakeView) Admission() AdmissionView   { return v.limits }

func (v *fakeView) Certificates() CertificatesView { return v.keys }
func (v *fakeView) Reload() error {
	v.reloads++
	if v.reload == nil {
		return nil
	}
	return v.reload()
}

// request asks the pages without a network.
func request(v *fakeView, method, path string, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:9900"
	for i := 0; i < len(fields); i += 2 {
		if fields[i] == "Host" {
			r.Host = fields[i+1]
			continue
		}
		r.Header.Set(fields[i], fields[i+1])
	}
	w := httptest.NewRecorder()
	handler(v, newSampler(v)).ServeHTTP(w, r)
	return w
}

var errFaults = errors.New("sluice.yaml:3: farms: no farm\nsluice.yaml:9: limits.head: too small")

func TestPages(t *testing.T) {
	dead := func(v *fakeView) { v.ready = false; v.workers[1].State = "restarting" }
	behind := func(v *fakeView) { v.ready = false }
	faulty := func(v *fakeView) { v.reload = func() error { return errFaults } }
	pprof := func(v *fakeView) { v.config.Admin.Pprof = true }
	none := func(*fakeView) {}
	for _, c := range []struct {
		given        func(*fakeView)
		method, path string
		status       int
		body         string // part of it
	}{
		{none, "GET", "/", 200, "POST /reload"},
		{none, "GET", "/nothing", 404, ""},
		{none, "GET", "/healthz", 200, "ok\n"},
		{dead, "GET", "/healthz", 200, "ok\n"},
		{none, "GET", "/readyz", 200, "ready\n"},
		{dead, "GET", "/readyz", 503, "node 1) is restarting\n"},
		{behind, "GET", "/readyz", 503, "have not all taken the configuration"},
		{none, "GET", "/status", 200, `"version": "1.2.3"`},
		{none, "GET", "/metrics", 200, "sluice_ready 1\n"},
		{none, "GET", "/nodes", 200, `"utilisation": `},
		{none, "GET", "/limits", 200, `"servers": []`},
		{none, "GET", "/limits?farm=none", 404, "There is no farm"},
		{none, "POST", "/limits", 405, ""},
		{none, "GET", "/config", 200, "first_byte: 30s"},
		{none, "POST", "/reload", 200, "reloaded: generation 7\n"},
		{faulty, "POST", "/reload", 409, errFaults.Error() + "\n"},
		{none, "GET", "/reload", 405, ""},
		{none, "POST", "/status", 405, ""},
		{none, "DELETE", "/", 405, ""},
		{none, "PUT", "/config", 405, ""},
		{none, "GET", "/debug/pprof/", 404, "admin: {pprof: true}"},
		{pprof, "GET", "/debug/pprof/", 200, "goroutine"},
		{pprof, "GET", "/debug/pprof/cmdline", 200, ""},
	} {
		v := newFakeView(t)
		c.given(v)
		got := request(v, c.method, c.path)
		if got.Code != c.status || !strings.Contains(got.Body.String(), c.body) {
			t.Errorf("%s %s: %d %q, want %d and %q", c.method, c.path, got.Code, got.Body, c.status, c.body)
		}
		if c.status == 405 && got.Header().Get("Allow") == "" {
			t.Errorf("%s %s: 405 without Allow (RFC 9110 section 15.5.6)", c.method, c.path)
		}
	}
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	v := newFakeView(t)
	server := httptest.NewServer(handler(v, newSampler(v)))
	defer server.Close()
	for _, path := range []string{"/", "/status", "/nodes", "/limits", "/metrics", "/healthz", "/readyz", "/config"} {
		got, err := http.Head(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode != 200 {
			t.Errorf("HEAD %s: %d", path, got.StatusCode)
		}
	}
}
