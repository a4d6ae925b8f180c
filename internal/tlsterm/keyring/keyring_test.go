package keyring

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/testkit"
)

// configure parses a configuration whose files are in dir, below $.
func configure(t *testing.T, dir, listeners string) *config.Config {
	t.Helper()
	text := "listeners: " + strings.ReplaceAll(listeners, "$", dir) + "\nfarms: {app: {servers: [{url: \"http://a:1\"}]}}\n"
	cfg, err := config.Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	root, ours := testkit.NewAuthority(t, "root"), testkit.NewAuthority(t, "ours")
	one, two := root.Issue(testkit.Wish{Names: []string{"one.example", "127.0.0.1"}}), root.Issue(testkit.Wish{Names: []string{"two.example"}, RSA: true})
	testkit.WriteFile(t, dir, "one.crt", append(append([]byte("# issued for one\n"), one.Chain...), root.PEM()...))
	testkit.WriteFile(t, dir, "one.key", one.Key)
	testkit.WriteFile(t, dir, "two.pem", append(two.Key, two.Chain...)) // the key first, all in one
	testkit.WriteFile(t, dir, "ca.pem", ours.PEM())
	cfg := configure(t, dir, `
- {address: ":1", tls: {certificates: [{cert: $/one.crt, key: $/one.key}, $/two.pem]}}
- {address: ":2"}
- {address: ":3", tls: {certificates: [$/two.pem], client_auth: {mode: request, ca: $/ca.pem}}}`)
	ring, err := Read(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := &spec.Keys{
		Certificates: []spec.Certificate{
			{Chain: string(one.Chain) + string(root.PEM()), Key: string(one.Key)}, {Chain: string(two.Chain), Key: string(two.Key)},
		},
		Listeners: []spec.ListenerKeys{{Certificates: []int{0, 1}}, {}, {Certificates: []int{1}, ClientCA: string(ours.PEM())}},
	}
	if !reflect.DeepEqual(ring.Keys, want) {
		t.Errorf("got %+v\nwant %+v", ring.Keys, want)
	}
	if len(ring.Certs) != 2 || ring.Certs[1].Path != "listeners[0].tls.certificates[1]" || !slices.Equal(ring.Certs[0].Names(), []string{"127.0.0.1", "one.example"}) {
		t.Errorf("%+v", ring.Certs)
	}
	if ring, err := Read(configure(t, dir, `[{address: ":1"}]`)); err != nil || ring.Keys != nil {
		t.Errorf("without TLS: %+v, %v", ring, err)
	}
}

// Every file that is not what it should be, with what is told of it.
func TestFaultyFiles(t *testing.T) {
	dir := t.TempDir()
	root := testkit.NewAuthority(t, "root")
	good, other := root.Issue(testkit.Wish{Names: []string{"a.example"}}), root.Issue(testkit.Wish{Names: []string{"b.example"}})
	legacy, err := x509.EncryptPEMBlock(zeros{}, "EC PRIVATE KEY", []byte("key"), []byte("secret"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"a.crt": good.Chain, "a.key": good.Key, "b.key": other.Key,
		"turned.crt":   append(bytes.Clone(root.PEM()), good.Chain...),
		"empty":        nil,
		"text":         []byte("hello\n"),
		"der":          good.Leaf.Raw,
		"broken.crt":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Leaf.Raw[:100]}),
		"broken.key":   pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("key")}),
		"secret.key":   pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("key")}),
		"legacy.key":   pem.EncodeToMemory(legacy),
		"large":        bytes.Repeat([]byte("x"), maxFileBytes+1),
		"request.pem":  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("please")}),
		"combined.pem": good.Both(),
	} {
		testkit.WriteFile(t, dir, name, content)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ cert, key, want string }{
		{"a.crt", "a.key", ""},
		{"a.crt", "pipe", `key: "$/pipe": neither a file nor a link to one; name a file that Sluice may read again and again`},
		{"combined.pem", "combined.pem", ""},
		{"none.crt", "a.key", `cert: "$/none.crt": cannot be read: no such file or directory; name a file that Sluice may read`},
		{"a.crt", "dir", `key: "$/dir": cannot be read: is a directory; name a file that Sluice may read`},
		{"a.key", "a.key", `cert: "$/a.key": holds a private key, and no certificate; name a file with "-----BEGIN CERTIFICATE-----"`},
		{"a.crt", "a.crt", `key: "$/a.crt": holds no private key; name a file with "-----BEGIN PRIVATE KEY-----"`},
		{"empty", "a.key", `cert: "$/empty": holds no certificate in PEM; name a file with "-----BEGIN CERTIFICATE-----"`},
		{"der", "a.key", `cert: "$/der": holds no certificate in PEM; name a file with "-----BEGIN CERTIFICATE-----"`},
		{"request.pem", "a.key", `cert: "$/request.pem": holds no certificate in PEM; name a file with "-----BEGIN CERTIFICATE-----"`},
		{"a.crt", "text", `key: "$/text": holds no private key in PEM; name a file with "-----BEGIN PRIVATE KEY-----"`},
		{"a.crt", "b.key", `key: "$/b.key": the key does not belong to the certificate; name the key that the certificate was asked for with`},
		{"turned.crt", "a.key", `key: "$/a.key": the key belongs to certificate 2 of the other file, not to its first; put the certificate of the site first, then those that sign it`},
		{"broken.crt", "a.key", `cert: "$/broken.crt": certificate 1 cannot be understood: x509: malformed certificate; ask for a new one`},
		{"a.crt", "broken.key", `key: "$/broken.key": failed to parse private key; use an RSA, ECDSA or Ed25519 key`},
		{"a.crt", "secret.key", `key: "$/secret.key": the key is kept under a passphrase, which nobody could type in; write it without: openssl pkey -in OLD -out NEW`},
		{"a.crt", "legacy.key", `key: "$/legacy.key": the key is kept under a passphrase, which nobody could type in; write it without: openssl pkey -in OLD -out NEW`},
		{"large", "a.key", `cert: "$/large": larger than 1 MiB; name a file in PEM`},
	} {
		_, err := Read(configure(t, dir, `[{address: ":1", tls: {certificates: [{cert: "$/`+test.cert+`", key: "$/`+test.key+`"}]}}]`))
		want := ""
		if test.want != "" {
			want = "listeners[0].tls.certificates[0]." + strings.ReplaceAll(test.want, "$", dir)
		}
		if got := text(err); got != want {
			t.Errorf("%s, %s:\n%s\nwant\n%s", test.cert, test.key, got, want)
		}
	}
	// All at once, each once.
	_, err = Read(configure(t, dir, `
- {address: ":1", tls: {certificates: [{cert: $/none, key: $/text}, $/combined.pem], client_auth: {mode: require, ca: $/text}}}
- {address: ":2", tls: {certificates: [{cert: $/none, key: $/text}]}}`))
	if faults, ok := err.(config.Faults); !ok || len(faults) != 3 || faults[2].Path != "listeners[0].tls.client_auth.ca" {
		t.Errorf("%v", err)
	}
}

