package keyring

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"sluice/internal/testkit"
)

// A file with the word of an authority, and what may be wrong with it.
func TestStapleFiles(t *testing.T) {
	dir := t.TempDir()
	root, other := testkit.NewAuthority(t, "root"), testkit.NewAuthority(t, "other")
	now := time.Now().Truncate(time.Second)
	issued := root.Issue(testkit.Wish{Names: []string{"a.example"}, Responder: "http://127.0.0.1:1", To: now.Add(1000 * time.Hour)})
	testkit.WriteFile(t, dir, "a.pem", append(issued.Both(), root.PEM()...))
	testkit.WriteFile(t, dir, "alone.pem", issued.Both())
	for name, der := range map[string][]byte{
		"good":    root.Word(issued, ocsp.Good, now, now.Add(time.Hour)),
		"old":     root.Word(issued, ocsp.Good, now.Add(-2*time.Hour), now.Add(-time.Hour)),
		"revoked": root.Word(issued, ocsp.Revoked, now, now.Add(time.Hour)),
		"unknown": root.Word(issued, ocsp.Unknown, now, now.Add(time.Hour)),
		"forged":  other.Word(issued, ocsp.Good, now, now.Add(time.Hour)),
		"endless": root.Word(issued, ocsp.Good, now, time.Time{}),
		"text":    []byte("good"),
	} {
		testkit.WriteFile(t, dir, name, der)
	}
	for _, test := range []struct{ cert, ocsp, fault, doubt string }{
		{"a.pem", "$/good", "", ""},
		{"a.pem", "off", "", ""},
		{"a.pem", "auto", "", ""},
		{"alone.pem", "auto", "", "its authority cannot be asked whether it is good"},
		{"alone.pem", "off", "", ""},
		{"alone.pem", "$/good", "the certificate of the authority is not in the file of the certificate", ""},
		{"a.pem", "$/old", "", "the word of its authority (ocsp) was good until"},
		{"a.pem", "$/revoked", "the authority says that the certificate is revoked", ""},
		{"a.pem", "$/unknown", "the authority does not know the certificate", ""},
		{"a.pem", "$/endless", "the response does not say how long it is good", ""},
		{"a.pem", "$/forged", "not a response of its authority (OCSP): ", ""},
		{"a.pem", "$/text", "not a response of its authority (OCSP): ", ""},
		{"a.pem", "$/none", "cannot be read", ""},
	} {
		ring, err := Read(configure(t, dir, fmt.Sprintf(`[{address: ":1", tls: {certificates: [{cert: $/%s, ocsp: %q}]}}]`, test.cert, test.ocsp)))
		if test.fault != "" {
			if err == nil || !strings.Contains(err.Error(), test.fault) || !strings.HasPrefix(err.Error(), "listeners[0].tls.certificates[0].ocsp: ") {
				t.Errorf("%s, %s: %v, want %q", test.cert, test.ocsp, err, test.fault)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s, %s: %v", test.cert, test.ocsp, err)
			continue
		}
		c := ring.Certs[0]
		if fromFile := strings.HasPrefix(test.ocsp, "$"); fromFile != (c.Staple != nil) || c.Ask != (test.ocsp == "auto") {
			t.Errorf("%s, %s: %+v", test.cert, test.ocsp, c)
		}
		doubts := ""
		for _, d := range ring.Doubts(now) {
			doubts += d.Error()
		}
		if !strings.Contains(doubts, test.doubt) || (doubts == "") != (test.doubt == "") {
			t.Errorf("%s, %s: %s, want %q", test.cert, test.ocsp, doubts, test.doubt)
		}
	}
	staple, err := ParseStaple(root.Word(issued, ocsp.Good, now, now.Add(time.Hour)), issued.Leaf, root.Cert())
	if err != nil || !staple.From.Equal(now) || !staple.Until.Equal(now.Add(time.Hour)) || !bytes.Contains(staple.DER, []byte{0x30}) {
		t.Errorf("%+v, %v", staple, err)
	}
}
