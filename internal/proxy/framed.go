package proxy

import (
	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// outlet is where a message's content goes: a connection and the framing that
// the content gets there; or a stream, which frames by itself and is told the end.
type outlet struct {
	to      reactor.Stream
	framing message.Framing
	ends    interface {
		End(trailers message.Fields) error
	}
}

// raw sends content to a stream.
func (o outlet) raw(content []byte, last bool, trailers message.Fields) (n int, err error) {
	if len(content) > 0 && o.framing != message.NoBody {
		n, err = o.to.Write(content)
	}
	if last && err == nil {
		err = o.ends.End(trailers)
	}
	return n, err
}

// put sends prefix and then content, framed; last says that the content ends
// here. content is a slice of f.b, whose bytes before it are free: the prefix and
// a chunk's size line go there if they fit, so that one write sends all and no
// content is copied. What is overwritten behind it is put back.
func (o outlet) put(prefix []byte, f *buffer, content []byte, last bool, trailers message.Fields) (int, error) {
	if o.ends != nil {
		return o.raw(content, last, trailers)
	}
	if o.framing == message.NoBody {
		content = nil
	}
	if len(content) == 0 {
		switch {
		case o.framing != message.Chunked || !last:
		case len(prefix) == 0 && len(trailers) == 0:
			prefix = lastChunk
		default:
			prefix = http1.AppendLastChunk(prefix, trailers)
		}
		return o.write(prefix)
	}
	var size [http1.ChunkHeadBytes]byte
	line, end := size[:0], ""
	if o.framing == message.Chunked {
		line = http1.AppendChunkHead(line, len(content))
		if end = "\r\n"; last && len(trailers) == 0 {
			end = "\r\n0\r\n\r\n"
		}
	}
	n, err := o.around(prefix, line, f, content, end)
	if err == nil && o.framing == message.Chunked && last && len(trailers) > 0 {
		m, err := o.write(http1.AppendLastChunk(nil, trailers))
		return n + m, err
	}
	return n, err
}

// lastChunk ends content without a trailer section.
var lastChunk = http1.AppendLastChunk(nil, nil)

// around sends prefix, line, content and end, in one write if prefix and line
// fit into the buffer before content.
func (o outlet) around(prefix, line []byte, f *buffer, content []byte, end string) (int, error) {
	from := cap(f.b) - cap(content)
	to := from + len(content)
	var behind [tailroom]byte
	copy(behind[:], f.b[to:to+len(end)])
	copy(f.b[to:], end)
	sent := 0
	if len(prefix)+len(line) > from {
		n, err := o.write(prefix)
		if err != nil {
			return n, err
		}
		sent, prefix = n, nil
	}
	from -= copy(f.b[from-len(line):], line)
	from -= copy(f.b[from-len(prefix):], prefix)
	n, err := o.write(f.b[from : to+len(end)])
	copy(f.b[to:], behind[:len(end)])
	return sent + n, err
}

func (o outlet) write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return o.to.Write(p)
}
