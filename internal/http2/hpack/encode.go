package hpack

import (
	"encoding/binary"

	"sluice/internal/message"
)

// How a literal field begins (RFC 7541 6.2).
const (
	withoutIndexing = 0x00
	neverIndexed    = 0x10
)

// shortSecret is the length in bytes below which a cookie is never indexed: one of
// so few could be guessed through a table that others share (RFC 7541 7.1.3).
const shortSecret = 20

// AppendSizeUpdate writes that the table has this size in bytes from now on
// (RFC 7541 6.3). It stands at the beginning of a block. Since the encoder uses no
// table, a connection's first block begins with an update to 0: whatever smaller
// SETTINGS_HEADER_TABLE_SIZE the peer sends then or later, no other is called for.
func AppendSizeUpdate(dst []byte, size int) []byte {
	return appendInt(dst, 0x20, 0x1f, size)
}

// AppendStatus writes :status, of three digits.
func AppendStatus(dst []byte, status int) []byte {
	for i := indexStatus; i < indexStatus+len(usualStatus); i++ {
		if usualStatus[i-indexStatus] == status {
			return append(dst, 0x80|byte(i))
		}
	}
	return append(dst, withoutIndexing|indexStatus, 3, '0'+byte(status/100%10), '0'+byte(status/10%10), '0'+byte(status%10))
}

// usualStatus are those that have an entry in the static table, from indexStatus on.
var usualStatus = [...]int{200, 204, 206, 304, 400, 404, 500}

// AppendMethod writes :method. name is looked at unless it is GET or POST.
func AppendMethod(dst []byte, method message.Method, name []byte) []byte {
	switch method {
	case message.GET:
		return append(dst, 0x80|indexMethod)
	case message.POST:
		return append(dst, 0x80|(indexMethod+1))
	}
	return appendText(append(dst, withoutIndexing|indexMethod), name)
}

// AppendScheme writes :scheme.
func AppendScheme(dst, scheme []byte) []byte {
	switch string(scheme) {
	case "http":
		return append(dst, 0x80|indexSchemeHTTP)
	case "https":
		return append(dst, 0x80|indexSchemeTLS)
	}
	return appendText(append(dst, withoutIndexing|indexSchemeHTTP), scheme)
}

// AppendPath writes :path.
func AppendPath(dst, path []byte) []byte {
	if len(path) == 1 && path[0] == '/' {
		return append(dst, 0x80|indexPath)
	}
	return appendText(append(dst, withoutIndexing|indexPath), path)
}

// AppendAuthority writes :authority.
func AppendAuthority(dst, authority []byte) []byte {
	return appendText(append(dst, withoutIndexing|indexAuthority), authority)
}

// AppendProtocol writes :protocol (RFC 8441 4).
func AppendProtocol(dst, protocol []byte) []byte {
	const name = ":protocol"
	dst = append(append(dst, withoutIndexing, byte(len(name))), name...)
	return appendText(dst, protocol)
}

// AppendField writes a field, its name in lower case. id is that of the name. What
// is secret by its name is marked as never to be indexed by anyone on its way
// (RFC 7541 7.1.3).
func AppendField(dst []byte, id message.ID, name, value []byte) []byte {
	switch id {
	case message.Authorization, message.ProxyAuthorization:
		return AppendNeverIndexed(dst, id, name, value)
	case message.Cookie, message.SetCookie:
		if len(value) < shortSecret {
			return AppendNeverIndexed(dst, id, name, value)
		}
	}
	return appendLiteral(dst, withoutIndexing, id, name, value)
}

// AppendNeverIndexed writes a field as one that nobody on its way may index. A field
// that came so must be sent on so (message.Field.NeverIndexed, RFC 7541 6.2.3).
func AppendNeverIndexed(dst []byte, id message.ID, name, value []byte) []byte {
	return appendLiteral(dst, neverIndexed, id, name, value)
}

func appendLiteral(dst []byte, first byte, id message.ID, name, value []byte) []byte {
	if index := nameIndex[id]; index != 0 {
		dst = appendInt(dst, first, 0x0f, int(index))
	} else {
		dst = appendInt(append(dst, first), 0, 0x7f, len(name))
		dst = appendLower(dst, name)
	}
	return appendText(dst, value)
}

// appendText writes a string as it is.
func appendText(dst, s []byte) []byte {
	return append(appendInt(dst, 0, 0x7f, len(s)), s...)
}

// appendLower writes a name in lower case, eight bytes at a time.
func appendLower(dst, name []byte) []byte {
	at := len(dst)
	dst = append(dst, name...)
	b := dst[at:]
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, lower(binary.LittleEndian.Uint64(b)))
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c | 0x20
		}
	}
	return dst
}

// lower sets the bit of case in each byte that is a capital letter. Sums of seven
// bits do not reach the next byte.
func lower(v uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	low := v &^ highs
	atLeastA, beyondZ := low+(0x80-'A')*ones, low+(0x80-'Z'-1)*ones
	return v | (atLeastA&^beyondZ&^v&highs)>>2
}
