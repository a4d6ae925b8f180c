package keyring

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/testkit"
)

// configureFarms parses farms whose files are in dir, below $.
func configureFarms(t *testing.T, dir, farms string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("f", []byte(strings.ReplaceAll(farms, "$", dir)+"\nroutes: [{host: a.example, farm: a}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// What farms name for their servers is read like what listeners name. A certificate
// that is shown to servers need not name a host, and covers none for clients.
func TestFarms(t *testing.T) {
	dir := t.TempDir()
	root := testkit.NewAuthority(t, "root")
	own := root.Issue(testkit.Wish{Subject: "sluice", To: time.Now().Add(90 * 24 * time.Hour)})
	testkit.WriteFile(t, dir, "own.pem", own.Both())
	testkit.WriteFile(t, dir, "ca.pem", root.PEM())
	cfg := configureFarms(t, dir, `farms:
  a: {servers: [{url: "https://a"}], tls: {cert: $/own.pem}}
  b: {servers: [{url: "http://b"}]}
  c: {servers: [{url: "https://c"}], tls: {ca: $/ca.pem, cert: $/own.pem}}`)
	ring, err := Read(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := &spec.Keys{
		Certificates: []spec.Certificate{{Chain: string(own.Chain), Key: string(own.Key)}},
		Listeners:    []spec.ListenerKeys{{}},
		Farms:        []spec.FarmKeys{{Certificates: []int{0}}, {}, {Certificates: []int{0}, CA: string(root.PEM())}},
	}
	if !reflect.DeepEqual(ring.Keys, want) {
		t.Errorf("got %+v\nwant %+v", ring.Keys, want)
	}
	if doubts := append(ring.Doubts(time.Now()), ring.Uncovered(cfg)...); len(doubts) != 0 {
		t.Errorf("%v", doubts)
	}
	if doubts := ring.Doubts(time.Now().Add(91 * 24 * time.Hour)); len(doubts) != 1 || !strings.Contains(doubts[0].Error(), "farms.a.tls: ") || !strings.Contains(doubts[0].Error(), "expired") {
		t.Errorf("91 days later: %v", doubts)
	}
}

func TestFaultyFilesOfFarms(t *testing.T) {
	dir := t.TempDir()
	own := testkit.NewAuthority(t, "root").Issue(testkit.Wish{Subject: "sluice"})
	testkit.WriteFile(t, dir, "own.crt", own.Chain)
	testkit.WriteFile(t, dir, "own.key", own.Key)
	_, err := Read(configureFarms(t, dir, `farms:
  a: {servers: [{url: "https://a"}], tls: {ca: $/none, cert: $/own.crt}}
  b: {servers: [{url: "https://b"}], tls: {ca: $/own.key, cert: $/own.crt, key: $/own.key}}`))
	for _, words := range []string{"farms.a.tls.ca: ", "cannot be read", "farms.a.tls.key: ", "holds no private key", "farms.b.tls.ca: ", "and no certificate"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("want %q in\n%v", words, err)
		}
	}
}
