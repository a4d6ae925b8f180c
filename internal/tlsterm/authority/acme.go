package authority

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/crypto/acme"

	"sluice/internal/config"
	"sluice/internal/spec"
	"sluice/internal/tlsterm/keyring"
)

const (
	orderLimit = 3 * time.Minute // for one certificate, from the question to the file

	// An authority takes some five failures an hour for a name (Let's Encrypt); so the
	// second try comes after five minutes, and each later one after twice as long.
	firstRetry = 5 * time.Minute
	lastRetry  = 12 * time.Hour

	settling = 5 * time.Second // from the file to certs: it is read at the second look that finds it the same
)

// Issuer asks for the certificates of tls.acme, and again when two thirds of a
// certificate's life are over. It writes them into the cache. One goroutine owns it.
type Issuer struct {
	// Show has everybody who comes to prove a name shown what proves it, and returns when
	// that is so; Hide ends it.
	Show func(ctx context.Context, shown spec.Challenge) error
	Hide func(name string)

	of             *config.ACME // that tries belong to
	tries          map[string]*try
	issued, failed uint64
}

// try is what came of asking for one name.
type try struct {
	failed int       // in a row
	next   time.Time // not before
	err    error     // of the last; nil: it did not fail
}

// Orders are what came of asking. Immutable.
type Orders struct {
	All            []Order // of names that were asked for, by name
	Issued, Failed uint64  // times, since the start
}

// Order is what came of asking for one name.
type Order struct {
	Name   string
	Failed int       // times in a row
	Error  string    // of the last; empty: it did not fail
	Next   time.Time // the next time, not before
}

// Orders are what came of asking until now.
func (i *Issuer) Orders() Orders {
	o := Orders{Issued: i.issued, Failed: i.failed}
	for _, name := range slices.Sorted(maps.Keys(i.tries)) {
		t := i.tries[name]
		one := Order{Name: name, Failed: t.failed, Next: t.next}
		if t.err != nil {
			one.Error = t.err.Error()
		}
		o.All = append(o.All, one)
	}
	return o
}

// Look asks for what is missing among certs, or is to be renewed, one after the other. It
// takes orderLimit for each at most, and ends with ctx. asked says whether there was
// anything to ask for, or what came of earlier questions matters no more.
func (i *Issuer) Look(ctx context.Context, now time.Time, a *config.ACME, certs []keyring.Cert) (asked bool) {
	if i.of == nil || !same(i.of, a) {
		i.of, i.tries, asked = a, map[string]*try{}, true // what was wrong may be mended
	}
	for _, name := range a.Names {
		t := i.tries[name]
		if t == nil {
			t = &try{}
			i.tries[name] = t
		}
		if !due(now, name, certs) {
			if t.failed > 0 { // another machine that shares the cache has got one
				*t, asked = try{}, true
			}
			continue
		}
		if ctx.Err() != nil || now.Before(t.next) {
			continue
		}
		asked = true
		life, err := i.obtain(ctx, a, name)
		if t.err = err; err == nil {
			i.issued++
			t.failed, t.next = 0, now.Add(max(settling, min(firstRetry, life/3))) // by then it is in certs
			slog.Info("a certificate was issued", "name", name, "directory", a.Directory)
			continue
		}
		pause := min(firstRetry<<min(t.failed, 10), lastRetry)
		if wait, limited := acme.RateLimit(err); limited {
			pause = max(pause, wait)
		}
		i.failed++
		t.failed++
		t.next = now.Add(pause)
		slog.Error("no certificate was issued", "name", name, "directory", a.Directory, "again_in", pause, "error", err)
	}
	return asked
}

func same(a, b *config.ACME) bool {
	return a.Directory == b.Directory && a.Cache == b.Cache && a.Email == b.Email && a.CA == b.CA && a.Proof == b.Proof && slices.Equal(a.Names, b.Names)
}

// due says whether a certificate for a name should be asked for now.
func due(now time.Time, name string, certs []keyring.Cert) bool {
	for _, c := range certs {
		if c.Asked == name && c.Leaf.VerifyHostname(name) == nil {
			life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
			return now.After(c.Leaf.NotAfter.Add(-life / 3))
		}
	}
	return true
}

// obtain asks for one certificate and writes it into the cache; it tells how long it is
// good:
//
//  1. who we are: a key of ours, kept in the cache
//  2. an order for the name
//  3. the proof that it is ours
//  4. the certificate for a new key
func (i *Issuer) obtain(ctx context.Context, a *config.ACME, name string) (life time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	client, err := register(ctx, a)
	if err != nil {
		return 0, err
	}
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs(name))
	if err != nil {
		return 0, fmt.Errorf("order: %w", err)
	}
	for _, url := range order.AuthzURLs {
		if err := i.proveName(ctx, client, url, name, a.Proof); err != nil {
			return 0, fmt.Errorf("proof: %w", err)
		}
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil {
		return 0, fmt.Errorf("order: %w", err)
	}
	content, life, err := collect(ctx, client, order, name)
	if err != nil {
		return 0, fmt.Errorf("certificate: %w", err)
	}
	return life, writeFile(keyring.CacheFile(a, name), content)
}

