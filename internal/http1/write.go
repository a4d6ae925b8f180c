package http1

import (
	"strconv"

	"sluice/internal/message"
)

// AppendRequest appends a request head: Host, the fields, then those that HTTP/1.1
// needs to frame the body and to say what ends at this hop.
func AppendRequest(dst []byte, r *message.Request) []byte {
	dst = AppendRequestLine(dst, r)
	dst = AppendField(dst, "Host", r.Host)
	dst = AppendFields(dst, r.Fields)
	dst = AppendFraming(dst, r.Body, r.ContentLength)
	if r.ExpectContinue {
		dst = append(dst, "Expect: 100-continue\r\n"...)
	}
	if len(r.Upgrade) > 0 {
		dst = AppendField(append(dst, "Connection: Upgrade\r\n"...), "Upgrade", r.Upgrade)
	}
	if r.Trailers {
		dst = append(dst, "TE: trailers\r\nConnection: TE\r\n"...)
	}
	if r.MaxForwards >= 0 {
		dst = append(dst, "Max-Forwards: "...)
		dst = strconv.AppendInt(dst, int64(r.MaxForwards), 10)
		dst = append(dst, "\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// AppendResponse appends a response head whose content is framed in this way. Of
// content that does not come, the length is told if the server has.
func AppendResponse(dst []byte, r *message.Response, f message.Framing) []byte {
	dst = AppendStatusLine(dst, r.Status, r.Reason)
	dst = AppendFields(dst, r.Fields)
	if f == message.NoBody && r.ContentLength >= 0 {
		f = message.Length
	}
	dst = AppendFraming(dst, f, r.ContentLength)
	return append(dst, "\r\n"...)
}

// AppendRequestLine appends method SP target SP HTTP/1.1 CRLF.
func AppendRequestLine(dst []byte, r *message.Request) []byte {
	dst = append(dst, r.MethodName...)
	dst = append(dst, ' ')
	dst = append(dst, r.Target...)
	return append(dst, " HTTP/1.1\r\n"...)
}

// AppendStatusLine appends the status line of a response, which is always
// HTTP/1.1 (RFC 9110 6.2: a proxy sends its own version).
func AppendStatusLine(dst []byte, status int, reason []byte) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = append(dst, byte('0'+status/100), byte('0'+status/10%10), byte('0'+status%10), ' ')
	dst = append(dst, reason...)
	return append(dst, "\r\n"...)
}

// AppendFields appends all fields that are not to be dropped.
func AppendFields(dst []byte, fs message.Fields) []byte {
	for i := range fs {
		if f := &fs[i]; !f.Drop {
			dst = append(dst, f.Name...)
			dst = append(dst, ": "...)
			dst = append(dst, f.Value...)
			dst = append(dst, "\r\n"...)
		}
	}
	return dst
}

// AppendField appends one field line.
func AppendField(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendFraming appends the fields that frame a body: Content-Length for Length,
// Transfer-Encoding for Chunked, nothing otherwise.
func AppendFraming(dst []byte, f message.Framing, length int64) []byte {
	switch f {
	case message.Length:
		dst = append(dst, "Content-Length: "...)
		dst = strconv.AppendInt(dst, length, 10)
		return append(dst, "\r\n"...)
	case message.Chunked:
		return append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	return dst
}

// ChunkHeadBytes is the most that a chunk's size line takes.
const ChunkHeadBytes = 16 + 2

// AppendChunkHead appends the size line of a chunk of n > 0 bytes; CRLF follows
// the data.
func AppendChunkHead(dst []byte, n int) []byte {
	dst = strconv.AppendInt(dst, int64(n), 16)
	return append(dst, "\r\n"...)
}

// AppendChunk appends a chunk that holds data, which must not be empty.
func AppendChunk(dst, data []byte) []byte {
	dst = AppendChunkHead(dst, len(data))
	dst = append(dst, data...)
	return append(dst, "\r\n"...)
}

// AppendLastChunk appends the last chunk and the trailer section.
func AppendLastChunk(dst []byte, trailers message.Fields) []byte {
	dst = append(dst, "0\r\n"...)
	dst = AppendFields(dst, trailers)
	return append(dst, "\r\n"...)
}
