// Package tlsterm decides how TLS ends: which certificate a client gets, which
// versions, ciphers and key exchanges are on offer, which session tickets open.
//
// It runs in a worker, and touches nothing: no file, no clock of its own, no socket. What
// it needs has crossed from the supervisor (spec.Keys). A Terminator is immutable; new
// certificates make a new one, and connections that are open keep theirs.
package tlsterm

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/spec"
)

// Terminator is how TLS ends at one listener. It is immutable.
type Terminator struct {
	config     *tls.Config
	handshake  time.Duration
	handshakes int
}

// Maker makes terminators. A certificate that stays is parsed once, and held once in memory:
// connections that are open hold what they began with. One goroutine owns it; the zero
// value is ready.
type Maker struct {
	parsed map[content]*tls.Certificate // of the last that were made
}

// content is all of a certificate that crosses.
type content struct{ chain, key, staple string }

// New makes the terminators of a configuration, as its listeners; nil for one without
// TLS. Of the protocols that a listener allows clients are offered those that stand in
// serves, by their names in ALPN ("h2", "http/1.1"). An error says what the supervisor
// should have seen.
func (m *Maker) New(cfg *config.Config, keys *spec.Keys, serves ...string) ([]*Terminator, error) {
	all := make([]*Terminator, len(cfg.Listeners))
	var pairs []*tls.Certificate
	parsed := map[content]*tls.Certificate{}
	if keys != nil {
		var err error
		if pairs, err = m.pairs(keys.Certificates, parsed); err != nil {
			return nil, err
		}
	}
	for i, l := range cfg.Listeners {
		if l.TLS == nil {
			continue
		}
		if keys == nil || len(keys.Listeners) != len(cfg.Listeners) {
			return nil, fmt.Errorf("listener %s: its certificates have not come", l.Name)
		}
		var err error
		if all[i], err = newTerminator(&l, keys.Listeners[i], pairs, serves); err != nil {
			return nil, fmt.Errorf("listener %s: %w", l.Name, err)
		}
		if err := all[i].prove(keys.Challenges); err != nil {
			return nil, fmt.Errorf("listener %s: %w", l.Name, err)
		}
		all[i].seal(keys.Tickets, &l.TLS.ClientAuth, keys.Listeners[i].ClientCA)
	}
	m.parsed = parsed
	return all, nil
}

// parse makes a certificate of PEM.
func parse(c spec.Certificate) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(c.Chain), []byte(c.Key))
	pair.OCSPStaple = c.Staple
	return &pair, err
}

