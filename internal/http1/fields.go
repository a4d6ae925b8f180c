package http1

import (
	"bytes"

	"sluice/internal/message"
)

// Limits of a head.
type Limits struct {
	Head   int  // bytes, from the start line to the empty line
	Line   int  // bytes of the start line, without CR LF
	Fields int  // field lines
	Secure bool // the client comes by TLS: it may name https targets
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
		next, err := parseField(b, pos, &fs[len(fs)-1])
		if err != nil {
			return fs, 0, err
		}
		if next == 0 {
			break
		}
		pos = next
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

// parseField reads one field line from b[pos:]. next is the index behind its CR
// LF, 0 if b does not hold all of it. It finds the first byte that cannot be
// right, whether or not the rest of the line is there.
func parseField(b []byte, pos int, f *message.Field) (next int, err error) {
	colon := NameEnd(b, pos)
	if colon == len(b) {
		return 0, nil
	}
	if colon == pos || b[colon] != ':' {
		return 0, nameFault(b[pos])
	}
	start := colon + 1
	for start < len(b) && (b[start] == ' ' || b[start] == '\t') {
		start++
	}
	end := ValueEnd(b, start)
	switch {
	case end == len(b) || b[end] == '\r' && end+1 == len(b):
		return 0, nil
	case b[end] != '\r' || b[end+1] != '\n':
		return 0, valueFault(b[end])
	}
	next = end + 2
	for end > start && (b[end-1] == ' ' || b[end-1] == '\t') {
		end--
	}
	f.Name, f.Value = b[pos:colon], b[start:end]
	f.ID, f.Drop = message.Lookup(f.Name), false
	return next, nil
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
