package http3

import (
	"slices"

	"sluice/internal/http2/hpack"
	"sluice/internal/message"
)

// section is a field section that has come.
type section struct {
	fields message.Fields
	arena  []byte // the bytes of names and values
}

// fieldCost is what a field counts beside its name and value (RFC 9114 4.2.2).
const fieldCost = 32

// decode reads a section of at most head bytes and most fields; long: it has more,
// of which the rest is not read. Fields point into the arena and into the static table.
func (s *section) decode(block []byte, head, most int) (long bool, f *Fault) {
	s.fields = make(message.Fields, 0, 16)
	s.arena = make([]byte, 0, min(2*len(block)+64, head))
	at := afterPrefix(block)
	for size := 0; 0 < at && at < len(block); {
		var field message.Field
		if field, at = s.line(block, at); at == 0 {
			break
		}
		if size += len(field.Name) + len(field.Value) + fieldCost; size > head || len(s.fields) == most {
			return true, nil
		}
		s.fields = append(s.fields, field)
	}
	if at == 0 {
		return false, errSection
	}
	return false, nil
}

// What a section begins with (RFC 9204 4.5.1).
const (
	baseSign  = 0x80
	maskBase  = 0x7f
	maskCount = 0xff
)

// afterPrefix is where the lines of a section begin; 0: it is not one that does without
// a dynamic table. Such a section may have any base, but none below 0 (RFC 9204 4.5.1.2).
func afterPrefix(block []byte) int {
	required, at := readPrefixed(block, 0, maskCount)
	if at == 0 || required > 0 || at == len(block) || block[at]&baseSign != 0 {
		return 0
	}
	_, at = readPrefixed(block, at, maskBase)
	return at
}

// line reads the field line at block[at:]; next is the index behind it, 0 if it is
// faulty or refers to a dynamic table (RFC 9204 4.5).
func (s *section) line(block []byte, at int) (f message.Field, next int) {
	switch first := block[at]; {
	case first&0x80 != 0:
		if first&lineIndexed != lineIndexed {
			return f, 0
		}
		return staticEntry(block, at, 1<<bitsIndexed-1)
	case first&0x40 != 0:
		if first&lineNamed != lineNamed {
			return f, 0
		}
		if f, at = staticEntry(block, at, 1<<bitsNamed-1); at == 0 {
			return f, 0
		}
		f.NeverIndexed = first&lineNeverIndexed != 0
	case first&lineLiteral != 0:
		if f.Name, at = s.text(block, at, bitsLiteral); at == 0 {
			return f, 0
		}
		f.ID, f.NeverIndexed = message.Lookup(f.Name), first&lineNeverLiteral != 0
	default:
		return f, 0 // counted from a base, of which no entry is above
	}
	f.Value, next = s.text(block, at, bitsValue)
	return f, next
}

// staticEntry reads the number of an entry of the static table.
func staticEntry(block []byte, at int, mask byte) (f message.Field, next int) {
	n, next := readPrefixed(block, at, mask)
	if next == 0 || n >= uint64(len(static)) {
		return f, 0
	}
	return static[n], next
}

// text reads a string whose length stands in the last bits of its first byte; the bit
// before those says whether it is in the Huffman code (RFC 9204 4.1.2). next is 0 if it
// is faulty.
func (s *section) text(block []byte, at, bits int) (text []byte, next int) {
	if at >= len(block) {
		return nil, 0
	}
	coded := block[at]>>bits&1 != 0
	n, from := readPrefixed(block, at, 1<<bits-1)
	if from == 0 || n > uint64(len(block)-from) {
		return nil, 0
	}
	next = from + int(n)
	begin := len(s.arena)
	if !coded {
		s.arena = append(s.arena, block[from:next]...)
	} else if decoded, ok := hpack.AppendDecoded(s.arena, block[from:next]); ok {
		s.arena = decoded
	} else {
		return nil, 0
	}
	return slices.Clip(s.arena[begin:]), next
}

// readPrefixed reads a number that begins in the bits of mask, the last of b[at]; next
// is the index behind it, 0 if it is cut off or above 62 bits (RFC 9204 4.1.1).
func readPrefixed(b []byte, at int, mask byte) (n uint64, next int) {
	if at >= len(b) {
		return 0, 0
	}
	n = uint64(b[at] & mask)
	if at++; n < uint64(mask) {
		return n, at
	}
	for shift := 0; shift < 63 && at < len(b); shift += 7 {
		n += uint64(b[at]&0x7f) << shift
		if at++; b[at-1] < 0x80 {
			if n > maxVarint {
				break
			}
			return n, at
		}
	}
	return 0, 0
}

// static is the static table (RFC 9204 appendix A). Fields of messages point into it, so
// its bytes must never be written to.
var static = func() (table [99]message.Field) {
	at := 0
	for _, entry := range [...][]string{
		{":authority", ""}, {":path", "/"}, {"age", "0"}, {"content-disposition", ""}, {"content-length", "0"},
		{"cookie", ""}, {"date", ""}, {"etag", ""}, {"if-modified-since", ""}, {"if-none-match", ""},
		{"last-modified", ""}, {"link", ""}, {"location", ""}, {"referer", ""}, {"set-cookie", ""},
		{":method", "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"}, {":scheme", "http", "https"},
		{":status", "103", "200", "304", "404", "503"}, {"accept", "*/*", "application/dns-message"},
		{"accept-encoding", "gzip, deflate, br"}, {"accept-ranges", "bytes"},
		{"access-control-allow-headers", "cache-control", "content-type"}, {"access-control-allow-origin", "*"},
		{"cache-control", "max-age=0", "max-age=2592000", "max-age=604800", "no-cache", "no-store", "public, max-age=31536000"},
		{"content-encoding", "br", "gzip"},
		{"content-type", "application/dns-message", "application/javascript", "application/json", "application/x-www-form-urlencoded",
			"image/gif", "image/jpeg", "image/png", "text/css", "text/html; charset=utf-8", "text/plain", "text/plain;charset=utf-8"},
		{"range", "bytes=0-"},
		{"strict-transport-security", "max-age=31536000", "max-age=31536000; includesubdomains", "max-age=31536000; includesubdomains; preload"},
		{"vary", "accept-encoding", "origin"}, {"x-content-type-options", "nosniff"}, {"x-xss-protection", "1; mode=block"},
		{":status", "100", "204", "206", "302", "400", "403", "421", "425", "500"}, {"accept-language", ""},
		{"access-control-allow-credentials", "FALSE", "TRUE"}, {"access-control-allow-headers", "*"},
		{"access-control-allow-methods", "get", "get, post, options", "options"},
		{"access-control-expose-headers", "content-length"}, {"access-control-request-headers", "content-type"},
		{"access-control-request-method", "get", "post"}, {"alt-svc", "clear"}, {"authorization", ""},
		{"content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"}, {"early-data", "1"},
		{"expect-ct", ""}, {"forwarded", ""}, {"if-range", ""}, {"origin", ""}, {"purpose", "prefetch"}, {"server", ""},
		{"timing-allow-origin", "*"}, {"upgrade-insecure-requests", "1"}, {"user-agent", ""}, {"x-forwarded-for", ""},
		{"x-frame-options", "deny", "sameorigin"},
	} {
		name := slices.Clip([]byte(entry[0]))
		for _, value := range entry[1:] {
			table[at] = message.Field{Name: name, Value: slices.Clip([]byte(value)), ID: message.Lookup(name)}
			at++
		}
	}
	return table
}()
