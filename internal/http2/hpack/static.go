package hpack

import (
	"slices"

	"sluice/internal/message"
)

// staticCount is how many entries the static table has; dynamic ones follow.
const staticCount = 61

// static are the entries of RFC 7541 Appendix A, from index 1 on. Fields of
// messages point into it, so its bytes must never be written to.
var static = func() (table [staticCount + 1]message.Field) {
	for i, entry := range [staticCount][2]string{
		{":authority"}, {":method", "GET"}, {":method", "POST"}, {":path", "/"}, {":path", "/index.html"},
		{":scheme", "http"}, {":scheme", "https"}, {":status", "200"}, {":status", "204"}, {":status", "206"},
		{":status", "304"}, {":status", "400"}, {":status", "404"}, {":status", "500"}, {"accept-charset"},
		{"accept-encoding", "gzip, deflate"}, {"accept-language"}, {"accept-ranges"}, {"accept"},
		{"access-control-allow-origin"}, {"age"}, {"allow"}, {"authorization"}, {"cache-control"},
		{"content-disposition"}, {"content-encoding"}, {"content-language"}, {"content-length"},
		{"content-location"}, {"content-range"}, {"content-type"}, {"cookie"}, {"date"}, {"etag"}, {"expect"},
		{"expires"}, {"from"}, {"host"}, {"if-match"}, {"if-modified-since"}, {"if-none-match"}, {"if-range"},
		{"if-unmodified-since"}, {"last-modified"}, {"link"}, {"location"}, {"max-forwards"},
		{"proxy-authenticate"}, {"proxy-authorization"}, {"range"}, {"referer"}, {"refresh"}, {"retry-after"},
		{"server"}, {"set-cookie"}, {"strict-transport-security"}, {"transfer-encoding"}, {"user-agent"},
		{"vary"}, {"via"}, {"www-authenticate"},
	} {
		name, value := slices.Clip([]byte(entry[0])), slices.Clip([]byte(entry[1]))
		table[i+1] = message.Field{Name: name, Value: value, ID: message.Lookup(name)}
	}
	return table
}()

// Indexes in the static table that the encoder writes.
const (
	indexAuthority  = 1
	indexMethod     = 2 // with the value GET; POST is next
	indexPath       = 4 // with the value /; /index.html is next
	indexSchemeHTTP = 6
	indexSchemeTLS  = 7
	indexStatus     = 8 // with the value 200
)

// nameIndex has the index in the static table of each name that has an ID, 0 if
// it is not there.
var nameIndex = func() (table [256]uint8) {
	for i := staticCount; i > 0; i-- {
		table[static[i].ID] = uint8(i)
	}
	table[message.Unknown] = 0
	return table
}()
