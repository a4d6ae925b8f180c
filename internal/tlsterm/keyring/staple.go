package keyring

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"golang.org/x/crypto/ocsp"
)

// Staple is an authority's word that a certificate is good, RFC 6960.
type Staple struct {
	DER         []byte
	From, Until time.Time // Until: by then there is a newer one
}

// errRevoked: the authority has taken its certificate back.
var errRevoked = errors.New("the authority says that the certificate is revoked")

// ParseStaple reads what an authority said about a certificate that issuer has signed. It
// is an error if that is not that the certificate is good.
func ParseStaple(der []byte, leaf, issuer *x509.Certificate) (*Staple, error) {
	if issuer == nil {
		return nil, errors.New("the certificate of the authority is not in the file of the certificate")
	}
	response, err := ocsp.ParseResponseForCert(der, leaf, issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a response of its authority (OCSP): %w", err)
	case response.Status == ocsp.Revoked:
		return nil, errRevoked
	case response.Status != ocsp.Good:
		return nil, errors.New("the authority does not know the certificate")
	case response.NextUpdate.IsZero():
		return nil, errors.New("the response does not say how long it is good")
	}
	return &Staple{DER: der, From: response.ThisUpdate, Until: response.NextUpdate}, nil
}

// staple reads a file with an authority's word.
func (r *reader) staple(file, at string, c Cert) *Staple {
	r.note(file)
	der, p := readFile(file)
	if p != nil {
		r.fault(at, file, p)
		return nil
	}
	staple, err := ParseStaple(der, c.Leaf, c.Issuer)
	if err != nil {
		r.fault(at, file, &problem{err.Error(), "write ocsp: auto, so that Sluice asks the authority"})
	}
	return staple
}

// issuerIn finds who signed leaf among the other certificates of its chain; nil if nobody
// there did.
func issuerIn(chain string, leaf *x509.Certificate) *x509.Certificate {
	for rest := []byte(chain); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && leaf.CheckSignatureFrom(c) == nil {
			return c
		}
	}
}
