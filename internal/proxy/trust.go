package proxy

import (
	"net/netip"

	"sluice/internal/message"
)

// realClient is the client that trusted proxies before us tell of: the last
// address in X-Forwarded-For that is not itself trusted. Invalid if they tell of
// none, or the peer is not trusted.
func (x *exchange) realClient() (client netip.Addr) {
	if !x.trusted {
		return client
	}
	for i := range x.req.Fields {
		f := &x.req.Fields[i]
		if f.ID != message.XForwardedFor {
			continue
		}
		for list := f.Value; ; {
			var token []byte
			if token, list = message.NextToken(list); token == nil {
				break
			}
			if a := parseForwarded(token); a.IsValid() && (!client.IsValid() || !x.snap.trusts(a)) {
				client = a
			}
		}
	}
	return client
}

// parseForwarded reads an address with or without a port.
func parseForwarded(token []byte) netip.Addr {
	text := string(token)
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Unmap()
	}
	if ap, err := netip.ParseAddrPort(text); err == nil {
		return ap.Addr().Unmap()
	}
	return netip.Addr{}
}
