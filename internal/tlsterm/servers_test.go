package tlsterm

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/testkit"
)

// farmsOf are three farms: plain, over TLS without a wish, and with this one.
func farmsOf(wish *config.FarmTLS) *config.Config {
	third := config.NewFarm("third", "http://a", "https://a")
	third.TLS, third.Protocol = wish, config.ProtocolAuto
	return &config.Config{Farms: config.Farms{config.NewFarm("plain", "http://a"), config.NewFarm("system", "https://a"), third}}
}

func TestServers(t *testing.T) {
	a := testkit.NewAuthority(t, "test authority")
	own := a.Issue(testkit.Wish{Names: []string{"sluice.test"}})
	keys := &spec.Keys{
		Certificates: []spec.Certificate{{Chain: "unused", Key: "unused"}, {Chain: string(own.Chain), Key: string(own.Key)}},
		Farms:        []spec.FarmKeys{{}, {}, {Certificates: []int{1}, CA: string(a.PEM())}},
	}
	all, err := Servers(farmsOf(&config.FarmTLS{CA: "ca", Cert: "cert"}), keys)
	if err != nil {
		t.Fatal(err)
	}
	if all[0] != nil {
		t.Error("a farm without https has TLS")
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if c := all[1]; !c.RootCAs.Equal(system) || c.InsecureSkipVerify || c.MinVersion != tls.VersionTLS12 || len(c.Certificates) != 0 {
		t.Errorf("without a wish: %+v", c)
	}
	if c := all[2]; !c.RootCAs.Equal(a.Pool()) || len(c.Certificates) != 1 || !c.Certificates[0].Leaf.Equal(own.Leaf) || !slices.Equal(c.NextProtos, []string{"h2", "http/1.1"}) {
		t.Errorf("with an authority and a certificate: %+v", c)
	}
	all, err = Servers(farmsOf(&config.FarmTLS{Insecure: true}), nil)
	if err != nil || !all[2].InsecureSkipVerify || all[1].InsecureSkipVerify {
		t.Errorf("insecure: %+v, %v", all, err)
	}
}

func TestServersWithoutWhatTheyNeed(t *testing.T) {
	for _, tc := range []struct {
		name  string
		wish  config.FarmTLS
		keys  *spec.Keys
		words string
	}{
		{"no keys", config.FarmTLS{CA: "ca"}, nil, "have not come"},
		{"keys of another configuration", config.FarmTLS{Cert: "a"}, &spec.Keys{}, "have not come"},
		{"no authority", config.FarmTLS{CA: "ca"}, &spec.Keys{Farms: make([]spec.FarmKeys, 3)}, "tls.ca holds no certificate"},
		{"a certificate that is none", config.FarmTLS{}, &spec.Keys{Certificates: []spec.Certificate{{}}, Farms: []spec.FarmKeys{{}, {}, {Certificates: []int{0}}}}, "certificate 0"},
		{"an index beyond", config.FarmTLS{}, &spec.Keys{Farms: []spec.FarmKeys{{}, {}, {Certificates: []int{1}}}}, "certificate 1 of 0"},
		{"a pin that is none", config.FarmTLS{Pins: []string{"x"}}, nil, `tls.pins: "x"`},
	} {
		if _, err := Servers(farmsOf(&tc.wish), tc.keys); err == nil || !strings.Contains(err.Error(), "farm third: ") || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// A pin may stand for any key of a chain that was verified. Where none was, only for the
// server's own: it may show others' certificates.
func TestPins(t *testing.T) {
	a := testkit.NewAuthority(t, "test authority")
	leaf := a.Issue(testkit.Wish{Names: []string{"a.test"}}).Leaf
	pin := func(c *x509.Certificate) string {
		digest := sha256.Sum256(c.RawSubjectPublicKeyInfo)
		return "sha256/" + base64.StdEncoding.EncodeToString(digest[:])
	}
	const other = "sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	shown := []*x509.Certificate{leaf, a.Cert()}
	for _, tc := range []struct {
		name     string
		pins     []string
		verified bool
		want     bool
	}{
		{"its own", []string{other, pin(leaf)}, true, true},
		{"its authority's", []string{pin(a.Cert())}, true, true},
		{"another", []string{other}, true, false},
		{"its own, not verified", []string{pin(leaf)}, false, true},
		{"its authority's, not verified", []string{pin(a.Cert())}, false, false},
	} {
		p, err := parsePins(tc.pins)
		if err != nil {
			t.Fatal(err)
		}
		state := tls.ConnectionState{PeerCertificates: shown}
		if tc.verified {
			state.VerifiedChains = [][]*x509.Certificate{shown}
		}
		if err := p.check(state); (err == nil) != tc.want || err != nil && !strings.Contains(err.Error(), pin(leaf)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
