package http1

import "bytes"

// ValidHost checks uri-host [ ":" port ] (RFC 9110 7.2). An empty host is none.
func ValidHost(b []byte) bool {
	host, port := splitHost(b)
	return host && (len(port) == 0 || validPort(port))
}

// ValidAuthority checks uri-host ":" port, the target of CONNECT (RFC 9112
// 3.2.3). There is no default port (RFC 9110 9.3.6).
func ValidAuthority(b []byte) bool {
	host, port := splitHost(b)
	return host && len(port) > 1 && validPort(port)
}

// splitHost says whether b begins with a valid host, and what follows it.
func splitHost(b []byte) (valid bool, rest []byte) {
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 {
			return false, nil
		}
		return validIPv6(b[1:end]), b[end+1:]
	}
	n := span(b, hostChar)
	return n > 0, b[n:]
}

// validPort checks ":" 0 to 65535; an empty port is none (RFC 3986 3.2.3).
func validPort(b []byte) bool {
	if b[0] != ':' {
		return false
	}
	if len(b) == 1 {
		return true
	}
	n, ok := Decimal(b[1:])
	return ok && n <= 65535
}

// validIPv6 checks an IPv6 address without zone (RFC 3986 3.2.2).
func validIPv6(b []byte) bool {
	groups, gap := 0, bytes.HasPrefix(b, []byte("::"))
	if gap {
		b = b[2:]
	}
	for len(b) > 0 {
		n := span(b, hexChar)
		if n < len(b) && b[n] == '.' { // the last two groups, written as IPv4
			if !validIPv4(b) {
				return false
			}
			groups += 2
			break
		}
		if n == 0 || n > 4 {
			return false
		}
		groups++
		switch b = b[n:]; {
		case len(b) == 0:
		case len(b) == 1 || b[0] != ':' || gap && b[1] == ':':
			return false
		case b[1] == ':':
			gap, b = true, b[2:]
		default:
			b = b[1:]
		}
	}
	return groups == 8 && !gap || groups < 8 && gap
}

// validIPv4 checks four numbers up to 255 without leading zeros (RFC 3986 3.2.2).
func validIPv4(b []byte) bool {
	for dots := 0; ; dots++ {
		octet, rest, dot := bytes.Cut(b, []byte("."))
		n, ok := Decimal(octet)
		if !ok || n > 255 || len(octet) > 1 && octet[0] == '0' {
			return false
		}
		if !dot {
			return dots == 3
		}
		b = rest
	}
}
