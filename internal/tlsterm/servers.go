package tlsterm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/config"
	"sluice/internal/spec"
)

// Servers makes how servers that are https:// are met, as the farms of a configuration;
// nil for a farm without such. What depends on the server itself, its name above all, is
// not in it. It reads the authorities that the system trusts, if a farm names no others.
func Servers(cfg *config.Config, keys *spec.Keys) ([]*tls.Config, error) {
	all := make([]*tls.Config, len(cfg.Farms))
	var err error
	for i := range cfg.Farms {
		f := &cfg.Farms[i]
		if !slices.ContainsFunc(f.Servers, config.Server.Secure) {
			continue
		}
		if all[i], err = newServers(f, i, keys); err != nil {
			return nil, fmt.Errorf("farm %s: %w", f.Name, err)
		}
		all[i].NextProtos = offered(cfg, f)
	}
	return all, nil
}

// offered is what the servers of a farm may choose from by ALPN: nothing where clients'
// bytes go to them as they are, and no HTTP/2 where a connection is one client's.
func offered(cfg *config.Config, f *config.Farm) []string {
	switch {
	case cfg.Raw(f.Name):
		return nil
	case f.ProxyProtocol == config.ProxyV1 || f.ProxyProtocol == config.ProxyV2:
		return offers[config.HTTP1]
	}
	return offers[f.Protocol]
}

// offers are what servers may choose from by ALPN, as a farm says.
var offers = map[string][]string{
	config.HTTP1: {"http/1.1"}, config.HTTP2: {"h2"}, config.ProtocolAuto: {"h2", "http/1.1"},
}

// newServers is how those of farm i are met.
func newServers(f *config.Farm, i int, keys *spec.Keys) (c *tls.Config, err error) {
	wish := cmp.Or(f.TLS, &config.FarmTLS{})
	var own spec.FarmKeys
	switch {
	case keys != nil && i < len(keys.Farms):
		own = keys.Farms[i]
	case wish.CA != "" || wish.Cert != "":
		return nil, errors.New("its certificates have not come")
	}
	c = &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: wish.Insecure,
		DynamicRecordSizingDisabled: true, // small first records are for browsers, which show what has come
	}
	if c.RootCAs, err = authorities(wish, own.CA); err != nil {
		return nil, err
	}
	for _, i := range own.Certificates {
		if i < 0 || i >= len(keys.Certificates) {
			return nil, fmt.Errorf("certificate %d of %d", i, len(keys.Certificates))
		}
		pair, err := parse(keys.Certificates[i])
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i, err)
		}
		c.Certificates = append(c.Certificates, *pair)
	}
	if len(wish.Pins) > 0 {
		pins, err := parsePins(wish.Pins)
		if err != nil {
			return nil, err
		}
		c.VerifyConnection = pins.check
	}
	return c, nil
}

// authorities are those by which servers are judged.
func authorities(wish *config.FarmTLS, ca string) (*x509.CertPool, error) {
	if wish.Insecure {
		return nil, nil
	}
	if wish.CA == "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("no tls.ca is named, and the authorities of the system cannot be read: %w", err)
		}
		return pool, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(ca)) {
		return nil, errors.New("tls.ca holds no certificate")
	}
	return pool, nil
}

// pins are digests of public keys.
type pins [][sha256.Size]byte

func parsePins(texts []string) (p pins, err error) {
	for _, text := range texts {
		digest, err := config.ParsePin(text)
		if err != nil {
			return nil, fmt.Errorf("tls.pins: %q: %w", text, err)
		}
		p = append(p, digest)
	}
	return p, nil
}

// check finds a pinned key in one of the chains that were verified, or, if none was,
// in the server's own certificate: of the others it has not shown that they are its.
func (p pins) check(state tls.ConnectionState) error {
	chains := state.VerifiedChains
	if len(chains) == 0 {
		chains = [][]*x509.Certificate{state.PeerCertificates[:1]}
	}
	var seen []string
	for _, chain := range chains {
		for _, cert := range chain {
			digest := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
			if slices.ContainsFunc(p, func(pin [sha256.Size]byte) bool { return bytes.Equal(pin[:], digest[:]) }) {
				return nil
			}
			seen = append(seen, "sha256/"+base64.StdEncoding.EncodeToString(digest[:]))
		}
	}
	return fmt.Errorf("none of its keys is in tls.pins: it has %s", strings.Join(seen, ", "))
}
