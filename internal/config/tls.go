package config

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxCertificates = 5000 // per listener; a chain and its key take some 5 KiB of what crosses to a worker
	maxHandshake    = Duration(5 * time.Minute)
	maxAge          = 10 * year
	year            = Duration(365 * 24 * time.Hour)
)

// versionNames and curveNames are what may stand in min_version and curves.
var (
	versionNames = []string{"1.2", "1.3"}
	curveNames   = []string{"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024", "X25519", "P-256", "P-384", "P-521"}
)

// otherCurves are the names that OpenSSL and RFC 8422 give to our curves.
var otherCurves = map[string]string{
	"prime256v1": "P-256", "secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521", "curve25519": "X25519",
}

// tickets checks how long keys of session tickets are used. A ticket lives for seven days
// at most (RFC 8446 4.6.1), and is opened for three rotations.
func (k *checker) tickets() {
	const least, most = Duration(time.Minute), Duration(56 * time.Hour)
	checkBounds(k, Duration.String, []bound[Duration]{{"tls.tickets.rotate", k.TLS.Tickets.Rotate, least, most}})
}

// maxNames bounds the certificates that are asked for: authorities have limits of their
// own, and one name after the other is asked for.
const maxNames = 100

// proof checks how an authority is shown that names are ours.
func (k *checker) proof(a *ACME, at string) {
	k.oneOf(at, a.Proof, []string{ProofTLS, ProofHTTP})
	plain := func(l Listener) bool { return l.TLS == nil && l.TCP == nil && slices.Contains(l.Protocols, HTTP1) }
	if a.Proof == ProofHTTP && !slices.ContainsFunc(k.Listeners, plain) {
		k.add(at, a.Proof, problem{"the authority asks by HTTP without TLS, and no listener speaks that", `write listeners: [{address: ":80", redirect: https}, …], or ` + ProofTLS})
	}
}

// acme checks which certificates are asked for.
func (k *checker) acme(a *ACME, at string) {
	if len(a.Names) == 0 || len(a.Names) > maxNames {
		k.add(at+".names", "", problem{strconv.Itoa(len(a.Names)) + " names", "write 1 to " + strconv.Itoa(maxNames) + ` hosts: ["www.example.com"]`})
	}
	for i, name := range a.Names {
		one := at + ".names[" + strconv.Itoa(i) + "]"
		_, notAddress := netip.ParseAddr(name)
		switch p := checkHost(name); {
		case slices.Contains(a.Names[:i], name):
			k.add(one, name, problem{"named twice", "remove one"})
		case strings.HasPrefix(name, "*"):
			k.add(one, name, problem{"a wildcard is given only to who can change the DNS", "name each host, or use the file of a certificate that was asked for otherwise"})
		case notAddress == nil || strings.HasPrefix(name, "["):
			k.add(one, name, problem{"an address, not a name", "write a name in the DNS"})
		case p != nil:
			k.add(one, name, *p)
		case name != strings.ToLower(strings.TrimSuffix(name, ".")):
			k.add(one, name, problem{"not in its plain form", "write " + quote(strings.ToLower(strings.TrimSuffix(name, ".")))})
		}
	}
	if !strings.HasPrefix(a.Cache, "/") {
		k.add(at+".cache", a.Cache, problem{"not the absolute path of a directory", "write /var/lib/sluice/acme"})
	}
	if u, err := url.Parse(a.Directory); err != nil || u.Scheme != "https" || u.Host == "" {
		k.add(at+".directory", a.Directory, problem{"not a URL with https", "leave the key out for Let's Encrypt"})
	}
	if a.Email != "" && (strings.Count(a.Email, "@") != 1 || strings.ContainsAny(a.Email, " ,;:<>")) {
		k.add(at+".email", a.Email, problem{"not one address of mail", "write admin@example.com"})
	}
	k.proof(a, at+".proof")
	if !slices.ContainsFunc(k.Listeners, func(l Listener) bool { return l.TLS != nil }) {
		k.add(at, "", problem{"no listener has TLS: nobody would answer the authority, or use the certificates", `write listeners: [{address: ":443", tls: {}}]`})
	}
}

// derive fills in where a key stands.
func (t *ListenerTLS) derive() {
	for i := range t.Certificates {
		if c := &t.Certificates[i]; c.Key == "" {
			c.Key = c.Cert
		}
	}
}

