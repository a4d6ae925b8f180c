package config

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// tcp checks where the connections of a listener go.
func (k *checker) tcp(l Listener, at string) {
	t := l.TCP
	if t == nil {
		return
	}
	if l.Redirect != "" {
		k.add(at+".redirect", l.Redirect, problem{"a raw TCP listener sends nobody elsewhere", "remove redirect, or tcp"})
	}
	if slices.Contains(l.Protocols, HTTP3) {
		k.add(at+".protocols", HTTP3, problem{"raw TCP speaks no HTTP", "remove " + HTTP3 + ", or tcp"})
	}
	at += ".tcp"
	checkBounds(k, strconv.Itoa, []bound[int]{{at + ".connections", t.Connections, 0, maxConnections}})
	at += ".routes"
	switch {
	case len(t.Routes) == 0:
		k.add(at, "", problem{"no route: nobody could be served", "write [{farm: NAME}]"})
	case len(t.Routes) > maxRoutes:
		k.add(at, "", problem{"more than " + strconv.Itoa(maxRoutes), "use names with a wildcard"})
		return
	}
	first := map[string]int{} // name, plain → index of the first route that has it
	for i, r := range t.Routes {
		one := at + "[" + strconv.Itoa(i) + "]"
		k.target(r.Farm, k.farmNames(), one+".farm")
		k.twice(l, r, one+".farm")
		if p := checkSNI(r.SNI); p != nil {
			k.add(one+".sni", r.SNI, *p)
			continue
		}
		name := r.Name()
		earlier := i
		for _, covers := range covering(name) {
			if j, taken := first[covers]; taken {
				earlier = min(earlier, j)
			}
		}
		if earlier < i {
			k.add(one, "", problem{"never matches: routes[" + strconv.Itoa(earlier) + "] takes all of its connections first",
				"move it before routes[" + strconv.Itoa(earlier) + "], or remove it"})
			continue
		}
		first[name] = i
	}
}

func (k *checker) farmNames() []string {
	names := make([]string, len(k.Farms))
	for i := range k.Farms {
		names[i] = k.Farms[i].Name
	}
	return names
}

// Name gives the route's name in the form in which names are compared: in lower case
// and without a final dot.
func (r TCPRoute) Name() string { return strings.ToLower(strings.TrimSuffix(r.SNI, ".")) }

// checkSNI checks a name that TLS may ask for: never an address (RFC 6066 3).
func checkSNI(name string) *problem {
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return &problem{"clients of TLS ask for names, not for addresses", "leave sni out: such clients ask for no name"}
	}
	return checkRouteHost(name)
}

// speaks checks that servers which get requests are not said to be of raw TCP.
func (k *checker) speaks(farm, at string) {
	for i := range k.Farms {
		if f := &k.Farms[i]; f.Name == farm && f.raw() {
			k.add(at, farm, problem{"its servers are of raw TCP (tcp://) and get no requests", "write their URLs with http://, or route a listener's tcp there"})
		}
	}
}

// twice checks that a client's TLS which goes through is not put into another.
func (k *checker) twice(l Listener, r TCPRoute, at string) {
	i := slices.IndexFunc(k.Farms, func(f Farm) bool { return f.Name == r.Farm })
	if l.TLS == nil && r.SNI != "" && i >= 0 && slices.ContainsFunc(k.Farms[i].Servers, Server.Secure) {
		k.add(at, r.Farm, problem{"the client's TLS goes through, and its servers are https://: there would be TLS in TLS",
			"write their URLs with tcp:// and a port, or give the listener tls"})
	}
}

// carriesRaw checks a farm that gets raw TCP: what is about requests does nothing for it.
func (k *checker) carriesRaw(f *Farm, at string) {
	if !k.Raw(f.Name) {
		return
	}
	requests := slices.ContainsFunc(k.Routes, func(r Route) bool { return r.Farm == f.Name }) || len(k.Routes) == 0 && len(k.Farms) == 1 && !k.onlyTCP()
	switch {
	case f.Protocol != HTTP1 && !requests:
		k.add(at+".protocol", f.Protocol, problem{"raw TCP goes to servers as it is, whatever it speaks", "remove protocol"})
	case f.Protocol == HTTP2 && slices.ContainsFunc(f.Servers, Server.Secure):
		k.add(at+".protocol", f.Protocol, problem{"https:// servers that get raw TCP too are not asked to agree to HTTP/2", "give raw TCP a farm of its own"})
	}
	switch a := &f.Admission; {
	case requests:
	case a.Limit != "off" && a.Limit != "adaptive":
		n := "50"
		if fixed, is := a.Limit.Fixed(); is {
			n = strconv.Itoa(fixed)
		}
		k.add(at+".admission.limit", string(a.Limit), problem{"it is of requests, and raw TCP has none", "write connections: {max: " + n + "}: connections beyond wait up to timeouts.connect"})
	case a.Target != 0:
		k.add(at+".admission.target", a.Target.String(), problem{"it is of responses, and raw TCP has none", "remove target"})
	}
}

// raw reports whether a server of the farm is of raw TCP only.
func (f *Farm) raw() bool { return slices.ContainsFunc(f.Servers, Server.Raw) }

// onlyTCP reports whether no listener takes requests.
func (k *checker) onlyTCP() bool {
	for i := range k.Listeners {
		if k.Listeners[i].TCP == nil {
			return false
		}
	}
	return len(k.Listeners) > 0
}

// Raw reports whether a listener of raw TCP sends connections to a farm.
func (c *Config) Raw(farm string) bool {
	for i := range c.Listeners {
		t := c.Listeners[i].TCP
		if t != nil && slices.ContainsFunc(t.Routes, func(r TCPRoute) bool { return r.Farm == farm }) {
			return true
		}
	}
	return false
}