// zeros is a source of randomness that is none: what it makes is never opened.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestDoubts(t *testing.T) {
	root := testkit.NewAuthority(t, "root")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := 24 * time.Hour
	for _, test := range []struct {
		names    []string
		from, to time.Duration // from now
		want     string
		grave    bool
	}{
		{[]string{"a.example"}, -day, soon, "", false},
		{[]string{"127.0.0.1"}, 0, 90 * day, "", false},
		{[]string{"a.example"}, -day, soon - time.Second, "expires soon, on 15 March 2026, 11:59 UTC; ask for a new one", false},
		{[]string{"a.example"}, -day, time.Second, "expires soon, on 1 March 2026, 12:00 UTC; ask for a new one", false},
		{[]string{"a.example"}, -day, 0, "has expired on 1 March 2026, 12:00 UTC; ask for a new one", true},
		{[]string{"a.example"}, time.Second, 90 * day, "is not valid before 1 March 2026, 12:00 UTC; look at the clock of this machine", true},
		{nil, -day, 90 * day, "names no host (subject alternative names, RFC 9525 2): clients take it for none; ask for a new one", false},
	} {
		leaf := root.Issue(testkit.Wish{Names: test.names, From: now.Add(test.from), To: now.Add(test.to)}).Leaf
		ring := &Ring{Certs: []Cert{{Path: "p", File: "f", Leaf: leaf}}}
		got, grave := "", false
		for _, d := range ring.Doubts(now) {
			got, grave = got+d.Error(), d.Grave
		}
		want := test.want
		if want != "" {
			want = `p: "f": ` + want
		}
		if got != want || grave != test.grave {
			t.Errorf("%v to %v: %q, grave %v; want %q", test.from, test.to, got, grave, want)
		}
	}
}

