package tlsterm

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strings"
)

// Facts are what a finished handshake has settled. Nothing is computed before it is asked
// for. One loop owns them.
type Facts struct {
	state  *tls.ConnectionState
	client *Client
}

// FactsOf are those of a connection. The state is kept, and not changed.
func FactsOf(state *tls.ConnectionState) *Facts { return &Facts{state: state} }

// Version is TLSv1.2 or TLSv1.3, as nginx and OpenSSL write it.
func (f *Facts) Version() string {
	if f.state.Version == tls.VersionTLS12 {
		return "TLSv1.2"
	}
	return "TLSv1.3"
}

// Cipher is the name that IANA has registered: TLS_AES_128_GCM_SHA256.
func (f *Facts) Cipher() string { return tls.CipherSuiteName(f.state.CipherSuite) }

// Curve is the key exchange by its name in the configuration: X25519MLKEM768.
func (f *Facts) Curve() string {
	for name, id := range curveIDs {
		if id == f.state.CurveID {
			return name
		}
	}
	return "" // a session of TLS 1.2 that was resumed has none of its own
}

// Hybrid says whether a key exchange joins one of elliptic curves with ML-KEM (FIPS 203),
// and so holds as long as either does.
func Hybrid(id tls.CurveID) bool {
	return id == tls.X25519MLKEM768 || id == tls.SecP256r1MLKEM768 || id == tls.SecP384r1MLKEM1024
}

// ServerName is the name that the client asked for (SNI), in lower case; empty if it named
// none. A client may name what it likes.
func (f *Facts) ServerName() string { return strings.ToLower(f.state.ServerName) }

// Protocol is what ALPN settled: h2 or http/1.1; empty if the client named none.
func (f *Facts) Protocol() string { return f.state.NegotiatedProtocol }

// Resumed says whether the session goes on from an earlier connection.
func (f *Facts) Resumed() bool { return f.state.DidResume }

// Client is who showed a certificate, which was found good; nil if nobody did.
func (f *Facts) Client() *Client {
	if f.client == nil && len(f.state.PeerCertificates) > 0 {
		f.client = &Client{cert: f.state.PeerCertificates[0]}
	}
	return f.client
}

// Client is a client's certificate. Its texts hold printable ASCII only, so that each can
// stand in a field. Each is made when it is asked for the first time, and kept.
type Client struct {
	cert                                                   *x509.Certificate
	subject, issuer, serial, fingerprint, encoded, inLines string
}

// once fills a text in.
func once(text *string, make func() string) string {
	if *text == "" {
		*text = make()
	}
	return *text
}

// Subject is whom the certificate is about, RFC 4514: CN=ann,O=example.
func (c *Client) Subject() string {
	return once(&c.subject, func() string { return printable(c.cert.Subject.String()) })
}

// Issuer is who signed it, as Subject.
func (c *Client) Issuer() string {
	return once(&c.issuer, func() string { return printable(c.cert.Issuer.String()) })
}

// Serial is its number with that issuer, in hexadecimal digits.
func (c *Client) Serial() string {
	return once(&c.serial, func() string { return fmt.Sprintf("%X", c.cert.SerialNumber) })
}

// Fingerprint is the SHA-256 of the certificate, in hexadecimal digits.
func (c *Client) Fingerprint() string {
	return once(&c.fingerprint, func() string {
		sum := sha256.Sum256(c.cert.Raw)
		return hex.EncodeToString(sum[:])
	})
}

// DER is the certificate itself. Nobody changes it.
func (c *Client) DER() []byte { return c.cert.Raw }

// Base64 is the certificate as one word: what stands in X-ARR-ClientCert, and between
// colons in Client-Cert (RFC 9440 2.2).
func (c *Client) Base64() string {
	return once(&c.encoded, func() string { return base64.StdEncoding.EncodeToString(c.cert.Raw) })
}

// PEM is the certificate in lines.
func (c *Client) PEM() string {
	return once(&c.inLines, func() string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw}))
	})
}

// printable writes bytes that are no printable ASCII as RFC 4514 2.4 allows for any: a
// backslash and two hexadecimal digits. Who asks for a certificate chooses its names.
func printable(name string) string {
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' {
			fmt.Fprintf(&b, `\%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