// protocols checks what clients may speak.
func (k *checker) protocols(protocols []string, at string) {
	known := []string{HTTP1, HTTP2, HTTP3}
	if len(protocols) == 0 {
		k.add(at, "", problem{"no protocol: nobody could be served", "write [" + HTTP1 + ", " + HTTP2 + "], or leave the key out for just that"})
	}
	for i, p := range protocols {
		one := at + "[" + strconv.Itoa(i) + "]"
		switch {
		case p == "h3":
			k.add(one, p, problem{"not a protocol's name here", "write " + HTTP3})
		case p == "h2" || p == "h2c":
			k.add(one, p, problem{"not a protocol's name here", "write " + HTTP2})
		case slices.Contains(protocols[:i], p):
			k.add(one, p, problem{"named twice", "remove one"})
		default:
			k.oneOf(one, p, known)
		}
	}
}

// http3 checks what HTTP/3 asks of its listener.
func (k *checker) http3(l Listener, at string) {
	checkBounds(k, Duration.String, []bound[Duration]{{at + ".alt_svc", l.AltSvc, 0, maxAge}})
	switch {
	case !slices.Contains(l.Protocols, HTTP3):
	case l.TLS == nil:
		k.add(at+".protocols", HTTP3, problem{"HTTP/3 is never spoken without TLS", "add tls with its certificates, or remove " + HTTP3})
	case len(l.Protocols) == 1:
		k.add(at+".protocols", HTTP3, problem{"clients learn of HTTP/3 by another protocol on the same port", "write [" + HTTP1 + ", " + HTTP2 + ", " + HTTP3 + "]"})
	case l.ProxyProtocol == ProxyOn:
		k.add(at+".proxy_protocol", l.ProxyProtocol, problem{"it tells the clients of TCP connections, and HTTP/3 has none", "remove " + HTTP3 + ", or proxy_protocol"})
	}
}

// listenerTLS checks how TLS ends at a listener. Files are not looked at: they may be
// there only where Sluice runs.
func (k *checker) listenerTLS(t *ListenerTLS, at string) {
	k.certificates(t.Certificates, at+".certificates")
	k.version(t.MinVersion, at+".min_version")
	k.curves(t.Curves, at+".curves")
	checkBounds(k, Duration.String, []bound[Duration]{{at + ".handshake", t.Handshake, minWait, maxHandshake}})
	checkBounds(k, strconv.Itoa, []bound[int]{{at + ".handshakes", t.Handshakes, 0, maxConnections}})
	k.clientAuth(t.ClientAuth, at+".client_auth")
	k.hsts(t.HSTS, at+".hsts")
}

func (k *checker) certificates(certificates []Certificate, at string) {
	switch n := len(certificates); {
	case n == 0 && k.TLS.ACME != nil: // those that are asked for will do
	case n == 0:
		k.add(at, "", problem{"no certificate: no client could connect", "write [{cert: site.crt, key: site.key}]"})
	case n > maxCertificates:
		k.add(at, "", problem{"more than " + strconv.Itoa(maxCertificates), "use certificates of several names, or of a wildcard"})
	}
	seen := map[Certificate]int{}
	for i, c := range certificates {
		one := at + "[" + strconv.Itoa(i) + "]"
		first, again := seen[Certificate{Cert: c.Cert, Key: c.Key}]
		switch {
		case c.OCSP == "":
			k.add(one+".ocsp", "", problem{"neither auto, off nor a file", "leave the key out for auto"})
		case c.Cert == "":
			k.add(one+".cert", "", problem{"no file", "write {cert: site.crt, key: site.key}"})
		case again:
			k.add(one+".cert", c.Cert, problem{"the same as certificates[" + strconv.Itoa(first) + "]", "remove one"})
		default:
			seen[Certificate{Cert: c.Cert, Key: c.Key}] = i
		}
	}
}

// version checks the least version of TLS.
func (k *checker) version(version, at string) {
	lower := strings.ToLower(version)
	plain := strings.TrimLeft(strings.TrimPrefix(lower, "tls"), "v ")
	switch {
	case slices.Contains(versionNames, version):
	case plain == "1.0" || plain == "1.1" || plain == "1" || strings.HasPrefix(lower, "ssl"):
		k.add(at, version, problem{"no longer safe (RFC 8996)", `write "1.2"`})
	case slices.Contains(versionNames, plain):
		k.add(at, version, problem{"a version is its number", "write " + quote(plain)})
	default:
		k.add(at, version, problem{"must be " + list(versionNames, "or"), ""})
	}
}

