package http1

import (
	"bytes"

	"sluice/internal/message"
)

// ParseRequest reads a request head from the start of b. n is its length, 0 if b
// does not hold all of it. Faults of syntax are found in the order of the lines,
// and nothing behind a limit is looked at, so that the result does not depend on
// how the bytes were cut. Errors are *Fault.
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
	text, next, err := firstLine(b[start:], lim.Line)
	if err != nil || next == 0 {
		return 0, err
	}
	if err := parseRequestLine(text, lim.Secure, r); err != nil {
		return 0, err
	}
	r.Fields, n, err = parseFields(b, start+next, lim, errHead, r.Fields)
	if err != nil || n == 0 {
		return 0, err
	}
	return n, readRequest(r)
}

// parseRequestLine reads method SP target SP version (RFC 9112 3). The method's
// first byte has been seen to be one.
func parseRequestLine(text []byte, secure bool, r *message.Request) error {
	n := span(text, tokenChar)
	if n == len(text) || text[n] != ' ' {
		return errRequestLine
	}
	r.MethodName = text[:n]
	r.Method = MethodOf(r.MethodName)
	rest := text[n+1:]
	if n = bytes.IndexByte(rest, ' '); n <= 0 {
		return errRequestLine
	}
	r.Target = rest[:n]
	var err error
	if r.Version, err = version(rest[n+1:]); err != nil {
		return err
	}
	return parseTarget(secure, r)
}

// MethodOf tells which method has this name, which is case-sensitive.
func MethodOf(name []byte) message.Method {
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
func parseTarget(secure bool, r *message.Request) error {
	t := r.Target
	switch {
	case r.Method == message.CONNECT:
		if !ValidAuthority(t) {
			return errAuthority
		}
		r.Host = t
		return nil
	case t[0] == '/':
		return CheckPath(t)
	case string(t) == "*":
		if r.Method != message.OPTIONS {
			return errTarget
		}
		return nil
	}
	return parseAbsolute(secure, r)
}

// parseAbsolute reads absolute-form: the authority becomes Host, the rest the
// target (RFC 9112 3.2.2).
func parseAbsolute(secure bool, r *message.Request) error {
	colon := bytes.IndexByte(r.Target, ':')
	if colon < 0 || !bytes.HasPrefix(r.Target[colon:], []byte("://")) {
		return errTarget
	}
	rest := r.Target[colon+3:]
	switch scheme := r.Target[:colon]; {
	case message.EqualFold(scheme, "https"):
		if !secure {
			return errScheme
		}
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
	if !ValidHost(r.Host) {
		return errHost
	}
	return originForm(r, rest[end:])
}

// originForm sets the target from what follows the authority.
func originForm(r *message.Request, path []byte) error {
	switch {
	case len(path) > 0 && path[0] == '/':
		r.Target = path
		return CheckPath(path)
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

// CheckPath checks absolute-path [ "?" query ] (RFC 9112 3.2.1), whose first byte
// is known to be a slash. The error is a *Fault.
func CheckPath(t []byte) error {
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
