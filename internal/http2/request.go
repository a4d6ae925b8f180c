package http2

import (
	"bytes"

	"sluice/internal/http1"
	"sluice/internal/message"
)

// pseudo are the pseudo-fields of a request (RFC 9113 8.3.1, RFC 8441 4); nil: it
// was not there.
type pseudo struct{ method, scheme, path, authority, protocol []byte }

// of is the place of the pseudo-field with this name.
func (p *pseudo) of(name []byte) *[]byte {
	switch string(name) {
	case ":method":
		return &p.method
	case ":scheme":
		return &p.scheme
	case ":path":
		return &p.path
	case ":authority":
		return &p.authority
	case ":protocol":
		return &p.protocol
	}
	return nil
}

// empty is a value that was given and holds nothing; nil is none.
var empty = []byte{}

// split takes the pseudo-fields off the start of fs; no other may follow.
func split(fs message.Fields) (p pseudo, rest message.Fields, f *Fault) {
	for i := range fs {
		field := &fs[i]
		if len(field.Name) == 0 || field.Name[0] != ':' {
			return p, fs[i:], nil
		}
		at := p.of(field.Name)
		if at == nil || *at != nil {
			return p, nil, errPseudo
		}
		if *at = field.Value; field.Value == nil {
			*at = empty
		}
	}
	return p, nil, nil
}

// checkField finds what is wrong with a field line by itself (RFC 9113 8.2.1).
func checkField(f *message.Field) *Fault {
	if len(f.Name) == 0 {
		return errNames
	}
	if f.Name[0] == ':' {
		return errPseudo
	}
	if http1.NameEnd(f.Name, 0) != len(f.Name) {
		return errNames
	}
	for _, c := range f.Name {
		if 'A' <= c && c <= 'Z' {
			return errNames
		}
	}
	return checkValue(f.Value)
}

func checkValue(v []byte) *Fault {
	if n := len(v); n > 0 && (space(v[0]) || space(v[n-1])) || http1.ValueEnd(v, 0) != len(v) {
		return errValues
	}
	return nil
}

func space(c byte) bool { return c == ' ' || c == '\t' }

// request makes a request of a field section, as http1 makes one of a head: what
// that would refuse is refused. end says that no content follows. joined is memory
// for a cookie that came in parts; it is returned, perhaps grown.
func request(fs message.Fields, end, extended bool, r *message.Request, joined []byte) ([]byte, *Fault) {
	p, rest, f := split(fs)
	if f != nil {
		return joined, f
	}
	fields := r.Fields[:0]
	r.Reset()
	r.Version, r.KeepAlive = message.HTTP2, true
	if f := p.read(r, extended); f != nil {
		return joined, f
	}
	q := reading{r: r, end: end, length: -1}
	for i := range rest {
		if f := q.field(&rest[i]); f != nil {
			return joined, f
		}
		if rest[i].ID != message.Cookie {
			fields = append(fields, rest[i])
		} else if q.cookies++; q.cookies == 1 {
			q.cookie = len(fields)
			fields = append(fields, rest[i])
		}
	}
	if q.cookies > 1 {
		joined = join(joined[:0], rest)
		fields[q.cookie].Value = joined
	}
	r.Fields = fields
	return joined, q.finish(&p)
}

// read checks the pseudo-fields and takes them into r.
func (p *pseudo) read(r *message.Request, extended bool) *Fault {
	if p.method == nil {
		return errPseudos
	}
	if len(p.method) == 0 || http1.NameEnd(p.method, 0) != len(p.method) {
		return errMethod
	}
	r.MethodName, r.Method = p.method, http1.MethodOf(p.method)
	if r.Method == message.CONNECT && p.protocol == nil {
		return p.readConnect(r)
	}
	if p.protocol != nil {
		if r.Method != message.CONNECT || !extended || len(p.protocol) == 0 || http1.NameEnd(p.protocol, 0) != len(p.protocol) {
			return errProtocol
		}
		r.Protocol = p.protocol
	}
	switch {
	case p.scheme == nil || p.path == nil:
		return errPseudos
	case !message.EqualFold(p.scheme, "http") && !message.EqualFold(p.scheme, "https"):
		return errScheme
	}
	r.Scheme, r.Target = p.scheme, p.path
	if string(p.path) == "*" && r.Method == message.OPTIONS {
		return nil
	}
	if len(p.path) == 0 || p.path[0] != '/' || http1.CheckPath(p.path) != nil {
		return errPath
	}
	return nil
}

// readConnect takes a CONNECT for a tunnel of bytes (RFC 9113 8.5).
func (p *pseudo) readConnect(r *message.Request) *Fault {
	switch {
	case p.scheme != nil || p.path != nil:
		return errPseudos
	case p.authority == nil || !http1.ValidAuthority(p.authority):
		return errConnect
	}
	r.Target = p.authority
	return nil
}

