package http1

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/message"
)

// framings hold what the literature on request smuggling knows: Linhart et al.
// 2005, Kettle's "HTTP Desync Attacks" 2019 to 2025, the HTTP Garden 2024.
var framings = []wireCase{
	{"RFC 9112 6.3", "no framing is no body", "POST / HTTP/1.1\r\nHost: h\r\n\r\nGET", `POST / 1.1 for h; stays | -Host: h | then "GET"`},
	{"RFC 9110 8.6", "Content-Length", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", "POST / 1.1 for h; length 5; stays | -Host: h | -Content-Length: 5"},
	{"RFC 9110 8.6", "of nothing", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "POST / 1.1 for h; length 0; stays | -Host: h | -Content-Length: 0"},
	{"RFC 9110 8.6", "in any case", "POST / HTTP/1.1\r\nHost: h\r\ncONTENT-lENGTH: 5\r\n\r\n", "POST / 1.1 for h; length 5; stays | -Host: h | -cONTENT-lENGTH: 5"},
	{"RFC 9110 8.6", "of GET", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", "GET / 1.1 for h; length 5; stays | -Host: h | -Content-Length: 5"},
	{"RFC 9110 8.6", "leading zeros", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 005\r\n\r\n", "POST / 1.1 for h; length 5; stays | -Host: h | -Content-Length: 005"},
	{"RFC 9110 8.6", "largest", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775807\r\n\r\n", "POST / 1.1 for h; length 9223372036854775807; stays | -Host: h | -Content-Length: 9223372036854775807"},
	{"RFC 9110 8.6", "beyond 63 bits", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9223372036854775808\r\n\r\n", errLengths},
	{"RFC 9110 8.6", "5 beyond 64 bits", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551621\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "empty", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "white space alone", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \t\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "plus", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "minus", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "minus nothing", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -0\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "hexadecimal", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "hexadecimal digits", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5a\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "octal", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0o5\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "underscore between digits", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1_0\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "fraction", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5.0\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "exponent", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5e0\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "space between digits", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1 0\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "quoted", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \"5\"\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "parameter", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5;a=b\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "digits beyond ASCII", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: \xd9\xa5\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "a list", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 6\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "a list of equal ones", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "comma before", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: ,5\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "comma behind", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5,\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "two that differ", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "two, the second of nothing", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "two, the second empty", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length:\r\n\r\n", errLengths},
	{"RFC 9112 6.3", "three, the last differs", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", errLengths},
	{"RFC 9110 8.6", "two that agree become one", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n", "POST / 1.1 for h; length 5; stays | -Host: h | -Content-Length: 5 | -content-length: 5"},
	{"RFC 9112 6.3", "faulty in HTTP/1.0 too", "POST / HTTP/1.0\r\nContent-Length: 5, 6\r\n\r\n", errLengths},

	{"RFC 9112 6.1", "chunked", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "POST / 1.1 for h; chunked; stays | -Host: h | -Transfer-Encoding: chunked"},
	{"RFC 9112 7", "codings in any case", "POST / HTTP/1.1\r\nHost: h\r\ntransfer-ENCODING: CHUNKed\r\n\r\n", "POST / 1.1 for h; chunked; stays | -Host: h | -transfer-ENCODING: CHUNKed"},
	{"RFC 9112 6.1", "white space around", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \t chunked \t\r\n\r\n", "POST / 1.1 for h; chunked; stays | -Host: h | -Transfer-Encoding: chunked"},
	{"RFC 9112 6.1", "CL.TE", "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", errBothFramings},
	{"RFC 9112 6.1", "TE.CL", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\nGPOST", errBothFramings},
	{"RFC 9112 6.1", "TE.0", "OPTIONS / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n", errBothFramings},
	{"RFC 9112 6.1", "from HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", errCodingVersion},
	{"RFC 9112 6.1", "from HTTP/1.0 with keep-alive", "POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n", errCodingVersion},
	{"RFC 9112 6.1", "from HTTP/1.0 with a length", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", errBothFramings},
	{"RFC 9112 6.1", "twice", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "twice in two fields", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "TE.TE: another coding behind", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "TE.TE: another coding before", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: cow\r\nTransfer-Encoding: chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "TE.TE: an empty one behind", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "TE.TE: an empty one before", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\nTransfer-Encoding: chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "gzip before", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "gzip behind", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "gzip alone", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "identity", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "identity before", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity, chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "identity behind", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "identity with a length", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nContent-Length: 5\r\n\r\n", errBothFramings},
	{"RFC 9112 6.1", "empty", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "empty with a length", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\nContent-Length: 5\r\n\r\n", errBothFramings},
	{"RFC 9112 6.1", "a word that ends with it", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "a word that begins with it", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunkedx\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "half the word", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunk\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "quoted", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "single quotes", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: 'chunked'\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "comma before", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ,chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "comma behind", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked,\r\n\r\n", errCoding},
	{"RFC 9112 7.1", "parameter", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked;a=b\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "semicolon", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked;\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "another word behind", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked foo\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "colon before", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:: chunked\r\n\r\n", errCoding},
	{"RFC 9112 6.1", "a K that folds to k beyond ASCII", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chun\u212aed\r\n\r\n", errCoding},
	{"RFC 9112 5.2", "folded before the word", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", errFold},
	{"RFC 9112 5.2", "folded behind the word", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n , identity\r\n\r\n", errFold},
	{"RFC 9112 5.2", "as the fold of another field", "POST / HTTP/1.1\r\nHost: h\r\nA: b\r\n Transfer-Encoding: chunked\r\n\r\n", errFold},
	{"RFC 9112 5.1", "space before the colon", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n", errName},
	{"RFC 9112 5.1", "space for the dash", "POST / HTTP/1.1\r\nHost: h\r\nTransfer Encoding: chunked\r\n\r\n", errName},
	{"RFC 9110 5.5", "vertical tab before", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \vchunked\r\n\r\n", errValue},
	{"RFC 9110 5.5", "NUL behind", "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\x00\r\n\r\n", errValue},
	{"RFC 3875 4.1.18", "underscore for the dash: not a framing, and not forwarded", "POST / HTTP/1.1\r\nHost: h\r\nTransfer_Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
		"POST / 1.1 for h; length 5; stays | -Host: h | -Transfer_Encoding: chunked | -Content-Length: 5"},
	{"RFC 9112 6.1", "TE is not Transfer-Encoding", "POST / HTTP/1.1\r\nHost: h\r\nTE: chunked\r\nContent-Length: 5\r\n\r\n", "POST / 1.1 for h; length 5; stays | -Host: h | -TE: chunked | -Content-Length: 5"},
	{"RFC 9112 6.1", "Content-Encoding neither", "POST / HTTP/1.1\r\nHost: h\r\nContent-Encoding: chunked\r\n\r\n", "POST / 1.1 for h; stays | -Host: h | Content-Encoding: chunked"},
}

func TestFramings(t *testing.T) {
	for _, c := range framings {
		t.Run(c.title(), func(t *testing.T) { c.hold(t, readAsRequest(c.in)) })
	}
}

// TestDisguisedCoding puts every byte into every place of a Transfer-Encoding
// line that stands beside a Content-Length. Whatever another parser might see
// there, we refuse, or forward one length and no coding.
func TestDisguisedCoding(t *testing.T) {
	const line = "Transfer-Encoding: chunked"
	for place := range len(line) + 1 {
		for c := range 256 {
			for _, skip := range []int{0, 1} { // put in, or put in place of
				rest := min(place+skip, len(line))
				disguised := line[:place] + string([]byte{byte(c)}) + line[rest:]
				in := "POST / HTTP/1.1\r\nHost: h\r\n" + disguised + "\r\nContent-Length: 5\r\n\r\n"
				var r message.Request
				if _, err := ParseRequest([]byte(in), usual, &r); err != nil {
					continue
				}
				if r.Body != message.Length || r.ContentLength != 5 {
					t.Errorf("%q is accepted with framing %d", disguised, r.Body)
				}
				out := "\r\n" + string(AppendFields(nil, r.Fields))
				if strings.Contains(strings.ToLower(strings.ReplaceAll(out, "_", "-")), "\r\ntransfer-encoding:") {
					t.Errorf("%q is forwarded as %q", disguised, out)
				}
			}
		}
	}
}

// TestDisguisedLength does the same for a length: it is refused, or means what
// its digits say and stands alone.
func TestDisguisedLength(t *testing.T) {
	const value = " 42"
	for place := range len(value) + 1 {
		for c := range 256 {
			disguised := value[:place] + string([]byte{byte(c)}) + value[place:]
			in := "POST / HTTP/1.1\r\nHost: h\r\nContent-Length:" + disguised + "\r\n\r\n"
			var r message.Request
			if _, err := ParseRequest([]byte(in), usual, &r); err != nil {
				continue
			}
			digits := strings.TrimLeft(strings.Trim(disguised, " \t"), "0")
			if r.Body != message.Length || digits != fmt.Sprint(r.ContentLength) {
				t.Errorf("%q is accepted as %d", disguised, r.ContentLength)
			}
		}
	}
}
