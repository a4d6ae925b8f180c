package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// farms checks every farm, and that together they fit into the segment.
func (k *checker) farms() {
	if len(k.Farms) == 0 {
		k.add("farms", "", problem{"no farm: nothing to forward requests to",
			`write farms: {app: {servers: [{url: "http://127.0.0.1:3000"}]}}`})
	}
	total := 0
	for i := range k.Farms {
		k.farm(&k.Farms[i])
		total += len(k.Farms[i].Servers)
	}
	if total > maxServers {
		k.add("farms", "", problem{strconv.Itoa(total) + " servers in all, more than " + strconv.Itoa(maxServers), "split them over several machines"})
	}
}

func (k *checker) farm(f *Farm) {
	at := join("farms", f.Name)
	if strings.Trim(f.Name, wordBytes+".") != "" || f.Name == "" || len(f.Name) > maxFarmName {
		k.add(at, "", problem{"the name of a farm has letters, digits, dots, - and _, " + strconv.Itoa(maxFarmName) + " at most", "rename it"})
	}
	t := f.Timeouts
	checkBounds(k, Duration.String, []bound[Duration]{
		{at + ".timeouts.connect", t.Connect, minWait, maxWait},
		{at + ".timeouts.first_byte", t.FirstByte, minWait, maxWait},
		{at + ".timeouts.idle", t.Idle, minWait, maxWait},
		{at + ".timeouts.keep_alive", t.KeepAlive, minWait, maxWait},
		{at + ".timeouts.continue", t.Continue, 0, maxWait},
		{at + ".timeouts.tunnel", t.Tunnel, minWait, maxWait},
		{at + ".fail_for", f.FailFor, 0, maxWait},
	})
	checkBounds(k, strconv.Itoa, []bound[int]{
		{at + ".connections.max", f.Connections.Max, 0, maxConnections},
		{at + ".connections.idle", f.Connections.Idle, 0, maxConnections},
		{at + ".retries", f.Retries, 0, maxRetries},
	})
	k.relations(f, at)
	k.admission(&f.Admission, at+".admission")
	k.spill(f.Spill.Threshold, at+".spill.threshold")
	k.hostForServers(f.Host, at+".host")
	k.oneOf(at+".protocol", f.Protocol, []string{HTTP1, HTTP2, ProtocolAuto})
	k.announce(f, at+".proxy_protocol")
	k.carriesRaw(f, at)
	k.servers(f, at+".servers")
	k.farmTLS(f, at+".tls")
}

// announce checks that a connection whose header tells one client can be that client's.
func (k *checker) announce(f *Farm, at string) {
	k.oneOf(at, f.ProxyProtocol, []string{ProxyOff, ProxyV1, ProxyV2})
	shares := f.Protocol == HTTP2 || slices.ContainsFunc(f.Servers, func(s Server) bool { return strings.HasPrefix(s.URL, "h2://") })
	if shares && (f.ProxyProtocol == ProxyV1 || f.ProxyProtocol == ProxyV2) {
		k.add(at, f.ProxyProtocol, problem{"a connection of HTTP/2 carries the requests of many clients, and the header tells one", "write off, or " + HTTP1 + " as protocol"})
	}
}

// relations checks values of a farm against each other.
func (k *checker) relations(f *Farm, at string) {
	if c := f.Connections; c.Max > 0 && c.Idle > c.Max {
		k.add(at+".connections.idle", strconv.Itoa(c.Idle), problem{
			"more than connections.max (" + strconv.Itoa(c.Max) + ")", "write " + strconv.Itoa(c.Max) + " at most"})
	}
	if t := f.Timeouts; t.Continue > t.FirstByte {
		k.add(at+".timeouts.continue", t.Continue.String(), problem{
			"more than timeouts.first_byte (" + t.FirstByte.String() + ")", "write " + t.FirstByte.String() + " at most"})
	}
}

