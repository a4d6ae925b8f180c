package keyring

import (
	"crypto/x509"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/internal/config"
)

// soon is how long before its end a certificate is told to be renewed. Automatic
// renewal happens earlier: with a third of the life left, 30 of 90 days.
const soon = 14 * 24 * time.Hour

// EndsSoon tells that a certificate's life is over within two weeks. One that is asked for
// by ACME is asked for anew when a third of its life is left, which may be shorter: so of
// that a quarter counts.
func (c Cert) EndsSoon(now time.Time) bool {
	within := soon
	if c.Asked != "" {
		within = min(within, c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)/4)
	}
	return c.Leaf.NotAfter.Sub(now) < within
}

// Doubts are what is wrong with certificates at a moment, or soon will be, though they can
// be served.
func (r *Ring) Doubts(now time.Time) []Doubt {
	var doubts []Doubt
	for _, f := range r.open {
		doubts = append(doubts, Doubt{Fault: f})
	}
	for _, c := range r.Certs {
		doubt := Doubt{Fault: config.Fault{Path: c.Path, Value: strconv.Quote(c.File), Cure: "ask for a new one"}}
		switch left := c.Leaf.NotAfter.Sub(now); {
		case left <= 0:
			doubt.Rule, doubt.Grave = "has expired on "+day(c.Leaf.NotAfter), true
		case now.Before(c.Leaf.NotBefore):
			doubt.Rule, doubt.Grave = "is not valid before "+day(c.Leaf.NotBefore), true
			doubt.Cure = "look at the clock of this machine"
		case c.Staple != nil && !c.Staple.Until.After(now):
			doubt.Rule = "the word of its authority (ocsp) was good until " + day(c.Staple.Until) + ", and is not shown any more"
			doubt.Cure = "ask the authority again, or write ocsp: auto"
		case c.Ask && c.Issuer == nil:
			doubt.Rule = "its authority cannot be asked whether it is good, since the file does not hold the authority's certificate"
			doubt.Cure = "add that after the first, or write ocsp: off"
		case c.EndsSoon(now):
			doubt.Rule = "expires soon, on " + day(c.Leaf.NotAfter)
		case !c.toServers() && len(c.Leaf.DNSNames)+len(c.Leaf.IPAddresses) == 0:
			doubt.Rule = "names no host (subject alternative names, RFC 9525 2): clients take it for none"
		default:
			continue
		}
		doubts = append(doubts, doubt)
	}
	return doubts
}

// Uncovered are the hosts of routes that no certificate of any listener with TLS names:
// clients that ask for them are shown one of somebody else.
func (r *Ring) Uncovered(cfg *config.Config) []Doubt {
	if !slices.ContainsFunc(cfg.Listeners, func(l config.Listener) bool { return l.TLS != nil }) {
		return nil
	}
	var doubts []Doubt
	for i, route := range cfg.Routes {
		host, _ := route.Pattern()
		covers := func(c Cert) bool { return !c.toServers() && covers(c.Leaf, host) }
		asked := cfg.TLS.ACME != nil && slices.Contains(cfg.TLS.ACME.Names, host)
		if host == "" || asked || slices.ContainsFunc(r.Certs, covers) {
			continue
		}
		doubts = append(doubts, Doubt{Fault: config.Fault{
			Path: "routes[" + strconv.Itoa(i) + "].host", Value: strconv.Quote(route.Host),
			Rule: "no certificate covers it", Cure: "ask for one that does, unless clients come there without TLS",
		}})
	}
	return doubts
}

// toServers tells that a certificate is shown to servers, and to no client.
func (c Cert) toServers() bool { return strings.HasPrefix(c.Path, "farms.") }

// covers tells whether a certificate is good for the host of a route. One with a wildcard
// covers a route of that wildcard, though it takes names of more labels too.
func covers(leaf *x509.Certificate, host string) bool {
	if strings.HasPrefix(host, "*.") {
		return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, host) })
	}
	return leaf.VerifyHostname(host) == nil
}

// Doubt is one of them.
type Doubt struct {
	config.Fault
	Grave bool // clients refuse the certificate now
}

func day(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 MST") }
