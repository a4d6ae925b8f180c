package http1

import (
	"bytes"

	"sluice/internal/message"
)

// connectionOptions is how many fields Connection may name: each is sought among
// all fields, which a head full of them must not make into milliseconds.
const connectionOptions = 64

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

func (s set) has(id message.ID) bool { return s>>(id&63)&1 != 0 }

// endHere are the fields that frame acts on.
var endHere = func() set {
	s := setOf(message.ContentLength)
	for id := range message.ID(64) {
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
			n, ok := Decimal(f.Value)
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
