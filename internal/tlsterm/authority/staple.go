// Package authority asks those who sign certificates: for certificates (ACME), and
// whether one is still good (OCSP). It runs in the supervisor, on goroutines of its own,
// and meets no client.
package authority

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"time"

	"golang.org/x/crypto/ocsp"

	"sluice/internal/tlsterm/keyring"
)

const (
	askLimit   = 10 * time.Second // for one question
	maxAnswer  = 64 << 10         // bytes; a response takes some 500, with a certificate of who signed it 2 KiB
	firstPause = time.Minute      // after a question that failed; each that follows doubles it
	mostPause  = time.Hour
)

// Fingerprint is the SHA-256 of a certificate.
type Fingerprint [sha256.Size]byte

// FingerprintOf names a certificate.
func FingerprintOf(c keyring.Cert) Fingerprint { return sha256.Sum256(c.Leaf.Raw) }

// Staples are what authorities said, by certificate. Nobody changes one that was given
// out.
type Staples map[Fingerprint]*keyring.Staple

// Stapler asks authorities whether certificates are good, and again when half of an
// answer's life is over. One goroutine owns it. The zero value has asked nobody.
type Stapler struct {
	client http.Client
	known  map[Fingerprint]*inquiry
}

// inquiry is what is known of one certificate.
type inquiry struct {
	staple *keyring.Staple // the last good answer; nil: none
	next   time.Time       // the next question
	failed int             // questions in a row
}

// Look asks what is due about certs, and returns what is known of all of them. changed says
// whether that is something else than at the look before. It takes askLimit for each
// question at most, and ends with ctx.
func (s *Stapler) Look(ctx context.Context, now time.Time, certs []keyring.Cert) (staples Staples, changed bool) {
	before := s.answers(s.known)
	silent := map[string]bool{} // responders that have not answered during this look
	known := map[Fingerprint]*inquiry{}
	for _, c := range certs {
		if !c.Ask || c.Issuer == nil {
			continue
		}
		name := FingerprintOf(c)
		one := s.known[name]
		if one == nil {
			one = &inquiry{}
		}
		known[name] = one
		responder := c.Leaf.OCSPServer[0]
		switch {
		case now.Before(one.next) || ctx.Err() != nil:
		case silent[responder]: // it shall not cost all others askLimit for each certificate
			one.next = now.Add(firstPause)
		default:
			s.ask(ctx, now, c, one)
			silent[responder] = one.failed > 0
		}
	}
	s.known = known
	staples = s.answers(known)
	return staples, !maps.Equal(before, staples)
}

func (s *Stapler) answers(known map[Fingerprint]*inquiry) Staples {
	staples := Staples{}
	for name, one := range known {
		if one.staple != nil {
			staples[name] = one.staple
		}
	}
	return staples
}

// ask puts one question.
func (s *Stapler) ask(ctx context.Context, now time.Time, c keyring.Cert, one *inquiry) {
	staple, err := s.fetch(ctx, c)
	if err != nil {
		pause := min(firstPause<<min(one.failed, 10), mostPause)
		one.failed++
		one.next = now.Add(pause)
		slog.Warn("an authority did not say that a certificate is good", "file", c.File, "responder", c.Leaf.OCSPServer[0], "again_in", pause, "error", err)
		return
	}
	one.staple, one.failed = staple, 0
	one.next = staple.From.Add(staple.Until.Sub(staple.From) / 2)
	if one.next.Before(now.Add(firstPause)) {
		one.next = now.Add(firstPause) // half of its life was over when it came
	}
	slog.Info("an authority said that a certificate is good", "file", c.File, "until", staple.Until)
}

// fetch asks the first responder that the certificate names, by POST (RFC 6960 A.1).
func (s *Stapler) fetch(ctx context.Context, c keyring.Cert) (*keyring.Staple, error) {
	question, err := ocsp.CreateRequest(c.Leaf, c.Issuer, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Leaf.OCSPServer[0], bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/ocsp-request")
	response, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the responder answers %s", response.Status)
	}
	der, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(der) > maxAnswer {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return keyring.ParseStaple(der, c.Leaf, c.Issuer)
}