// hostForServers checks farm.host: preserve, server or a name.
func (k *checker) hostForServers(host, at string) {
	name, port, hasPort := cutPort(host)
	near, slip := nearest(host, []string{"preserve", "server"})
	switch {
	case host == "preserve" || host == "server":
	case slip:
		k.add(at, host, problem{"neither preserve nor server", "did you mean " + quote(near) + "?"})
	case host == "":
		k.add(at, host, problem{"no host", "write preserve, server or a name"})
	case hasPort && !isPort(port):
		k.add(at, host, problem{"the port is not a number from 1 to 65535", "write " + quote(name)})
	default:
		if p := checkHost(name); p != nil {
			k.add(at, host, *p)
		}
	}
}

func (k *checker) servers(f *Farm, at string) {
	if len(f.Servers) == 0 {
		k.add(at, "", problem{"a farm has at least one server", `write servers: [{url: "http://127.0.0.1:3000"}]`})
	}
	seen := map[string]int{} // endpoint → index of its server
	for i, s := range f.Servers {
		one := at + "[" + strconv.Itoa(i) + "]"
		checkBounds(k, strconv.Itoa, []bound[int]{{one + ".weight", s.Weight, 0, maxWeight}})
		k.node(s.Node, one+".node")
		if p := checkURL(s.URL); p != nil {
			k.add(one+".url", s.URL, *p)
			continue
		}
		network, address := s.Endpoint()
		first, again := seen[network+address]
		if again {
			k.add(one+".url", s.URL, problem{"the same server as servers[" + strconv.Itoa(first) + "]", "remove one, and give the other more weight"})
			continue
		}
		seen[network+address] = i
	}
}

// Endpoint gives what net.Dial takes to reach the server: "tcp" and host:port,
// or "unix" and a path. The URL must have passed Validate.
func (s Server) Endpoint() (network, address string) {
	if path, unix := strings.CutPrefix(s.URL, "http+unix://"); unix {
		return "unix", path
	}
	scheme, address, _ := strings.Cut(s.URL, "://")
	address = strings.TrimSuffix(address, "/")
	if _, _, hasPort := cutPort(address); !hasPort {
		address += defaultPorts[scheme]
	}
	return "tcp", strings.ToLower(address)
}

var defaultPorts = map[string]string{"http": ":80", "https": ":443", "h2": ":80"}

// Secure reports whether the server is spoken to over TLS.
func (s Server) Secure() bool { return strings.HasPrefix(s.URL, "https://") }

// Host is the host of the server's URL without port and brackets; empty for a Unix
// socket.
func (s Server) Host() string {
	network, address := s.Endpoint()
	if network == "unix" {
		return ""
	}
	host, _, _ := cutPort(address)
	return strings.Trim(host, "[]")
}

// checkURL checks the URL of a server. It says nothing but where the server is.
func checkURL(text string) *problem {
	const form = `write "http://127.0.0.1:3000", "https://127.0.0.1:3443", "h2://127.0.0.1:3000" or "http+unix:///run/app.sock"`
	scheme, rest, ok := strings.Cut(text, "://")
	switch {
	case text == "":
		return &problem{"no URL", form}
	case len(text) > maxURL:
		return &problem{"longer than " + strconv.Itoa(maxURL) + " bytes", "use a shorter name or path"}
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &problem{"a URL holds ASCII without spaces", form}
	case strings.HasPrefix(text, "unix:"):
		return &problem{"a Unix socket is given as a URL", "write " + quote("http+unix://"+strings.TrimPrefix(strings.TrimPrefix(text, "unix:"), "//"))}
	case strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "//"):
		return &problem{"a URL begins with its scheme", "write " + quote("http+unix://"+text)}
	case !ok && isPort(text):
		return &problem{"a URL names its scheme and host", "write " + quote("http://127.0.0.1:"+text)}
	case !ok:
		return &problem{"a URL begins with its scheme", "write " + quote("http://"+strings.TrimPrefix(text, "//"))}
	case scheme == "http+unix":
		return checkSocketURL(rest)
	case scheme == "https+unix":
		return &problem{"TLS is not spoken over a Unix socket", "write " + quote("http+unix://"+rest)}
	case strings.EqualFold(scheme, "tcp"):
		return checkRawURL(rest)
	case !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "h2"):
		return &problem{"not a scheme that Sluice speaks to servers", form}
	}
	return checkAuthority(strings.ToLower(scheme)+"://", rest)
}

