package keyring

import (
	"strconv"
	"time"

	"sluice/internal/config"
)

// soon is how long before its end a certificate is told to be renewed. Automatic
// renewal happens earlier: with a third of the life left, 30 of 90 days.
const soon = 14 * 24 * time.Hour

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
		case left < soon:
			doubt.Rule = "expires soon, on " + day(c.Leaf.NotAfter)
		case len(c.Leaf.DNSNames)+len(c.Leaf.IPAddresses) == 0:
			doubt.Rule = "names no host (subject alternative names, RFC 9525 2): clients take it for none"
		default:
			continue
		}
		doubts = append(doubts, doubt)
	}
	return doubts
}

// Doubt is one of them.
type Doubt struct {
	config.Fault
	Grave bool // clients refuse the certificate now
}

func day(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 MST") }