func (k *checker) curves(curves []string, at string) {
	if len(curves) == 0 {
		k.add(at, "", problem{"no key exchange: no client could connect", "leave the key out for the usual ones"})
	}
	for i, c := range curves {
		one := at + "[" + strconv.Itoa(i) + "]"
		switch other := otherCurves[strings.ToLower(c)]; {
		case slices.Contains(curves[:i], c):
			k.add(one, c, problem{"named twice", "remove one"})
		case other != "":
			k.add(one, c, problem{"not the name of a key exchange here", "write " + other})
		default:
			k.oneOf(one, c, curveNames)
		}
	}
}

func (k *checker) clientAuth(c ClientAuth, at string) {
	modes := []string{ClientAuthOff, ClientAuthRequest, ClientAuthRequire}
	k.oneOf(at+".mode", c.Mode, modes)
	switch asked := c.Mode != ClientAuthOff; {
	case !slices.Contains(modes, c.Mode):
	case asked && c.CA == "":
		k.add(at+".ca", "", problem{"no file: nobody's certificate could be told from a forged one", "name the file of the certificates that sign those of clients"})
	case !asked && c.CA != "":
		k.add(at+".ca", c.CA, problem{"no client is asked for a certificate", "write mode: require, or mode: request"})
	}
}

// hsts checks Strict-Transport-Security. The lists of browsers ask for a year and for
// all names below (hstspreload.org).
func (k *checker) hsts(h HSTS, at string) {
	checkBounds(k, Duration.String, []bound[Duration]{{at + ".max_age", h.MaxAge, 0, maxAge}})
	switch {
	case h.MaxAge == 0 && (h.Subdomains || h.Preload):
		k.add(at+".max_age", "", problem{"without it the field is not sent", "write max_age: " + year.String()})
	case h.Preload && (h.MaxAge < year || !h.Subdomains):
		k.add(at+".preload", "", problem{"the lists of browsers take only names with all below them, for a year at least",
			"write {max_age: " + year.String() + ", subdomains: true, preload: true}"})
	}
}

// farmTLS checks what servers must prove, and what is shown to them.
func (k *checker) farmTLS(f *Farm, at string) {
	t := f.TLS
	if t == nil {
		return
	}
	if !slices.ContainsFunc(f.Servers, Server.Secure) {
		k.add(at, "", problem{"no server of this farm is spoken to over TLS", `write its url with https://, or remove the key`})
		return
	}
	if t.Key != "" && t.Cert == "" {
		k.add(at+".key", t.Key, problem{"a key without its certificate", "add cert, the file of the certificate that is shown to servers"})
	}
	if t.Insecure && t.CA != "" {
		k.add(at+".insecure", "true", problem{"with it nobody looks at ca", "remove insecure, or ca"})
	}
	if t.Name != "" {
		name, _, hasPort := cutPort(t.Name)
		switch p := checkHost(name); {
		case hasPort:
			k.add(at+".name", t.Name, problem{"a certificate's name has no port", "write " + quote(name)})
		case p != nil:
			k.add(at+".name", t.Name, *p)
		}
	}
	for i, pin := range t.Pins {
		if _, err := ParsePin(pin); err != nil {
			k.add(at+".pins["+strconv.Itoa(i)+"]", pin, problem{err.Error(),
				"write what is printed by: openssl x509 -in site.crt -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64, after sha256/"})
		}
	}
}

// ParsePin gives the digest that a pin stands for: SHA-256 of a public key as it
// stands in a certificate (SubjectPublicKeyInfo, RFC 7469 2.4).
func ParsePin(text string) (digest [sha256.Size]byte, err error) {
	encoded, found := strings.CutPrefix(text, "sha256/")
	if !found {
		return digest, errors.New("a pin begins with sha256/")
	}
	bytes, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(bytes) != len(digest) {
		return digest, errors.New("not the 32 bytes of a SHA-256 digest in base64")
	}
	return [sha256.Size]byte(bytes), nil
}