// ReadRequest makes a request of a field section for HTTP/3, whose rules for requests
// are those of HTTP/2 (RFC 9114 4.3); its parameters are those of request. Fields of r
// point into fs and into joined.
func ReadRequest(fs message.Fields, end, extended bool, r *message.Request, joined []byte) ([]byte, *Fault) {
	return request(fs, end, extended, r, joined)
}

// CheckTrailers checks a trailer section for HTTP/3, and marks what is not forwarded.
func CheckTrailers(fs message.Fields) *Fault { return trailers(fs) }

// reading gathers what the fields of a request say.
type reading struct {
	r       *message.Request
	end     bool  // no content follows
	length  int64 // content-length; -1: none
	host    []byte
	expects bool
	cookies int
	cookie  int // where the first of them stands
}

// field takes one field.
func (q *reading) field(f *message.Field) *Fault {
	if fault := checkField(f); fault != nil {
		return fault
	}
	if f.ID == message.Unknown {
		return nil
	}
	switch f.ID {
	case message.Connection, message.KeepAlive, message.ProxyConnection, message.TransferEncoding, message.Upgrade:
		return errOfConnection
	case message.TE:
		if !message.EqualFold(f.Value, "trailers") {
			return errTE
		}
		q.r.Trailers = true
	case message.ContentLength:
		n, ok := http1.Decimal(f.Value)
		if !ok || q.length >= 0 && n != q.length {
			return errLengths
		}
		q.length = n
	case message.Host:
		if q.host != nil || !http1.ValidHost(f.Value) {
			return errAuthority
		}
		q.host = f.Value
	case message.Expect:
		if !message.EqualFold(f.Value, "100-continue") {
			return nil
		}
		q.expects = true
	case message.MaxForwards:
		return q.maxForwards(f)
	}
	f.Drop = f.Drop || endHere(f.ID)
	return nil
}

// endHere reports whether a field is not forwarded as it came: it is about this
// connection, or is written anew.
func endHere(id message.ID) bool {
	switch id {
	case message.ContentLength, message.Host, message.Expect, message.Disguised:
		return true
	}
	return id.OfConnection()
}

// maxForwards applies to OPTIONS and TRACE only (RFC 9110 7.6.2).
func (q *reading) maxForwards(f *message.Field) *Fault {
	if q.r.Method != message.OPTIONS && q.r.Method != message.TRACE {
		return nil
	}
	n, ok := http1.Decimal(f.Value)
	if !ok || q.r.MaxForwards >= 0 {
		return errMaxForwards
	}
	f.Drop = true
	q.r.MaxForwards = int(min(n, 1<<31))
	return nil
}

// finish decides about the authority and the framing of the content.
func (q *reading) finish(p *pseudo) *Fault {
	r := q.r
	switch {
	case p.authority != nil && r.Protocol == nil && r.Method == message.CONNECT:
		r.Host = p.authority // it has been checked, and has a port, which Host may lack
	case p.authority != nil && (!http1.ValidHost(p.authority) || q.host != nil && !bytes.EqualFold(q.host, p.authority)):
		return errAuthority
	case p.authority != nil:
		r.Host = p.authority
	case q.host != nil:
		r.Host = q.host
	default:
		return errAuthority
	}
	switch {
	case q.end && q.length > 0:
		return errContent
	case q.end:
		r.Body = message.NoBody
	case q.length >= 0:
		r.Body, r.ContentLength = message.Length, q.length
	default:
		r.Body = message.UntilClose
	}
	return q.content()
}

// content decides what the content means.
func (q *reading) content() *Fault {
	r := q.r
	switch {
	case r.Method == message.TRACE && r.Body != message.NoBody, r.Method == message.CONNECT && q.length > 0:
		return errNoContent
	case r.Method == message.CONNECT: // what follows is for the other end of a tunnel
		return nil
	}
	r.ExpectContinue = q.expects && r.Body != message.NoBody && !(r.Body == message.Length && r.ContentLength == 0)
	return nil
}

// join puts the parts of a cookie together (RFC 9113 8.2.3).
func join(dst []byte, fs message.Fields) []byte {
	for i := range fs {
		if fs[i].ID != message.Cookie {
			continue
		}
		if len(dst) > 0 {
			dst = append(dst, "; "...)
		}
		dst = append(dst, fs[i].Value...)
	}
	return dst
}

// trailers checks a trailer section. None that is known here may change how the
// head was understood (RFC 9110 6.5.1).
func trailers(fs message.Fields) *Fault {
	for i := range fs {
		f := &fs[i]
		if fault := checkField(f); fault != nil {
			return fault
		}
		switch f.ID {
		case message.Connection, message.KeepAlive, message.ProxyConnection, message.TransferEncoding, message.Upgrade, message.TE:
			return errOfConnection
		}
		f.Drop = f.ID != message.Unknown
	}
	return nil
}
