package testkit

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// Authority signs certificates. One that a test makes is trusted by nobody else.
type Authority struct {
	t      testing.TB
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial atomic.Int64
}

// Wish is what a certificate is to be. The zero value is an ECDSA certificate of no
// name, for servers and clients, valid from an hour ago for a day.
type Wish struct {
	Names     []string  // DNS names and addresses
	Subject   string    // common name; empty: the first of Names
	From, To  time.Time // zero: an hour ago, in a day
	RSA       bool      // a key of RSA, 2048 bits
	Responder string    // URL that answers for its state (OCSP)
}

// Issued is a certificate with its key. Chain and Key are PEM.
type Issued struct {
	Chain, Key []byte
	Leaf       *x509.Certificate
	Private    crypto.Signer
}

// NewAuthority makes an authority, valid from a year ago for two.
func NewAuthority(t testing.TB, name string) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &Authority{t: t, key: key}
	const year = 365 * 24 * time.Hour
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-year), NotAfter: time.Now().Add(year),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	a.cert = template
	a.cert = a.sign(template, &key.PublicKey)
	a.serial.Store(1)
	return a
}

// sign makes a certificate of a template.
func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// Issue makes a certificate.
func (a *Authority) Issue(w Wish) Issued {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)), Subject: pkix.Name{CommonName: w.Subject},
		NotBefore: w.From, NotAfter: w.To,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if w.From.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if w.To.IsZero() {
		template.NotAfter = time.Now().Add(24 * time.Hour)
	}
	if w.Subject == "" && len(w.Names) > 0 {
		template.Subject.CommonName = w.Names[0]
	}
	if w.Responder != "" {
		template.OCSPServer = []string{w.Responder}
	}
	for _, name := range w.Names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	key := a.newKey(w.RSA)
	i := Issued{Leaf: a.sign(template, key.Public()), Private: key}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	i.Chain = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Leaf.Raw})
	i.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return i
}

func (a *Authority) newKey(ofRSA bool) (key crypto.Signer) {
	a.t.Helper()
	var err error
	if ofRSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// Pool trusts the authority.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Cert is the authority's own certificate, and Signer its key.
func (a *Authority) Cert() *x509.Certificate { return a.cert }

// Signer is the authority's key.
func (a *Authority) Signer() crypto.Signer { return a.key }

// Both is certificate and key in one file's content.
func (i Issued) Both() []byte { return bytes.Join([][]byte{i.Chain, i.Key}, nil) }

// WriteFile writes a file that only we may read, and gives its path.
func WriteFile(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Word is what the authority says of a certificate (OCSP), from one moment until another.
// status is one of golang.org/x/crypto/ocsp: 0 good, 1 revoked, 2 unknown.
func (a *Authority) Word(i Issued, status int, from, until time.Time) []byte {
	a.t.Helper()
	der, err := ocsp.CreateResponse(a.cert, a.cert, ocsp.Response{
		Status: status, SerialNumber: i.Leaf.SerialNumber, ThisUpdate: from, NextUpdate: until, RevokedAt: from,
	}, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}
