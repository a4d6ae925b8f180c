package http1

import (
	"bytes"

	"sluice/internal/message"
)

// connectionOptions is how many fields Connection may name: each is sought among
// all fields, which a head full of them must not make into milliseconds.
const connectionOptions = 64

// Limits of a head.
type Limits struct {
	Head   int // bytes, from the start line to the empty line
	Line   int // bytes of the start line, without CR LF
	Fields int // field lines
}

// firstLine takes the start line off b, without its CR LF. next is 0 if the line
// is not complete.
func firstLine(b []byte, limit int) (text []byte, next int, err error) {
	b = b[:min(len(b), limit+2)] // what stands behind the limit is not looked at
	i := bytes.IndexByte(b, '\n')
	switch {
	case i < 0 && len(b) == limit+2:
		return nil, 0, errLine
	case i < 0:
		return nil, 0, nil
	case i == 0 || b[i-1] != '\r':
		return nil, 0, errBareLF
	}
	return b[:i-1], i + 1, nil
}

// parseFields reads field lines from b[pos:] up to and with the empty line. end
// is the offset after it, 0 if it is not there yet. tooLong is the fault if the
// section reaches beyond lim.Head bytes of b.
func parseFields(b []byte, pos int, lim *Limits, tooLong *Fault, fs message.Fields) (_ message.Fields, end int, err error) {
	b, incomplete := within(b, lim.Head, tooLong)
	for pos < len(b) {
		if b[pos] == '\r' {
			switch {
			case pos+1 == len(b):
				return fs, 0, incomplete
			case b[pos+1] != '\n':
				return fs, 0, errBareCR
			}
			return fs, pos + 2, nil
		}
		if len(fs) >= lim.Fields {
			return fs, 0, errFields
		}
		if len(fs) < cap(fs) {
			fs = fs[:len(fs)+1]
		} else {
			fs = append(fs, message.Field{})
		}
		n, err := parseField(b[pos:], &fs[len(fs)-1])
		if err != nil {
			return fs, 0, err
		}
		if n == 0 {
			break
		}
		pos += n
	}
	return fs, 0, incomplete
}

// within is the part of b that the limit allows to be looked at, so that no
// fault behind it comes before that of being too long, however b was cut. The
// error is what it means if that part is not a whole section.
func within(b []byte, limit int, tooLong *Fault) ([]byte, error) {
	if len(b) <= limit {
		return b, nil
	}
	return b[:limit], tooLong
}

// parseField reads one field line from the start of b. n is its length with CR
// LF, 0 if b does not hold all of it. It finds the first byte that cannot be
// right, whether or not the rest of the line is there.
func parseField(b []byte, f *message.Field) (n int, err error) {
	colon := nameSpan(b)
	if colon == len(b) {
		return 0, nil
	}
	if colon == 0 || b[colon] != ':' {
		return 0, nameFault(b[0])
	}
	start := colon + 1
	for start < len(b) && (b[start] == ' ' || b[start] == '\t') {
		start++
	}
	end := start + valueSpan(b[start:])
	switch {
	case end == len(b) || b[end] == '\r' && end+1 == len(b):
		return 0, nil
	case b[end] != '\r' || b[end+1] != '\n':
		return 0, valueFault(b[end])
	}
	n = end + 2
	for end > start && (b[end-1] == ' ' || b[end-1] == '\t') {
		end--
	}
	f.Name, f.Value = b[:colon], b[start:end]
	f.ID, f.Drop = message.Lookup(f.Name), false
	return n, nil
}

// nameFault is the fault of a line that does not begin with a name and a colon.
func nameFault(first byte) error {
	switch first {
	case ' ', '\t':
		return errFold
	case '\n':
		return errBareLF
	}
	return errName
}

// valueFault is the fault of a value with this control character in it.
func valueFault(c byte) error {
	switch c {
	case '\r':
		return errBareCR
	case '\n':
		return errBareLF
	}
	return errValue
}

// framing gathers what the fields of a head say about its body and connection.
type framing struct {
	length    int64 // -1: no Content-Length
	coded     bool  // Transfer-Encoding is there
	codingOK  bool  // and is a single chunked
	close     bool
	keepAlive bool
	upgrade   bool
	others    int // other fields that Connection names
}

// set is a set of IDs.
type set uint64

func setOf(ids ...message.ID) (s set) {
	for _, id := range ids {
		s |= 1 << id
	}
	return s
}

func (s set) has(id message.ID) bool { return s>>id&1 != 0 }

// endHere are the fields that frame acts on.
var endHere = func() set {
	s := setOf(message.ContentLength)
	for id := message.Unknown; id <= message.ContentLength; id++ {
		if id.OfConnection() {
			s |= setOf(id)
		}
	}
	return s
}()

// frame reads the framing fields among fs and marks what ends at this hop.
func frame(fs message.Fields) (fr framing, err error) {
	fr.length = -1
	for i := range fs {
		f := &fs[i]
		if !endHere.has(f.ID) {
			continue
		}
		f.Drop = true
		switch f.ID {
		case message.ContentLength:
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
	}
	if fr.others > connectionOptions {
		return fr, errOptions
	}
	if fr.others > 0 {
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
			fr.others++
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
