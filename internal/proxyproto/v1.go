package proxyproto

import (
	"bytes"
	"net/netip"
	"unsafe"
)

const (
	linePrefix  = "PROXY "
	lineUnknown = linePrefix + "UNKNOWN"
)

// parseLine reads version 1.
func (h *Header) parseLine(b []byte) (n int, err error) {
	if !begins(b, linePrefix) {
		return 0, errNoHeader
	}
	line := b[:min(len(b), maxLine)]
	end := bytes.IndexAny(line, "\r\n")
	switch {
	case end < 0 && len(line) == maxLine, end == maxLine-1:
		return 0, errLongLine
	case end < 0 || line[end] == '\r' && end+1 == len(line):
		return max(len(line)+1, LeastBytes), nil
	case line[end] == '\n' || line[end+1] != '\n':
		return 0, errLine
	}
	h.Version, line = 1, line[:end]
	if rest, ok := bytes.CutPrefix(line, []byte(lineUnknown)); ok && (len(rest) == 0 || rest[0] == ' ') {
		h.Origin = Unknown
		return end + 2, nil
	}
	if err = h.parseFields(line[len(linePrefix):]); err != nil {
		return 0, err
	}
	return end + 2, nil
}

// parseFields reads what follows "PROXY " up to the line's end.
func (h *Header) parseFields(rest []byte) (err error) {
	protocol, rest, _ := bytes.Cut(rest, []byte{' '})
	var is6 bool
	switch string(protocol) {
	case "TCP4":
	case "TCP6":
		is6 = true
	default:
		return errProtocol
	}
	var field [4][]byte
	for i := range field {
		var more bool
		field[i], rest, more = bytes.Cut(rest, []byte{' '})
		if more != (i < len(field)-1) {
			return errLine
		}
	}
	source, ok1 := parseAddress(field[0], is6)
	destination, ok2 := parseAddress(field[1], is6)
	if !ok1 || !ok2 {
		return errAddress
	}
	from, ok1 := parsePort(field[2])
	to, ok2 := parsePort(field[3])
	if !ok1 || !ok2 {
		return errPort
	}
	h.Source = netip.AddrPortFrom(source, from)
	h.Destination = netip.AddrPortFrom(destination, to)
	return nil
}

// parseAddress reads an address. IPv4 in IPv6 is what senders write who listen to
// both by one socket.
func parseAddress(b []byte, is6 bool) (a netip.Addr, ok bool) {
	if len(b) == 0 || bytes.IndexByte(b, '%') >= 0 {
		return a, false
	}
	// netip keeps nothing of the text but a zone, and there is none.
	a, err := netip.ParseAddr(unsafe.String(&b[0], len(b)))
	if err != nil || a.Is6() != is6 {
		return a, false
	}
	return a.Unmap(), true
}

func parsePort(b []byte) (port uint16, ok bool) {
	if len(b) == 0 || len(b) > 5 || len(b) > 1 && b[0] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return uint16(n), n <= 65535
}
