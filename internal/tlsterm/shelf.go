package tlsterm

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// shelf holds the certificates of one listener by the names that they cover. It is
// immutable.
type shelf struct {
	exact map[string][]*tls.Certificate
	wild  map[string][]*tls.Certificate // by what follows "*."
	first []*tls.Certificate            // for other names: the first of the configuration, and those of exactly its names
}

// newShelf sorts certificates. Those of one name are in the order in which they are
// tried: elliptic curves before RSA, which costs a server twenty times as much, else as
// they stand.
func newShelf(certificates []*tls.Certificate) *shelf {
	s := &shelf{exact: map[string][]*tls.Certificate{}, wild: map[string][]*tls.Certificate{}}
	for _, rsa := range []bool{false, true} {
		for _, c := range certificates {
			if isRSA(c.Leaf) != rsa {
				continue
			}
			s.put(c)
			if sameNames(c.Leaf, certificates[0].Leaf) {
				s.first = append(s.first, c)
			}
		}
	}
	return s
}

func (s *shelf) put(c *tls.Certificate) {
	for _, name := range c.Leaf.DNSNames {
		name = strings.ToLower(name)
		if below, wild := strings.CutPrefix(name, "*."); wild {
			s.wild[below] = append(s.wild[below], c)
		} else {
			s.exact[name] = append(s.exact[name], c)
		}
	}
}

func isRSA(c *x509.Certificate) bool { return c.PublicKeyAlgorithm == x509.RSA }

// sameNames tells two certificates of the same site.
func sameNames(a, b *x509.Certificate) bool {
	return strings.EqualFold(strings.Join(a.DNSNames, " "), strings.Join(b.DNSNames, " "))
}

// choose finds the certificate for a client: of the name that it asks for, else of a
// wildcard that covers it (one label, RFC 9525 6.3), else the first of all. Among those of
// one name it takes the first that the client can use.
func (s *shelf) choose(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if c := usable(s.exact[name], hello); c != nil {
		return c, nil
	}
	_, below, _ := strings.Cut(name, ".")
	if c := usable(s.wild[below], hello); c != nil {
		return c, nil
	}
	// A client that can use none may as well be told so by the first. Its name is not
	// covered, which is no reason to choose among these.
	anyName := *hello
	anyName.ServerName = ""
	if c := usable(s.first, &anyName); c != nil {
		return c, nil
	}
	if len(s.first) == 0 {
		return nil, errNone
	}
	return s.first[0], nil
}

// errNone: the first certificate has been asked for, and has not come yet.
var errNone = errors.New("tls: no certificates configured")

// usable is the first certificate whose key and signatures the client understands.
func usable(certificates []*tls.Certificate, hello *tls.ClientHelloInfo) *tls.Certificate {
	for _, c := range certificates {
		if hello.SupportsCertificate(c) == nil {
			return c
		}
	}
	return nil
}