func TestUncovered(t *testing.T) {
	dir := t.TempDir()
	root := testkit.NewAuthority(t, "root")
	testkit.WriteFile(t, dir, "a.pem", root.Issue(testkit.Wish{Names: []string{"a.example", "192.0.2.1"}}).Both())
	testkit.WriteFile(t, dir, "b.pem", root.Issue(testkit.Wish{Names: []string{"*.b.example"}}).Both())
	const routes = "\nroutes: [{host: A.example, farm: app}, {host: www.b.example, farm: app}, {host: '*.b.example', farm: app}, {host: 192.0.2.1, farm: app}, " +
		"{host: b.example, farm: app}, {host: '*.a.example', farm: app}, {host: '[::1]', farm: app}, {farm: app}]"
	for listeners, want := range map[string]string{
		`[{address: ":1", tls: {certificates: [$/a.pem]}}, {address: ":2", tls: {certificates: [$/b.pem]}}]`: "routes[4].host routes[5].host routes[6].host",
		`[{address: ":1"}]`: "",
	} {
		cfg := configure(t, dir, listeners+routes)
		ring, err := Read(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range ring.Uncovered(cfg) {
			got = append(got, d.Path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
}

// A key that everybody may read is used, and told.
func TestOpenKeys(t *testing.T) {
	dir := t.TempDir()
	issued := testkit.NewAuthority(t, "root").Issue(testkit.Wish{Names: []string{"a.example"}, To: time.Now().Add(100 * 24 * time.Hour)})
	file := testkit.WriteFile(t, dir, "a.pem", issued.Both())
	for mode, want := range map[os.FileMode]string{
		0o600: "", 0o640: "",
		0o644: "listeners[0].tls.certificates[0].key: \"" + file + "\": everybody on this machine may read it; chmod o-r " + file,
	} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		ring, err := Read(configure(t, dir, `[{address: ":1", tls: {certificates: [$/a.pem]}}]`))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, d := range ring.Doubts(time.Now()) {
			got += d.Error()
		}
		if got != want {
			t.Errorf("%o: %q, want %q", mode, got, want)
		}
	}
}

// Certificates that were asked for stand in the cache; all listeners with TLS have them.
// What is not good there is as if it were not there, and told.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	root := testkit.NewAuthority(t, "root")
	far := time.Now().Add(1000 * time.Hour)
	own, one := root.Issue(testkit.Wish{Names: []string{"own.example"}, To: far}), root.Issue(testkit.Wish{Names: []string{"one.example"}, To: far, Responder: "http://127.0.0.1:1"})
	testkit.WriteFile(t, dir, "own.pem", own.Both())
	testkit.WriteFile(t, dir, "one.example.pem", append(one.Both(), root.PEM()...))
	testkit.WriteFile(t, dir, "two.example.pem", []byte("not a certificate"))
	cfg := configure(t, dir, `
- {address: ":1", tls: {certificates: [$/own.pem]}}
- {address: ":2", tls: {}}
- {address: ":3"}
routes: [{host: three.example, farm: app}, {host: four.example, farm: app}]
tls: {acme: {names: [one.example, two.example, three.example], cache: $}}`)
	ring, err := Read(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if l := ring.Keys.Listeners; !slices.Equal(l[0].Certificates, []int{1, 0}) || !slices.Equal(l[1].Certificates, []int{0}) || l[2].Certificates != nil {
		t.Errorf("%+v", l)
	}
	if c := ring.Certs[0]; len(ring.Certs) != 2 || c.Asked != "one.example" || !c.Ask || c.Issuer == nil || ring.Certs[1].Asked != "" {
		t.Errorf("%+v", ring.Certs)
	}
	doubts := ring.Doubts(time.Now())
	if len(doubts) != 2 || doubts[0].Path != "tls.acme.names[1].cert" {
		t.Errorf("%+v", doubts)
	}
	if doubts := ring.Uncovered(cfg); len(doubts) != 1 || doubts[0].Path != "routes[1].host" {
		t.Errorf("%+v", doubts)
	}
	var w Watcher
	w.Changed(ring)
	testkit.WriteFile(t, dir, "three.example.pem", root.Issue(testkit.Wish{Names: []string{"three.example"}}).Both())
	w.Changed(ring)
	if !w.Changed(ring) {
		t.Error("a certificate that has come is not seen")
	}
	cfg.TLS.ACME.CA = filepath.Join(dir, "none")
	if _, err := Read(cfg); err == nil || !strings.HasPrefix(err.Error(), "tls.acme.ca: ") {
		t.Errorf("%v", err)
	}
}

// When a certificate counts as one that ends soon.
func TestEndsSoon(t *testing.T) {
	root := testkit.NewAuthority(t, "root")
	now, day := time.Now(), 24*time.Hour
	for name, test := range map[string]struct {
		asked    string
		from, to time.Duration // from now, in days
		want     bool
	}{
		"a file, three weeks":      {"", -70, 21, false},
		"a file, 15 days":          {"", -70, 15, false},
		"a file, 13 days":          {"", -70, 13, true},
		"a file of six days":       {"", -1, 5, true},
		"asked for, 13 of 90 days": {"a.test", -77, 13, true},
		"asked for, 2 of 6 days":   {"a.test", -4, 2, false},
		"asked for, 1 of 6 days":   {"a.test", -5, 1, true},
		"over":                     {"a.test", -90, -1, true},
	} {
		leaf := root.Issue(testkit.Wish{Names: []string{"a.test"}, From: now.Add(test.from * day), To: now.Add(test.to * day)}).Leaf
		if got := (Cert{Leaf: leaf, Asked: test.asked}).EndsSoon(now); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
