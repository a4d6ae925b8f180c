package authority

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"sluice/internal/testkit"
	"sluice/internal/tlsterm/keyring"
)

// A responder's answers over some hours: what is asked when, and what is shown.
func TestStapler(t *testing.T) {
	root := testkit.NewAuthority(t, "root")
	var (
		asked  int
		answer func(w http.ResponseWriter)
	)
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		body, _ := io.ReadAll(r.Body)
		if q, err := ocsp.ParseRequest(body); err != nil || q.SerialNumber.Int64() != 2 || r.Header.Get("Content-Type") != "application/ocsp-request" {
			t.Errorf("asked %s: %v, %v", r.Header, q, err)
		}
		answer(w)
	}))
	defer responder.Close()
	issued := root.Issue(testkit.Wish{Names: []string{"a.example"}, Responder: responder.URL})
	silent := root.Issue(testkit.Wish{Names: []string{"b.example"}})
	certs := []keyring.Cert{
		{File: "a.pem", Leaf: issued.Leaf, Issuer: root.Cert(), Ask: true},
		{File: "b.pem", Leaf: silent.Leaf, Issuer: root.Cert()},
		{File: "c.pem", Leaf: silent.Leaf, Ask: true}, // nobody knows its issuer
	}
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	good := func(from, until int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.Write(root.Word(issued, ocsp.Good, at(from), at(until))) }
	}
	says := func(text string, code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.WriteHeader(code); io.WriteString(w, text) }
	}
	other := testkit.NewAuthority(t, "other")
	var s Stapler
	for _, step := range []struct {
		minute  int
		answer  func(http.ResponseWriter)
		asked   int // since the beginning
		changed bool
		until   int // of what is shown, minutes; -1: nothing is
	}{
		{0, says("busy", 503), 1, false, -1},
		{0, nil, 1, false, -1},
		{1, says("no OCSP", 200), 2, false, -1},
		{2, nil, 2, false, -1}, // two minutes' pause now
		{3, func(w http.ResponseWriter) { w.Write(other.Word(issued, ocsp.Good, at(0), at(60))) }, 3, false, -1}, // not its authority
		{7, good(0, 60), 4, true, 60},
		{29, nil, 4, false, 60},
		{30, func(w http.ResponseWriter) { w.Write(root.Word(issued, ocsp.Revoked, at(0), at(60))) }, 5, false, 60},
		{31, says(string(make([]byte, maxAnswer+1)), 200), 6, false, 60},
		{33, good(30, 90), 7, true, 90},
		{59, nil, 7, false, 90},
		{60, good(30, 90), 8, true, 90}, // the same once more; half of it is over already
		{60, nil, 8, false, 90},
		{61, good(61, 121), 9, true, 121},
	} {
		answer = step.answer
		staples, changed := s.Look(t.Context(), at(step.minute), certs)
		until := -1
		if one := staples[FingerprintOf(certs[0])]; one != nil {
			until = int(one.Until.Sub(start).Minutes())
		}
		if asked != step.asked || changed != step.changed || until != step.until || len(staples) > 1 {
			t.Errorf("minute %d: asked %d, changed %v, until %d; want %d, %v, %d", step.minute, asked, changed, until, step.asked, step.changed, step.until)
		}
	}
	// A certificate that has gone is forgotten.
	if staples, changed := s.Look(t.Context(), at(62), certs[1:]); !changed || len(staples) != 0 || asked != 9 {
		t.Errorf("%v, %v, asked %d", staples, changed, asked)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if s.Look(over, at(63), certs); asked != 9 {
		t.Error("asked after the end")
	}
}

// A responder that is out of order is asked about one of its certificates at each look, and
// not about all.
func TestSilentResponder(t *testing.T) {
	root := testkit.NewAuthority(t, "root")
	asked := 0
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer responder.Close()
	var certs []keyring.Cert
	for range 10 {
		leaf := root.Issue(testkit.Wish{Names: []string{"a.example"}, Responder: responder.URL}).Leaf
		certs = append(certs, keyring.Cert{Leaf: leaf, Issuer: root.Cert(), Ask: true})
	}
	var s Stapler
	start := time.Now()
	for look, want := range []int{1, 1, 2} { // a minute later the next is asked about; the first waits for two
		at := start.Add(time.Duration(look) * firstPause / 2 * time.Duration(look))
		if s.Look(t.Context(), at, certs); asked != want {
			t.Errorf("look %d: asked %d times, want %d", look, asked, want)
		}
	}
}
