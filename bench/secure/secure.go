// Package secure is what all workloads over TLS have in common: the protocols, the
// certificates, and the one cipher and the one key exchange that every proxy and every
// load generator is held to. A round with anything else fails.
//
// TLS_AES_128_GCM_SHA256 is what all of them would choose on a processor with AES.
// X25519 is fixed because newer ones would choose the hybrid with ML-KEM-768, which
// costs more, and older ones do not know it.
package secure

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// What is agreed upon, by the names that OpenSSL has for them.
const (
	Cipher = "TLS_AES_128_GCM_SHA256"
	Group  = "X25519"
	Host   = "bench.example" // that the certificates are for, and that is asked for
)

// Protocol is what a client and a proxy speak over TLS 1.3; the empty one is HTTP/1.1
// without TLS.
type Protocol string

// The protocols.
const (
	HTTP1 Protocol = "http1"
	HTTP2 Protocol = "http2"
	HTTP3 Protocol = "http3"
)

// Words are for tables and errors.
func (p Protocol) Words() string {
	switch p {
	case HTTP1:
		return "HTTP/1.1 over TLS"
	case HTTP2:
		return "HTTP/2 over TLS"
	case HTTP3:
		return "HTTP/3"
	}
	return "HTTP/1.1"
}

// Key is a sort of private key.
type Key string

// The keys that are compared. Where the key is not what is measured, it is P256.
const (
	P256    Key = "P-256"
	RSA2048 Key = "RSA-2048"
)

// Certificate is a self-signed certificate as files, in PEM.
type Certificate struct {
	Cert, Key string // one file for each
	Both      string // one file with both
	roots     *x509.CertPool
}

// lifetime is of a certificate: so long that nobody warns of its end.
const lifetime = 90 * 24 * time.Hour

// Make makes a certificate of each key below dir.
func Make(dir string) (map[Key]Certificate, error) {
	all := map[Key]Certificate{}
	for _, kind := range []Key{P256, RSA2048} {
		key, err := kind.generate()
		if err != nil {
			return nil, err
		}
		if all[kind], err = sign(dir, kind, key); err != nil {
			return nil, fmt.Errorf("certificate with a %s key: %w", kind, err)
		}
	}
	return all, nil
}

func (k Key) generate() (crypto.Signer, error) {
	if k == RSA2048 {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// sign writes a certificate for Host and for the address that all listen on.
func sign(dir string, kind Key, key crypto.Signer) (Certificate, error) {
	now := time.Now()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: Host},
		DNSNames:     []string{Host},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, key.Public(), key)
	if err != nil {
		return Certificate{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Certificate{}, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	path := filepath.Join(dir, string(kind))
	c := Certificate{Cert: path + ".crt", Key: path + ".key", Both: path + ".pem", roots: x509.NewCertPool()}
	c.roots.AppendCertsFromPEM(cert)
	for name, text := range map[string][]byte{c.Cert: cert, c.Key: secret, c.Both: append(cert, secret...)} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return Certificate{}, err
		}
	}
	return c, nil
}

// Client is the configuration of a client that takes this certificate and what is
// agreed upon, and nothing else. The cipher of TLS 1.3 cannot be set here; that
// is left to the load generators.
func (c Certificate) Client() *tls.Config {
	return &tls.Config{
		ServerName:       Host,
		RootCAs:          c.roots,
		MinVersion:       tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{tls.X25519},
	}
}
