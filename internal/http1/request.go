package http1

import (
	"bytes"
	"net/netip"

	"sluice/internal/message"
)

// ParseRequest reads a request head from the start of b. n is its length, 0 if b
// does not hold all of it. Faults are found in the order of the bytes, as soon as
// the line they are in is complete, so that the result does not depend on how
// the bytes were cut. Errors are *Fault.
func ParseRequest(b []byte, lim *Limits, r *message.Request) (n int, err error) {
	r.Reset()
	start := 0
	if len(b) > 0 && b[0] == '\r' { // one empty line before a request is passed over (RFC 9112 2.2)
		if len(b) < 2 {
			return 0, nil
		}
		if b[1] != '\n' {
			return 0, errBareCR
		}
		start = 2
	}
	if len(b) > start && class[b[start]]&tokenChar == 0 {
		return 0, errMethod
	}
	text, next, err := line(b[start:])
	if next == 0 || len(text) > lim.Line {
		return 0, incompleteLine(len(b)-start, text, lim, err)
	}
	if err := parseRequestLine(text, r); err != nil {
		return 0, err
	}
	r.Fields, n, err = parseFields(b, start+next, lim, errHead, r.Fields)
	if err != nil || n == 0 {
		return 0, err
	}
	return n, readRequest(r)
}

// incompleteLine is the fault of a first line that is too long or ends wrongly;
// nil if it may still become a good one. have is how many bytes of it are there.
func incompleteLine(have int, text []byte, lim *Limits, err error) error {
	switch {
	case err != nil:
		return err
	case len(text) > lim.Line || text == nil && have > lim.Line+1: // + its CR
		return errLine
	}
	return nil
}

// parseRequestLine reads method SP target SP version (RFC 9112 3).
func parseRequestLine(text []byte, r *message.Request) error {
	n := span(text, tokenChar)
	if n == 0 {
		return errMethod
	}
	if n == len(text) || text[n] != ' ' {
		return errRequestLine
	}
	r.MethodName = text[:n]
	r.Method = method(r.MethodName)
	rest := text[n+1:]
	if n = bytes.IndexByte(rest, ' '); n <= 0 {
		return errRequestLine
	}
	r.Target = rest[:n]
	var err error
	if r.Version, err = version(rest[n+1:]); err != nil {
		return err
	}
	return parseTarget(r)
}

func method(name []byte) message.Method {
	switch string(name) {
	case "GET":
		return message.GET
	case "HEAD":
		return message.HEAD
	case "POST":
		return message.POST
	case "PUT":
		return message.PUT
	case "DELETE":
		return message.DELETE
	case "OPTIONS":
		return message.OPTIONS
	case "TRACE":
		return message.TRACE
	case "CONNECT":
		return message.CONNECT
	case "PATCH":
		return message.PATCH
	}
	return message.Other
}

// version reads HTTP-version (RFC 9112 2.3).
func version(b []byte) (message.Version, error) {
	switch string(b) {
	case "HTTP/1.1":
		return message.HTTP11, nil
	case "HTTP/1.0":
		return message.HTTP10, nil
	}
	if bytes.IndexByte(b, ' ') >= 0 {
		return 0, errRequestLine
	}
	if len(b) != len("HTTP/1.1") || string(b[:5]) != "HTTP/" || b[6] != '.' || !digit(b[5]) || !digit(b[7]) {
		return 0, errVersionSyntax
	}
	return 0, errVersion
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// parseTarget checks the target's form and takes an absolute one apart, so that
// r.Target is what is forwarded (RFC 9112 3.2).
func parseTarget(r *message.Request) error {
	t := r.Target
	switch {
	case r.Method == message.CONNECT:
		if !validHost(t) {
			return errTarget
		}
		r.Host = t
		return nil
	case t[0] == '/':
		return checkPath(t)
	case string(t) == "*":
		if r.Method != message.OPTIONS {
			return errTarget
		}
		return nil
	}
	return parseAbsolute(r)
}

// parseAbsolute reads absolute-form: the authority becomes Host, the rest the
// target (RFC 9112 3.2.2).
func parseAbsolute(r *message.Request) error {
	colon := bytes.IndexByte(r.Target, ':')
	if colon < 0 || !bytes.HasPrefix(r.Target[colon:], []byte("://")) {
		return errTarget
	}
	rest := r.Target[colon+3:]
	switch scheme := r.Target[:colon]; {
	case message.EqualFold(scheme, "https"):
		return errScheme
	case !message.EqualFold(scheme, "http"):
		return errTarget
	}
	end := bytes.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	r.Host, r.Absolute = rest[:end], true
	if bytes.IndexByte(r.Host, '@') >= 0 {
		return errUserinfo
	}
	if !validHost(r.Host) {
		return errHost
	}
	return originForm(r, rest[end:])
}

// originForm sets the target from what follows the authority.
func originForm(r *message.Request, path []byte) error {
	switch {
	case len(path) > 0 && path[0] == '/':
		r.Target = path
		return checkPath(path)
	case len(path) > 0:
		return errTarget // a query without a path: its origin-form would have to be made up
	case r.Method == message.OPTIONS:
		r.Target = asterisk // RFC 9112 3.2.4
	default:
		r.Target = slash
	}
	return nil
}

var (
	asterisk = []byte("*")
	slash    = []byte("/")
)

// checkPath checks absolute-path [ "?" query ].
func checkPath(t []byte) error {
	n := span(t, pathChar)
	if n < len(t) && (t[n] != '?' || n+1+span(t[n+1:], queryChar) != len(t)) {
		return errTargetChar
	}
	for path := t[:n]; ; {
		i := bytes.IndexByte(path, '%')
		if i < 0 {
			return nil
		}
		if len(path) < i+3 || class[path[i+1]]&class[path[i+2]]&hexChar == 0 {
			return errTargetChar
		}
		path = path[i+3:]
	}
}

// validHost checks uri-host [ ":" port ] (RFC 9110 7.2). An empty host is none.
func validHost(b []byte) bool {
	host := b
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || !validIPv6(b[1:end]) {
			return false
		}
		host, b = nil, b[end+1:]
	} else {
		n := span(b, hostChar)
		if n == 0 || bytes.IndexByte(b[:n], ',') >= 0 {
			return false
		}
		host, b = b[:n], b[n:]
	}
	for i := bytes.IndexByte(host, '%'); i >= 0; i = bytes.IndexByte(host, '%') {
		if len(host) < i+3 || class[host[i+1]]&class[host[i+2]]&hexChar == 0 {
			return false
		}
		host = host[i+3:]
	}
	return len(b) == 0 || validPort(b)
}

// validPort checks ":" 0 to 65535; an empty port is none (RFC 3986 3.2.3).
func validPort(b []byte) bool {
	if b[0] != ':' {
		return false
	}
	if len(b) == 1 {
		return true
	}
	n, ok := decimal(b[1:])
	return ok && n <= 65535
}

// validIPv6 checks an IPv6 address without zone.
func validIPv6(b []byte) bool {
	if len(b) < 2 || len(b) > 45 {
		return false
	}
	for _, c := range b {
		if class[c]&hexChar == 0 && c != ':' && c != '.' {
			return false
		}
	}
	addr, err := netip.ParseAddr(string(b))
	return err == nil && addr.Is6()
}
