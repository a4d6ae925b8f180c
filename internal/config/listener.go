package config

import (
	"net/netip"
	"strconv"
	"strings"
)

// listeners checks the addresses that are listened on, the admin's among them.
func (k *checker) listeners() {
	if len(k.Listeners) == 0 {
		k.add("listeners", "", problem{"no listener: nobody could connect", `write [{address: ":8080"}], or leave the key out for just that`})
	}
	if len(k.Listeners) > maxListeners {
		k.add("listeners", "", problem{"more than " + strconv.Itoa(maxListeners), "use fewer addresses"})
	}
	names := map[string]string{}   // name → path of its listener
	sockets := map[string]string{} // address in one spelling → path of who has it
	k.adminAddress(sockets)
	for i, l := range k.Listeners {
		at := "listeners[" + strconv.Itoa(i) + "]"
		k.address(at+".address", l.Address, sockets)
		checkBounds(k, strconv.Itoa, []bound[int]{{at + ".backlog", l.Backlog, 1, maxBacklog}})
		k.oneOf(at+".steering", l.Steering, []string{SteerAuto, SteerNode, SteerCPU, SteerHash})
		k.oneOf(at+".steering_away", l.Away, []string{AwayWait, AwaySpread})
		k.protocols(l.Protocols, at+".protocols")
		if l.TLS != nil {
			k.listenerTLS(l.TLS, at+".tls")
		}
		k.http3(l, at)
		k.proxyProtocol(l, at+".proxy_protocol")
		k.redirect(l, at+".redirect")
		k.tcp(l, at)
		if first, taken := names[l.Name]; taken && l.Name != l.Address {
			k.add(at+".name", l.Name, problem{"the name of " + first + " too", "give each listener its own name"})
		} else if !taken {
			names[l.Name] = at
		}
	}
}

// proxyProtocol checks that somebody may send the header that is asked for.
func (k *checker) proxyProtocol(l Listener, at string) {
	k.oneOf(at, l.ProxyProtocol, []string{ProxyOff, ProxyOn})
	if l.ProxyProtocol == ProxyOn && len(k.Trust) == 0 && !k.isBroken("trust") {
		k.add(at, l.ProxyProtocol, problem{"a PROXY header is taken from addresses in trust only, and there is none", `add trust: ["10.0.0.0/8"] with the proxies before this one`})
	}
}

// redirect checks where clients are sent.
func (k *checker) redirect(l Listener, at string) {
	scheme, port, hasPort := strings.Cut(l.Redirect, ":")
	n, err := strconv.Atoi(port)
	switch {
	case l.Redirect == "":
	case scheme != "https", hasPort && (err != nil || n < 1 || n > 65535):
		k.add(at, l.Redirect, problem{"must be https, or https: and a port", "write https"})
	case l.TLS != nil:
		k.add(at, l.Redirect, problem{"its clients have come by https", "remove redirect, or tls"})
	}
}

// adminAddress checks admin.listen: an address, unix:PATH or off.
func (k *checker) adminAddress(sockets map[string]string) {
	const at = "admin.listen"
	listen := k.Admin.Listen
	path, unix := strings.CutPrefix(listen, "unix:")
	switch {
	case listen == "off":
	case unix && !strings.HasPrefix(path, "/"):
		k.add(at, listen, problem{"the path of a socket is absolute", `write "unix:/run/sluice/admin.sock"`})
	case unix && len(path) > maxSocketPath:
		k.add(at, listen, problem{"the path is longer than the " + strconv.Itoa(maxSocketPath) + " bytes of a socket's name", "use a shorter one"})
	case unix:
	case isPort(listen):
		k.add(at, listen, problem{"a port without its address", "write " + quote("127.0.0.1:"+listen)})
	default:
		k.address(at, listen, sockets)
	}
}

// maxSocketPath is the room for a path in sockaddr_un, unix(7), its final NUL
// taken off.
const maxSocketPath = 107

// address checks [host]:port and that nobody else has it. Port 0, which lets the
// kernel choose, is never taken.
func (k *checker) address(at, address string, sockets map[string]string) {
	host, port, p := splitAddress(address)
	if p != nil {
		k.add(at, address, *p)
		return
	}
	if port == "0" {
		return
	}
	key := host + ":" + port
	if first, taken := sockets[key]; taken {
		k.add(at, address, problem{"taken by " + first, "use another port"})
		return
	}
	sockets[key] = at
}

// splitAddress takes an address to listen on apart. All spellings of "every
// address of this machine" give an empty host.
func splitAddress(address string) (host, port string, p *problem) {
	const form = `write ":8080", "127.0.0.1:8080" or "[::1]:8080"`
	colon := strings.LastIndexByte(address, ':')
	switch {
	case address == "":
		return "", "", &problem{"no address", form}
	case isPort(address):
		return "", "", &problem{"a port without its colon", "write " + quote(":"+address)}
	case strings.Contains(address, "://"):
		return "", "", &problem{"an address is not a URL", form}
	case colon < 0 || address[len(address)-1] == ']':
		return "", "", &problem{"no port", "write " + quote(address+":8080")}
	}
	host, port = address[:colon], address[colon+1:]
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		return "", "", &problem{"an IPv6 address stands in brackets before its port", `write "[` + address + `]:8080"`}
	}
	if !isPort(port) && port != "0" {
		return "", "", &problem{"the port is not a number from 0 to 65535", form}
	}
	host, p = hostToListenOn(host, port)
	return host, port, p
}

// hostToListenOn checks the host of an address: an IP, localhost or nothing.
// Other names are refused, since what they mean may change between two starts.
func hostToListenOn(host, port string) (string, *problem) {
	bare, bracketed := strings.CutPrefix(host, "[")
	bare = strings.TrimSuffix(bare, "]")
	ip, err := netip.ParseAddr(bare)
	switch {
	case host == "":
		return "", nil
	case host == "localhost":
		return "127.0.0.1", nil
	case host == "*":
		return "", &problem{"every address is written as nothing before the colon", "write " + quote(":"+port)}
	case err != nil && bracketed:
		return "", &problem{"not an IPv6 address in the brackets", "write " + quote("[::1]:"+port)}
	case err != nil:
		return "", &problem{"the host is no IP address of this machine", "write " + quote(":"+port) + " for all addresses, or one such as " + quote("127.0.0.1:"+port)}
	case ip.Is6() && (!bracketed || host[len(host)-1] != ']'):
		return "", &problem{"an IPv6 address stands in brackets before its port", "write " + quote("["+bare+"]:"+port)}
	case ip.Is4() && bracketed:
		return "", &problem{"an IPv4 address takes no brackets", "write " + quote(bare+":"+port)}
	case ip.IsUnspecified():
		return "", nil
	}
	return ip.String(), nil
}