// checkRawURL checks what follows tcp://.
func checkRawURL(rest string) *problem {
	if p := checkAuthority("tcp://", rest); p != nil {
		return p
	}
	authority := strings.TrimSuffix(rest, "/")
	if _, _, hasPort := cutPort(authority); !hasPort {
		return &problem{"raw TCP has no port by default", "write " + quote("tcp://"+authority+":5432") + " with the server's port"}
	}
	return nil
}

// Raw reports whether the server is of raw TCP only: it gets no requests.
func (s Server) Raw() bool { return strings.HasPrefix(s.URL, "tcp://") }

func checkSocketURL(path string) *problem {
	switch {
	case !strings.HasPrefix(path, "/"):
		return &problem{"the path of a socket is absolute", "write " + quote("http+unix:///"+path) + ", with three slashes"}
	case len(path) > maxSocketPath:
		return &problem{"the path is longer than the " + strconv.Itoa(maxSocketPath) + " bytes of a socket's name", "use a shorter one"}
	case strings.ContainsAny(path, "?#%"):
		return &problem{"the path of a socket is taken as it stands, without ?, # and %", "use another path"}
	case strings.HasSuffix(path, "/"):
		return &problem{"a directory, not a socket", "write " + quote("http+unix://"+path+"app.sock")}
	}
	return nil
}

// checkAuthority checks what follows the scheme.
func checkAuthority(scheme, rest string) *problem {
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		return &problem{"a user and password in a URL are not sent anywhere", "write " + quote(scheme+authority[at+1:])}
	}
	host, port, hasPort := cutPort(authority)
	ip, err := netip.ParseAddr(authority)
	switch {
	case err == nil && ip.Is6():
		return &problem{"an IPv6 address stands in brackets", "write " + quote(scheme+"["+authority+"]")}
	case path != "" && path != "/":
		return &problem{"a server's URL has no path, query or fragment: the request's is used", "write " + quote(scheme+authority)}
	case host == "":
		return &problem{"no host", "write " + quote(scheme+"127.0.0.1"+authority)}
	case hasPort && !isPort(port):
		return &problem{"the port is not a number from 1 to 65535", "write " + quote(scheme+host+":3000")}
	}
	return checkHost(host)
}

// cutPort takes the port off host:port. Without a port the host is all of it,
// and so it is for an IPv6 address that lacks its brackets.
func cutPort(authority string) (host, port string, found bool) {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.HasPrefix(authority, "[") && colon < strings.IndexByte(authority+"]", ']') {
		return authority, "", false
	}
	host = authority[:colon]
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return authority, "", false
	}
	return host, authority[colon+1:], true
}

// checkHost checks a host as it stands in a URL or in Host: a name, an IPv4
// address, or an IPv6 address in brackets (RFC 3986 3.2.2).
func checkHost(host string) *problem {
	if bare, bracketed := strings.CutPrefix(host, "["); bracketed {
		bare, closed := strings.CutSuffix(bare, "]")
		if ip, err := netip.ParseAddr(bare); !closed || err != nil || !ip.Is6() || ip.Zone() != "" {
			return &problem{"not an IPv6 address in the brackets", `write it as "[::1]", without a zone`}
		}
		return nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		return &problem{"an IPv6 address stands in brackets", "write " + quote("["+host+"]")}
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	if isDigits(labels[len(labels)-1]) {
		if _, err := netip.ParseAddr(host); err != nil {
			return &problem{"neither a name nor an IPv4 address", "write four numbers up to 255, or a name"}
		}
		return nil
	}
	if slices.ContainsFunc(labels, func(l string) bool { return !isLabel(l) }) || len(host) > maxHostName {
		return &problem{"not a host name", "write letters, digits, - and dots; names of other scripts in their xn-- form"}
	}
	return nil
}

// maxHostName is the longest name in the DNS, RFC 1035 2.3.4, as text.
const maxHostName = 253

// isLabel tells one part of a name: up to 63 bytes (RFC 1035 2.3.4). The
// underscore is in no host name of the RFC, but in many a container's.
func isLabel(s string) bool {
	return s != "" && len(s) <= 63 && strings.Trim(s, wordBytes) == "" && s[0] != '-' && s[len(s)-1] != '-'
}
