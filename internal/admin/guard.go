package admin

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// guard stands before every page. The admin interface has no password: being on
// loopback is its protection, and the browser of whoever sits there is the way
// around it. So it refuses what a page of another site could make that browser
// send:
//
//   - a request under a foreign name, which is how DNS rebinding looks: an
//     attacker's name that was made to resolve to 127.0.0.1;
//   - a POST from another origin (Sec-Fetch-Site, Origin).
func guard(view View, next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(r, view.Config().Admin.Listen) {
			http.Error(w, "The name "+quote(r.Host)+" is not known to be mine. Ask by an IP address or localhost, "+
				"or write the name in admin.listen.", http.StatusForbidden)
			return
		}
		if err := crossOrigin.Check(r); err != nil {
			http.Error(w, "This request comes from a page of another site: "+err.Error()+".", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// hostAllowed tells whether r names this server by something that no foreign DNS
// zone can claim: an IP address, localhost, the name of the machine, or the name
// that the configuration listens on. No browser reaches a Unix socket.
func hostAllowed(r *http.Request, listen string) bool {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		return true
	}
	name := hostName(r.Host)
	if _, err := netip.ParseAddr(name); err == nil || name == "" {
		return true
	}
	known := []string{"localhost", hostName(listen)}
	if machine, err := os.Hostname(); err == nil {
		known = append(known, machine)
	}
	return slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) })
}

// hostName is host[:port] without the port and without an IPv6 address's brackets.
func hostName(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
}

// quote shortens a client's text for an answer, and makes it harmless.
func quote(s string) string {
	const limit = 80 // bytes, enough to recognise a name
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(`"`+s+`"`, "?")
}
