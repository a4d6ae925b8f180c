package config

import (
	"net/netip"
	"strconv"
	"strings"
)

// routes checks every route, and that each can be reached.
func (k *checker) routes() {
	if len(k.Routes) == 0 && len(k.Farms) == 1 && k.Farms[0].raw() && !k.onlyTCP() {
		k.add("routes", "", problem{"no farm for requests: the servers of " + k.Farms[0].Name + " are of raw TCP",
			"write their URLs with http://, or give every listener tcp: {routes: [{farm: " + k.Farms[0].Name + "}]}"})
	}
	if len(k.Routes) == 0 && len(k.Farms) > 1 && !k.onlyTCP() {
		k.add("routes", "", problem{"no route, and several farms to choose from",
			"write routes: [{farm: " + k.Farms[0].Name + "}] for everything else"})
	}
	if len(k.Routes) > maxRoutes {
		k.add("routes", "", problem{"more than " + strconv.Itoa(maxRoutes), "merge some"})
		return
	}
	farms := k.farmNames()
	first := map[pattern]int{} // pattern → index of the first route that has it
	for i, r := range k.Routes {
		at := "routes[" + strconv.Itoa(i) + "]"
		k.target(r.Farm, farms, at+".farm")
		k.speaks(r.Farm, at+".farm")
		k.holding(r, at)
		k.upgrades(r.Upgrades, at+".upgrades")
		host, path := checkRouteHost(r.Host), checkRoutePath(r.Path)
		if host != nil {
			k.add(at+".host", r.Host, *host)
		}
		if path != nil {
			k.add(at+".path", r.Path, *path)
		}
		if host == nil && path == nil {
			k.reachable(r, i, first)
		}
	}
}

// target checks that a route's farm exists.
func (k *checker) target(farm string, farms []string, at string) {
	for _, known := range farms {
		if farm == known {
			return
		}
	}
	switch {
	case k.isBroken("farms") || len(farms) == 0: // told there
	case farm == "":
		k.add(at, "", problem{"a route names its farm", "the farms are " + list(farms, "and")})
	default:
		k.add(at, farm, problem{"no such farm", didYouMean(farm, farms, "the farms are")})
	}
}

// upgrades checks the names of protocols (RFC 9110 7.8; a version may follow).
func (k *checker) upgrades(names []string, at string) {
	for i, name := range names {
		if name == "" || strings.Trim(name, wordBytes+"./") != "" || name != strings.ToLower(name) {
			k.add(at+"["+strconv.Itoa(i)+"]", name, problem{"must be the name of a protocol in lower case, or connect", "write websocket"})
		}
	}
}

// pattern is what a route asks of a request, in its plain form.
type pattern struct{ host, path string }

// Pattern gives host and path in the form in which they are compared: the host
// in lower case without its final dot, the path without its final slash; both
// empty if they ask nothing. An IPv6 address is in brackets, in the text form of
// RFC 5952.
func (r Route) Pattern() (host, path string) {
	host = strings.ToLower(strings.TrimSuffix(r.Host, "."))
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(bare); err == nil && ip.Is6() {
		host = "[" + ip.String() + "]"
	}
	return host, strings.TrimSuffix(r.Path, "/")
}

// reachable finds an earlier route that takes every request of this one. It asks
// for each host and each path that covers this one's: a few look-ups, however
// many routes there are.
func (k *checker) reachable(r Route, i int, first map[pattern]int) {
	host, path := r.Pattern()
	earlier := i
	for _, h := range covering(host) {
		for p := path; ; p = p[:strings.LastIndexByte(p, '/')] {
			if j, ok := first[pattern{h, p}]; ok {
				earlier = min(earlier, j)
			}
			if p == "" {
				break
			}
		}
	}
	if earlier < i {
		k.add("routes["+strconv.Itoa(i)+"]", "", problem{
			"never matches: routes[" + strconv.Itoa(earlier) + "] takes all of its requests first",
			"move it before routes[" + strconv.Itoa(earlier) + "], or remove it"})
		return
	}
	first[pattern{host, path}] = i
}

// covering gives the hosts of routes that match whatever this one does: itself,
// any host, and each wildcard above it.
func covering(host string) []string {
	hosts := []string{host}
	if host == "" {
		return hosts
	}
	hosts = append(hosts, "")
	if strings.HasPrefix(host, "[") {
		return hosts
	}
	for rest := strings.TrimPrefix(host, "*."); ; {
		_, above, more := strings.Cut(rest, ".")
		if !more {
			return hosts
		}
		hosts = append(hosts, "*."+above)
		rest = above
	}
}

// checkRouteHost checks the host of a route: a name, an address, or a wildcard
// label before a name.
func checkRouteHost(host string) *problem {
	if host == "" {
		return nil
	}
	rest, wild := strings.CutPrefix(host, "*.")
	name, _, hasPort := cutPort(rest)
	_, afterScheme, isURL := strings.Cut(host, "://")
	switch {
	case host == "*":
		return &problem{"any host is written as no host", "leave the key out"}
	case isURL:
		return &problem{"a host, not a URL, belongs here", "write " + quote(strings.TrimSuffix(afterScheme, "/"))}
	case strings.Contains(host, "/"):
		return &problem{"a host holds no path", "write host " + quote(host[:strings.IndexByte(host, '/')]) + " and path " + quote(host[strings.IndexByte(host, '/'):])}
	case hasPort:
		return &problem{"ports are not compared", "write " + quote(strings.TrimSuffix(host, rest)+name)}
	case strings.HasPrefix(host, "."):
		return &problem{"names below a domain are written with a wildcard", "write " + quote("*"+host)}
	case strings.HasPrefix(host, "*") && !wild:
		return &problem{"the wildcard is a whole label", "write " + quote("*."+strings.TrimLeft(host, "*-."))}
	case strings.Contains(rest, "*"):
		return &problem{"only the first label may be a wildcard", `write "*.` + exampleBelow(rest) + `"`}
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() && ip.Zone() == "" {
		return nil
	}
	if p := checkHost(name); p != nil {
		return p
	}
	if last := name[strings.LastIndexByte(strings.TrimSuffix(name, "."), '.')+1:]; wild && (isDigits(last) || last[0] == '[') {
		return &problem{"an address has no names below it", "write a name after the wildcard, or the address alone"}
	}
	return nil
}

// exampleBelow makes a name out of one that has wildcards in it: a.* → a.example.
func exampleBelow(name string) string {
	labels := strings.Split(name, ".")
	for i, label := range labels {
		if strings.Contains(label, "*") {
			labels[i] = "example"
		}
	}
	return strings.Join(labels, ".")
}

// checkRoutePath checks the prefix that a route asks for.
func checkRoutePath(path string) *problem {
	if path == "" {
		return nil
	}
	switch {
	case strings.ContainsAny(path, "?#"):
		return &problem{"a route compares the path only, not what follows ? or #", "write " + quote(path[:strings.IndexAny(path, "?#")])}
	case strings.HasSuffix(path, "*"):
		return &problem{"a path matches all that is below it anyway", "write " + quote("/"+strings.Trim(strings.TrimRight(path, "*"), "/"))}
	case path[0] != '/':
		return &problem{"a path begins with /", "write " + quote("/"+path)}
	case strings.Contains(path, "//"):
		return &problem{"a segment of the path is empty", "write " + quote(onlyOneSlash(path))}
	case strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r > '~' }):
		return &problem{"a path holds ASCII without spaces", "write other bytes as %XX, as the client sends them"}
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return &problem{"a path holds no " + segment + " segment", "write the path that is meant"}
		}
	}
	return nil
}

func onlyOneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}
