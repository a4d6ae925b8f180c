// Package grpcweb turns what a client of gRPC-Web sends into gRPC, and back: bytes only
// (PROTOCOL-WEB.md of gRPC). Messages stay as they are. Trailers, which a browser's
// program never sees, become a last frame of content; and all content is in Base64 if
// the client wants text.
package grpcweb

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"sluice/internal/message"
)

// Kind is how content is written.
type Kind uint8

const (
	None   Kind = iota // no gRPC-Web
	Binary             // application/grpc-web
	Text               // application/grpc-web-text: in Base64
)

var (
	grpcType = []byte("application/grpc")
	webType  = []byte("application/grpc-web")
	textType = []byte("application/grpc-web-text")
)

// Of reads a Content-Type. rest is what follows the kind: "+proto", parameters, or
// nothing.
func Of(contentType []byte) (k Kind, rest []byte) {
	for _, t := range []struct {
		kind Kind
		name []byte
	}{{Text, textType}, {Binary, webType}} {
		if rest, ok := bytes.CutPrefix(contentType, t.name); ok && (len(rest) == 0 || rest[0] == '+' || rest[0] == ';') {
			return t.kind, rest
		}
	}
	return None, nil
}

// AppendGRPC appends the Content-Type of the same in gRPC.
func AppendGRPC(dst, rest []byte) []byte { return append(append(dst, grpcType...), rest...) }

// AppendType appends the Content-Type of an answer of kind k to a client.
func (k Kind) AppendType(dst, rest []byte) []byte {
	name := webType
	if k == Text {
		name = textType
	}
	return append(append(dst, name...), rest...)
}

// AppendContent appends content as the client wants it. Base64 of each piece is padded:
// a client decodes four characters at a time.
func (k Kind) AppendContent(dst, content []byte) []byte {
	if k == Text {
		return base64.StdEncoding.AppendEncode(dst, content)
	}
	return append(dst, content...)
}

// trailerFlag marks the frame that holds trailers.
const trailerFlag = 0x80

// AppendTrailers appends the frame that ends the content: the trailers as lines of
// HTTP/1.1, names in lower case.
func AppendTrailers(dst []byte, trailers message.Fields) []byte {
	from := len(dst)
	dst = append(dst, trailerFlag, 0, 0, 0, 0)
	for i := range trailers {
		f := &trailers[i]
		if f.Drop {
			continue
		}
		dst = append(dst, bytes.ToLower(f.Name)...)
		dst = append(dst, ": "...)
		dst = append(dst, f.Value...)
		dst = append(dst, "\r\n"...)
	}
	binary.BigEndian.PutUint32(dst[from+1:], uint32(len(dst)-from-5))
	return dst
}

// ErrText: content of application/grpc-web-text is not Base64.
var ErrText = errors.New("content of application/grpc-web-text must be Base64 (RFC 4648 4)")

// Decoder reads Base64 that comes in pieces, each of which may end with padding. The
// zero value is ready.
type Decoder struct {
	group [4]byte
	n     int // of these that have come
}

// Append appends what src, the next piece, says. Line ends are passed over.
func (d *Decoder) Append(dst, src []byte) ([]byte, error) {
	for _, c := range src {
		if c == '\r' || c == '\n' {
			continue
		}
		d.group[d.n] = c
		if d.n++; d.n < len(d.group) {
			continue
		}
		d.n = 0
		var err error
		if dst, err = base64.StdEncoding.Strict().AppendDecode(dst, d.group[:]); err != nil {
			return dst, ErrText
		}
	}
	return dst, nil
}

// End is to be called at the end of the content.
func (d *Decoder) End() error {
	if d.n > 0 {
		return ErrText
	}
	return nil
}
