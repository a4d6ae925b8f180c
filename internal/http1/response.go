package http1

import "sluice/internal/message"

// ParseResponse reads a response head from the start of b, the answer to a
// request with this method. n is its length, 0 if b does not hold all of it.
// Errors are *Fault; such a response must reach neither client nor pool.
func ParseResponse(b []byte, lim *Limits, to message.Method, r *message.Response) (n int, err error) {
	r.Reset()
	if len(b) > 0 && b[0] != 'H' {
		return 0, errStatusLine
	}
	text, next, err := firstLine(b, lim.Line)
	if err == errLine {
		err = errHead
	}
	if err != nil || next == 0 {
		return 0, err
	}
	if err := parseStatusLine(text, r); err != nil {
		return 0, err
	}
	r.Fields, n, err = parseFields(b, next, lim, errHead, r.Fields)
	if err != nil || n == 0 {
		return 0, err
	}
	return n, readResponse(r, to)
}

// parseStatusLine reads HTTP-version SP 3DIGIT [ SP reason ] (RFC 9112 4; the
// space before an empty reason is often left out, and nothing hangs on it).
func parseStatusLine(text []byte, r *message.Response) error {
	if len(text) < len("HTTP/1.1 200") || text[8] != ' ' {
		return errStatusLine
	}
	var err error
	if r.Version, err = version(text[:8]); err != nil {
		return err
	}
	status, ok := Decimal(text[9:12])
	if !ok || status < 100 || status > 599 {
		return errStatusLine
	}
	r.Status = int(status)
	if rest := text[12:]; len(rest) > 0 {
		if rest[0] != ' ' || ValueEnd(rest, 0) != len(rest) {
			return errStatusLine
		}
		r.Reason = rest[1:]
	}
	return nil
}

// readResponse decides how the body ends (RFC 9112 6.3) and whether the server
// keeps the connection.
func readResponse(r *message.Response, to message.Method) error {
	fr, err := frame(r.Fields)
	if err != nil {
		return err
	}
	r.KeepAlive = fr.stays(r.Version)
	r.ContentLength = fr.length
	r.HasDate = r.Fields.Get(message.Date) != nil
	switch {
	case r.Status < 200 || r.Status == 204:
		// They have no content, whatever they declare (RFC 9112 6.3). A server that
		// declares some may send it: what then followed would pass for the next response.
		if fr.coded || fr.length > 0 {
			r.KeepAlive = false
		}
		r.ContentLength = -1
		return nil
	case fr.coded && fr.length >= 0:
		return errBothFramings
	case fr.coded && r.Version == message.HTTP10:
		return errCodingVersion
	case fr.coded && !fr.codingOK:
		return errCoding
	case to == message.HEAD || r.Status == 304:
		return nil
	case to == message.CONNECT && r.Status < 300:
		r.ContentLength = -1 // what follows is not content (RFC 9110 9.3.6)
		return nil
	case fr.coded:
		r.Body = message.Chunked
	case fr.length >= 0:
		r.Body = message.Length
	default:
		r.Body, r.KeepAlive = message.UntilClose, false
	}
	return nil
}
