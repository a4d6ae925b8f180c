package authority

import (
	"context"
	"crypto"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/testkit"
	"sluice/internal/tlsterm/keyring"
)

// When a certificate is asked for: none is there, it is for another name, or two thirds of
// its life are over.
func TestDue(t *testing.T) {
	root := testkit.NewAuthority(t, "root")
	now := time.Now()
	day := 24 * time.Hour
	cert := func(name string, from, to time.Duration) keyring.Cert {
		leaf := root.Issue(testkit.Wish{Names: []string{name}, From: now.Add(from), To: now.Add(to)}).Leaf
		return keyring.Cert{Asked: "a.example", Leaf: leaf}
	}
	file := cert("a.example", -day, 89*day)
	file.Asked = ""
	for name, test := range map[string]struct {
		certs []keyring.Cert
		want  bool
	}{
		"none":                 {nil, true},
		"new":                  {[]keyring.Cert{cert("a.example", 0, 90*day)}, false},
		"two thirds":           {[]keyring.Cert{cert("a.example", -59*day, 31*day)}, false},
		"more":                 {[]keyring.Cert{cert("a.example", -61*day, 29*day)}, true},
		"expired":              {[]keyring.Cert{cert("a.example", -91*day, -day)}, true},
		"of six days":          {[]keyring.Cert{cert("a.example", -3*day, 3*day)}, false},
		"of six days, the end": {[]keyring.Cert{cert("a.example", -5*day, day)}, true},
		"another name's":       {[]keyring.Cert{cert("b.example", 0, 90*day)}, true},
		"a file of the same":   {[]keyring.Cert{file}, true},
	} {
		if got := due(now, "a.example", test.certs); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An authority that is out of order is asked after five minutes, then after twice as long
// each time, but at once when the configuration has changed.
func TestRetries(t *testing.T) {
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	dir := t.TempDir()
	a := &config.ACME{Names: []string{"a.example"}, Cache: filepath.Join(dir, "cache"), Directory: server.URL, CA: testkit.WriteFile(t, dir, "ca.pem", pemOf(server))}
	issuer := Issuer{
		Show: func(context.Context, spec.Challenge) error { t.Error("nothing is to be shown"); return nil },
		Hide: func(string) {},
	}
	start := time.Now()
	look := func(minute, want int) {
		t.Helper()
		issuer.Look(t.Context(), start.Add(time.Duration(minute)*time.Minute), a, nil)
		if asked != want {
			t.Errorf("minute %d: asked %d times, want %d", minute, asked, want)
		}
	}
	look(0, 1)
	look(4, 1)
	look(5, 2)
	look(14, 2)
	look(15, 3)
	look(34, 3)
	look(35, 4)
	if o := issuer.Orders(); o.Failed != 4 || o.Issued != 0 || len(o.All) != 1 || o.All[0].Name != "a.example" || o.All[0].Failed != 4 ||
		!strings.Contains(o.All[0].Error, "403") || !o.All[0].Next.Equal(start.Add(75*time.Minute)) {
		t.Errorf("told is %+v", o)
	}
	again := *a
	again.Email = "me@a.example"
	a = &again
	look(36, 5)
	copied := *a
	a = &copied // read again, and the same
	look(37, 5)
	leaf := testkit.NewAuthority(t, "root").Issue(testkit.Wish{Names: []string{"a.example"}, From: start, To: start.Add(90 * 24 * time.Hour)}).Leaf
	another := []keyring.Cert{{Asked: "a.example", Leaf: leaf}} // that another machine has got
	if told := issuer.Look(t.Context(), start.Add(38*time.Minute), a, another); !told || asked != 5 || issuer.Orders().All[0].Failed != 0 {
		t.Errorf("%v, asked %d times, told is %+v", told, asked, issuer.Orders())
	}
	if issuer.Look(t.Context(), start.Add(39*time.Minute), a, another) {
		t.Error("there is news when nothing has changed")
	}
}

// The key of the account is made once, and found again; what is no key is told.
func TestAccountKey(t *testing.T) {
	a := &config.ACME{Cache: filepath.Join(t.TempDir(), "new", "cache")}
	first, err := accountKey(a)
	if err != nil {
		t.Fatal(err)
	}
	again, err := accountKey(a)
	if err != nil || !first.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(again.Public()) {
		t.Errorf("%v", err)
	}
	file := filepath.Join(a.Cache, "account.key")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if files, err := os.ReadDir(a.Cache); err != nil || len(files) != 1 {
		t.Errorf("%v, %v: a draft was left", files, err)
	}
	testkit.WriteFile(t, a.Cache, "account.key", []byte("secret"))
	if _, err := accountKey(a); err == nil || !strings.Contains(err.Error(), "remove it for a new account") {
		t.Errorf("%v", err)
	}
}

func pemOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
