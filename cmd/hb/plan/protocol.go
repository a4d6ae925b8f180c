package plan

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"sluice/cmd/hb/client"
)

// Limits on what one machine can be asked for.
const (
	MaxStreams = 1000      // of one user at once: servers allow some 100
	maxAtOnce  = 1_000_000 // requests of all users: each has a goroutine
)

// versions are those of TLS.
var versions = map[string]uint16{"1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13}

// ParseVersion reads a version of TLS; empty means any.
func ParseVersion(text string) (uint16, error) {
	version, found := versions[text]
	if !found && text != "" {
		return 0, fmt.Errorf("%q: write a version of TLS from 1.0 to 1.3", text)
	}
	return version, nil
}

// curves are what crypto/tls exchanges keys by.
var curves = []tls.CurveID{
	tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024, tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521,
}

// ParseCurves reads names with commas between them, like "X25519,P-256"; empty means
// all.
func ParseCurves(text string) ([]tls.CurveID, error) {
	if text == "" {
		return nil, nil
	}
	var known []string
	for _, c := range curves {
		known = append(known, client.CurveName(c))
	}
	var all []tls.CurveID
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(known, strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("%q: write names like X25519,P-256; there are %s", text, strings.Join(known, ", "))
		}
		all = append(all, curves[i])
	}
	return all, nil
}

// connectionFields are about one connection of HTTP/1.1; later protocols have none
// such (RFC 9113, section 8.2.2).
var connectionFields = []string{"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}

// CheckStreams refuses more requests at once than there can be.
func CheckStreams(all []Stage, streams int) error {
	for _, s := range all {
		if s.Users*streams > maxAtOnce {
			return fmt.Errorf("%d users with %d streams each are more than %d requests at once", s.Users, streams, maxAtOnce)
		}
	}
	return nil
}

// CheckTargets refuses targets that the protocol cannot ask for.
func CheckTargets(all []Target, p client.Protocol) error {
	if p == client.HTTP1 {
		return nil
	}
	for _, t := range all {
		if p == client.HTTP3 && t.URL.Scheme != "https" {
			return fmt.Errorf("%s: HTTP/3 is for https only", t.URL)
		}
		for _, f := range t.Fields {
			if slices.Contains(connectionFields, strings.ToLower(f.Name)) {
				return fmt.Errorf("%s has no field %s; leave it out", p, f.Name)
			}
		}
	}
	return nil
}
