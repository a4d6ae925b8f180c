package tlsterm

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/testkit"
)

func TestFacts(t *testing.T) {
	root := testkit.NewAuthority(t, "the root")
	keys := keysOf(root.Issue(testkit.Wish{Names: []string{"a.example"}}))
	keys.Listeners[0].ClientCA = string(root.PEM())
	keys.Tickets = ticketKeys("k")
	server := newOne(t, listenerOf(t, func(l *config.Listener) { l.TLS.ClientAuth.Mode = "request" }), keys).Config()
	evil := root.Issue(testkit.Wish{Subject: "ann, of\r\nX-Admin: yes é"})
	certificate := []tls.Certificate{{Certificate: [][]byte{evil.Leaf.Raw}, PrivateKey: evil.Private}}
	sessions := tls.NewLRUClientSessionCache(2)
	for _, test := range []struct {
		client *tls.Config
		want   string
	}{
		{&tls.Config{ServerName: "A.Example", NextProtos: []string{"h2"}}, "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519MLKEM768 a.example h2 false"},
		{&tls.Config{MaxVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.CurveP256}, ServerName: "b.example", ClientSessionCache: sessions},
			"TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 P-256 b.example - false"},
		{&tls.Config{MaxVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.CurveP256}, ServerName: "b.example", ClientSessionCache: sessions},
			"TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 P-256 b.example - true"},
		{&tls.Config{}, "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519MLKEM768 - - false"},
	} {
		test.client.InsecureSkipVerify = true
		state, _, err := shake(t, server, test.client)
		if err != nil {
			t.Fatal(err)
		}
		f := FactsOf(&state)
		words := []string{f.Version(), f.Cipher(), f.Curve(), f.ServerName(), f.Protocol(), map[bool]string{false: "false", true: "true"}[f.Resumed()]}
		for i := range words {
			if words[i] == "" {
				words[i] = "-"
			}
		}
		if got := strings.Join(words, " "); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
		if f.Client() != nil {
			t.Error("a client that showed nothing has a certificate")
		}
	}
	state, _, err := shake(t, server, &tls.Config{InsecureSkipVerify: true, Certificates: certificate})
	if err != nil {
		t.Fatal(err)
	}
	c := FactsOf(&state).Client()
	sum := sha256.Sum256(evil.Leaf.Raw)
	for _, check := range []struct{ got, want string }{
		{c.Subject(), `CN=ann\, of\0D\0AX-Admin: yes \C3\A9`},
		{c.Issuer(), "CN=the root"},
		{c.Serial(), "3"},
		{c.Fingerprint(), hex.EncodeToString(sum[:])},
	} {
		if check.got != check.want {
			t.Errorf("%q, want %q", check.got, check.want)
		}
	}
	block, _ := pem.Decode([]byte(c.PEM()))
	der, err := base64.StdEncoding.DecodeString(c.Base64())
	if err != nil || block == nil || !bytes.Equal(block.Bytes, evil.Leaf.Raw) || !bytes.Equal(der, evil.Leaf.Raw) || !bytes.Equal(c.DER(), evil.Leaf.Raw) {
		t.Errorf("%s\n%s", c.PEM(), c.Base64())
	}
	if c.Subject() != c.Subject() || FactsOf(&state).Client().Base64() != c.Base64() {
		t.Error("a fact changes")
	}
}
