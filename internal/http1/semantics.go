package http1

import "sluice/internal/message"

// requestFields are the fields that readRequest acts on.
var requestFields = setOf(message.Disguised, message.Host, message.Expect, message.TE, message.Upgrade, message.MaxForwards)

// readRequest reads what the fields of a complete head mean for the request.
func readRequest(r *message.Request) error {
	fr, err := frame(r.Fields)
	if err != nil {
		return err
	}
	if err := frameRequest(r, &fr); err != nil {
		return err
	}
	hosts := 0
	for i := range r.Fields {
		f := &r.Fields[i]
		if !requestFields.has(f.ID) {
			continue
		}
		switch f.ID {
		case message.Disguised:
			f.Drop = true
		case message.Host:
			if hosts++; hosts > 1 {
				return errSeveralHosts
			}
			if err := readHost(r, f); err != nil {
				return err
			}
		case message.Expect:
			readExpect(r, f)
		case message.TE:
			r.Trailers = r.Trailers || lists(f.Value, "trailers")
		case message.Upgrade:
			if fr.upgrade && r.Version == message.HTTP11 && !onlyH2C(f.Value) {
				r.Upgrade = f.Value
			}
		case message.MaxForwards:
			if err := readMaxForwards(r, f); err != nil {
				return err
			}
		}
	}
	if hosts == 0 && r.Version == message.HTTP11 {
		return errNoHost
	}
	return nil
}

// frameRequest decides how the body ends (RFC 9112 6.3) and whether the
// connection stays.
func frameRequest(r *message.Request, fr *framing) error {
	r.KeepAlive = fr.stays(r.Version)
	switch {
	case fr.coded && fr.length >= 0:
		return errBothFramings
	case fr.coded && r.Version == message.HTTP10:
		return errCodingVersion
	case fr.coded && !fr.codingOK:
		return errCoding
	case fr.coded:
		r.Body = message.Chunked
	case fr.length >= 0:
		r.Body, r.ContentLength = message.Length, fr.length
	}
	if (r.Method == message.TRACE || r.Method == message.CONNECT) && (fr.coded || fr.length > 0) {
		return errNoContent
	}
	return nil
}

// readHost takes the Host field. It is written anew when forwarded; an
// absolute-form target has overruled it already (RFC 9112 3.2.2).
func readHost(r *message.Request, f *message.Field) error {
	f.Drop = true
	if !ValidHost(f.Value) {
		return errHost
	}
	if !r.Absolute && r.Method != message.CONNECT {
		r.Host = f.Value
	}
	return nil
}

// readExpect takes 100-continue; a wish that no body follows, or that comes from
// an HTTP/1.0 client, is ignored (RFC 9110 10.1.1). Other expectations are the
// server's to judge.
func readExpect(r *message.Request, f *message.Field) {
	if !message.EqualFold(f.Value, "100-continue") {
		return
	}
	f.Drop = true
	hasBody := r.Body == message.Chunked || r.ContentLength > 0
	r.ExpectContinue = hasBody && r.Version == message.HTTP11
}

// readMaxForwards applies to OPTIONS and TRACE only; in other requests the field
// passes (RFC 9110 7.6.2).
func readMaxForwards(r *message.Request, f *message.Field) error {
	if r.Method != message.OPTIONS && r.Method != message.TRACE {
		return nil
	}
	n, ok := Decimal(f.Value)
	if !ok || r.MaxForwards >= 0 {
		return errMaxForwards
	}
	f.Drop = true
	r.MaxForwards = int(min(n, 1<<31))
	return nil
}

// lists reports whether a comma-separated list has the token, parameters aside.
func lists(list []byte, token string) bool {
	for {
		var t []byte
		if t, list = message.NextToken(list); t == nil {
			return false
		}
		if n := span(t, tokenChar); message.EqualFold(t[:n], token) {
			return true
		}
	}
}

// onlyH2C: an upgrade to cleartext HTTP/2 may be ignored; clients send it on the
// off chance (RFC 9113 3.1 has retired it).
func onlyH2C(list []byte) bool {
	for {
		var t []byte
		if t, list = message.NextToken(list); t == nil {
			return true
		}
		if !message.EqualFold(t, "h2c") {
			return false
		}
	}
}
