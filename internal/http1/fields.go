package http1

import (
	"bytes"

	"sluice/internal/message"
)

// Limits of a head.
type Limits struct {
	Head   int // bytes, from the start line to the empty line
	Line   int // bytes of the start line, without CR LF
	Fields int // field lines
}

// line takes one line off b, without its CR LF. next is 0 if the line is not
// complete.
func line(b []byte) (text []byte, next int, err error) {
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0:
		return nil, 0, nil
	case i == 0 || b[i-1] != '\r':
		return nil, 0, errBareLF
	}
	return b[:i-1], i + 1, nil
}

// parseFields reads field lines from b[pos:] up to and with the empty line. end
// is the offset after it, 0 if it is not there yet. tooLong is the fault if the
// section reaches beyond limit bytes of b.
func parseFields(b []byte, pos int, lim *Limits, tooLong *Fault, fs message.Fields) (_ message.Fields, end int, err error) {
	for {
		text, next, err := line(b[pos:])
		if err != nil {
			return fs, 0, err
		}
		if next == 0 {
			if len(b) > lim.Head {
				return fs, 0, tooLong
			}
			return fs, 0, nil
		}
		if pos += next; pos > lim.Head {
			return fs, 0, tooLong
		}
		if len(text) == 0 {
			return fs, pos, nil
		}
		if len(fs) >= lim.Fields {
			return fs, 0, errFields
		}
		f, err := parseField(text)
		if err != nil {
			return fs, 0, err
		}
		fs = append(fs, f)
	}
}

// parseField reads one field line without its CR LF.
func parseField(text []byte) (f message.Field, err error) {
	n := span(text, tokenChar)
	if n == 0 && (text[0] == ' ' || text[0] == '\t') {
		return f, errFold
	}
	if n == 0 || n == len(text) || text[n] != ':' {
		return f, errName
	}
	f.Name, f.Value = text[:n], message.Trim(text[n+1:])
	if !validValue(f.Value) {
		if bytes.IndexByte(f.Value, '\r') >= 0 {
			return f, errBareCR
		}
		return f, errValue
	}
	f.ID = message.Lookup(f.Name)
	return f, nil
}

// framing gathers what the fields of a head say about its body and connection.
type framing struct {
	length     int64 // -1: no Content-Length
	coded      bool  // Transfer-Encoding is there
	codingOK   bool  // and is a single chunked
	close      bool
	keepAlive  bool
	upgrade    bool
	namesOther bool // Connection names other fields
}

// frame reads the framing fields among fs and marks what ends at this hop.
func frame(fs message.Fields) (fr framing, err error) {
	fr.length = -1
	for i := range fs {
		f := &fs[i]
		switch f.ID {
		case message.Unknown:
			continue
		case message.ContentLength:
			f.Drop = true
			n, ok := decimal(f.Value)
			if !ok || fr.length >= 0 && n != fr.length {
				return fr, errLengths
			}
			fr.length = n
		case message.TransferEncoding:
			fr.codingOK = !fr.coded && message.EqualFold(f.Value, "chunked")
			fr.coded = true
		case message.Connection:
			fr.connection(f.Value)
		}
		if f.ID.OfConnection() {
			f.Drop = true
		}
	}
	if fr.namesOther {
		dropNamed(fs)
	}
	return fr, nil
}

// connection reads the options of one Connection field.
func (fr *framing) connection(list []byte) {
	for {
		var token []byte
		if token, list = message.NextToken(list); token == nil {
			return
		}
		switch {
		case message.EqualFold(token, "close"):
			fr.close = true
		case message.EqualFold(token, "keep-alive"):
			fr.keepAlive = true
		case message.EqualFold(token, "upgrade"):
			fr.upgrade = true
		default:
			fr.namesOther = true
		}
	}
}

// dropNamed marks the fields that Connection names, save those that are for all
// recipients (RFC 9110 7.6.1).
func dropNamed(fs message.Fields) {
	for i := range fs {
		if fs[i].ID != message.Connection {
			continue
		}
		for list := fs[i].Value; ; {
			var token []byte
			if token, list = message.NextToken(list); token == nil {
				break
			}
			for j := range fs {
				if !fs[j].ID.EndToEnd() && bytes.EqualFold(fs[j].Name, token) {
					fs[j].Drop = true
				}
			}
		}
	}
}

// stays says whether a connection persists (RFC 9112 9.3).
func (fr *framing) stays(v message.Version) bool {
	return !fr.close && (v == message.HTTP11 || fr.keepAlive)
}