// register makes us known to the authority.
func register(ctx context.Context, a *config.ACME) (*acme.Client, error) {
	key, err := accountKey(a)
	if err != nil {
		return nil, fmt.Errorf("key of the account: %w", err)
	}
	client := &acme.Client{Key: key, DirectoryURL: a.Directory, UserAgent: "sluice"}
	if client.HTTPClient, err = httpClient(a.CA); err != nil {
		return nil, err
	}
	account := &acme.Account{}
	if a.Email != "" {
		account.Contact = []string{"mailto:" + a.Email}
	}
	if _, err := client.Register(ctx, account, acme.AcceptTOS); err != nil && !errors.Is(err, acme.ErrAccountAlreadyExists) {
		return nil, fmt.Errorf("account: %w", err)
	}
	return client, nil
}

// httpClient trusts the authorities of this machine, or those in a file.
func httpClient(ca string) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{Transport: transport, Timeout: orderLimit}
	if ca == "" {
		return client, nil
	}
	roots, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(roots) {
		return nil, fmt.Errorf("%s holds no certificate", ca)
	}
	return client, nil
}

// proveName has the authority look for a name, unless it is sure of it already.
func (i *Issuer) proveName(ctx context.Context, client *acme.Client, url, name, proof string) error {
	authorization, err := client.GetAuthorization(ctx, url)
	if err != nil || authorization.Status == acme.StatusValid {
		return err
	}
	at := slices.IndexFunc(authorization.Challenges, func(c *acme.Challenge) bool { return c.Type == proof })
	if at < 0 {
		return fmt.Errorf("the authority does not look for names by %s", proof)
	}
	challenge := authorization.Challenges[at]
	shown, err := proofOf(client, challenge, name)
	if err != nil {
		return err
	}
	defer i.Hide(name)
	if err := i.Show(ctx, shown); err != nil {
		return fmt.Errorf("workers do not show it: %w", err)
	}
	if _, err := client.Accept(ctx, challenge); err != nil {
		return err
	}
	_, err = client.WaitAuthorization(ctx, url)
	return err
}

// proofOf is what the authority wants to see: an answer by HTTP (RFC 8555 8.3), or a
// certificate (RFC 8737).
func proofOf(client *acme.Client, challenge *acme.Challenge, name string) (shown spec.Challenge, err error) {
	shown.Name = name
	if challenge.Type == config.ProofHTTP {
		shown.Path = client.HTTP01ChallengePath(challenge.Token)
		shown.Answer, err = client.HTTP01ChallengeResponse(challenge.Token)
		return shown, err
	}
	pair, err := client.TLSALPN01ChallengeCert(challenge.Token, name)
	if err != nil {
		return shown, err
	}
	shown.Certificate, err = pack(pair.Certificate, pair.PrivateKey.(crypto.Signer))
	return shown, err
}

// collect has the certificate signed for a new key, and gives both as PEM, and how long
// it is good.
func collect(ctx context.Context, client *acme.Client, order *acme.Order, name string) (content []byte, life time.Duration, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, 0, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{name}}, key)
	if err != nil {
		return nil, 0, err
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, request, true)
	if err != nil {
		return nil, 0, err
	}
	packed, err := pack(chain, key)
	if err != nil {
		return nil, 0, err
	}
	pair, err := tls.X509KeyPair([]byte(packed.Chain), []byte(packed.Key))
	if err != nil {
		return nil, 0, err
	}
	life = pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)
	return []byte(packed.Chain + packed.Key), life, pair.Leaf.VerifyHostname(name)
}

// pack makes PEM.
func pack(chain [][]byte, key crypto.Signer) (packed spec.Certificate, err error) {
	var lines bytes.Buffer
	for _, der := range chain {
		pem.Encode(&lines, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // fails for no block without headers
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return spec.Certificate{Chain: lines.String(), Key: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}, err
}

// accountKey is the key by which authorities know us. The first call makes it.
func accountKey(a *config.ACME) (crypto.Signer, error) {
	file := filepath.Join(a.Cache, "account.key")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newAccountKey(file)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no key in PEM; remove it for a new account", file)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; remove it for a new account", file, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: a key that cannot sign; remove it for a new account", file)
	}
	return signer, nil
}

func newAccountKey(file string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	packed, err := pack(nil, key)
	if err != nil {
		return nil, err
	}
	return key, writeFile(file, []byte(packed.Key))
}

// writeFile puts a file that only we may read in its place at once, so that nobody reads
// half of it.
func writeFile(file string, content []byte) error {
	dir := filepath.Dir(file)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(dir, ".new-*") // readable by us alone
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name()) // in vain once it is renamed
	_, err = draft.Write(content)
	if err == nil {
		err = draft.Sync()
	}
	if closeErr := draft.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(draft.Name(), file)
	}
	return err
}