// pairs gives the certificates that have come, and notes them in parsed.
func (m *Maker) pairs(certificates []spec.Certificate, parsed map[content]*tls.Certificate) ([]*tls.Certificate, error) {
	var pairs []*tls.Certificate
	for i, c := range certificates {
		all := content{c.Chain, c.Key, string(c.Staple)}
		pair := m.parsed[all]
		if pair == nil {
			var err error
			if pair, err = parse(c); err != nil {
				return nil, fmt.Errorf("certificate %d: %w", i, err)
			}
		}
		parsed[all] = pair
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

func newTerminator(l *config.Listener, keys spec.ListenerKeys, pairs []*tls.Certificate, serves []string) (*Terminator, error) {
	var chosen []*tls.Certificate
	for _, i := range keys.Certificates {
		if i < 0 || i >= len(pairs) {
			return nil, fmt.Errorf("certificate %d of %d", i, len(pairs))
		}
		chosen = append(chosen, pairs[i])
	}
	c := &tls.Config{
		GetCertificate:   newShelf(chosen).choose,
		NextProtos:       protocols(l, serves),
		MinVersion:       versions[l.TLS.MinVersion],
		CipherSuites:     ciphers,
		CurvePreferences: curves(l.TLS.Curves),
		ClientAuth:       clientAuth[l.TLS.ClientAuth.Mode],
	}
	if c.ClientAuth != tls.NoClientCert {
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM([]byte(keys.ClientCA)) {
			return nil, fmt.Errorf("client_auth.ca holds no certificate")
		}
	}
	return &Terminator{config: c, handshake: time.Duration(l.TLS.Handshake), handshakes: l.TLS.Handshakes}, nil
}

// seal sets the keys of session tickets. A session says that its client has shown a good
// certificate: so listeners that ask for different ones have different keys, made of the
// same, and do not open each other's tickets.
func (t *Terminator) seal(tickets [][]byte, asked *config.ClientAuth, ca string) {
	var keys [][ticketKeyBytes]byte
	who := sha256.Sum256([]byte(asked.Mode + "\n" + ca))
	for _, ticket := range tickets {
		// It fails only for a key longer than 255 hashes.
		key, _ := hkdf.Key(sha256.New, ticket, who[:], "sluice session tickets of a listener", ticketKeyBytes)
		keys = append(keys, [ticketKeyBytes]byte(key))
	}
	if len(keys) > 0 {
		t.config.SetSessionTicketKeys(keys)
	}
}

// Proof is the protocol by which an authority looks whether a name is ours (RFC 8737).
// Nothing follows the handshake.
const Proof = "acme-tls/1"

// prove has an authority shown what it wants to see. A client that offers the protocol of
// that and no other is one.
func (t *Terminator) prove(challenges []spec.Challenge) error {
	proofs := map[string]*tls.Certificate{}
	for _, c := range challenges {
		if c.Path != "" {
			continue
		}
		pair, err := tls.X509KeyPair([]byte(c.Chain), []byte(c.Key))
		if err != nil {
			return fmt.Errorf("challenge for %s: %w", c.Name, err)
		}
		proofs[c.Name] = &pair
	}
	if len(proofs) == 0 {
		return nil
	}
	proof := &tls.Config{
		NextProtos: []string{Proof},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if pair := proofs[strings.ToLower(hello.ServerName)]; pair != nil {
				return pair, nil
			}
			return nil, fmt.Errorf("no challenge for %q", hello.ServerName)
		},
	}
	t.config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == Proof {
			return proof, nil
		}
		return nil, nil // the usual one
	}
	return nil
}

// ticketKeyBytes is the length of a key that crypto/tls takes for tickets.
const ticketKeyBytes = 32

// Config is for tls.Server. Nobody changes it. Its callbacks look nothing up outside of
// memory, and take no lock.
func (t *Terminator) Config() *tls.Config { return t.config }

// Handshake is how long a handshake may take.
func (t *Terminator) Handshake() time.Duration { return t.handshake }

// Handshakes is how many may be in progress at once at this listener of a worker; 0: any
// number.
func (t *Terminator) Handshakes() int { return t.handshakes }

// What words of the configuration mean to crypto/tls.
var (
	versions   = map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}
	clientAuth = map[string]tls.ClientAuthType{
		config.ClientAuthRequest: tls.VerifyClientCertIfGiven,
		config.ClientAuthRequire: tls.RequireAndVerifyClientCert,
	}
	curveIDs = map[string]tls.CurveID{
		"X25519MLKEM768": tls.X25519MLKEM768, "SecP256r1MLKEM768": tls.SecP256r1MLKEM768, "SecP384r1MLKEM1024": tls.SecP384r1MLKEM1024,
		"X25519": tls.X25519, "P-256": tls.CurveP256, "P-384": tls.CurveP384, "P-521": tls.CurveP521,
	}
	names = map[string]string{config.HTTP1: "http/1.1", config.HTTP2: "h2"}
)

// ciphers are those of TLS 1.2 that keep forward secrecy and seal what they encrypt
// (RFC 9325 4.2): none with CBC, as Go has by default. TLS 1.3 has no others.
var ciphers = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

func curves(words []string) []tls.CurveID {
	var ids []tls.CurveID
	for _, w := range words {
		ids = append(ids, curveIDs[w])
	}
	return ids
}

// protocols are what ALPN (RFC 7301) offers. HTTP/2 comes first, whatever the file's
// order: who can speak it should.
func protocols(l *config.Listener, serves []string) []string {
	if l.TCP != nil { // what clients speak inside is not known
		return nil
	}
	var offered []string
	for _, p := range []string{config.HTTP2, config.HTTP1} {
		if slices.Contains(l.Protocols, p) && slices.Contains(serves, names[p]) {
			offered = append(offered, names[p])
		}
	}
	return offered
}
