package http1

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/message"
)

// limitCase is one limit: a text that just keeps it, and one that is a step
// beyond.
type limitCase struct {
	name   string
	within string
	beyond string
	read   func(in string) any
	fault  *Fault
}

func TestLimits(t *testing.T) {
	for _, c := range limitCases() {
		t.Run(c.name, func(t *testing.T) {
			if got, refused := c.read(c.within).(*Fault); refused {
				t.Errorf("within: %v", got)
			}
			if got := c.read(c.beyond); got != c.fault {
				t.Errorf("beyond: %v, want %v", got, c.fault)
			}
		})
	}
}

func limitCases() []limitCase {
	const line, rest = "GET /23456 HTTP/1.1", "\r\nHost: h\r\n\r\n"
	const status, fields = "HTTP/1.1 200 Okay", "\r\nA: 1\r\n\r\n"
	request := func(lim Limits) func(string) any { return func(in string) any { return requestUnder(&lim, in) } }
	response := func(lim Limits) func(string) any {
		return func(in string) any { return responseUnder(&lim, message.GET, in) }
	}
	chunked := func(lim Limits, limit int64) func(string) any {
		return func(in string) any { return decode(&lim, limit, in) }
	}
	wide := *usual
	return []limitCase{
		{"request line", line + rest, "GET /234567 HTTP/1.1" + rest, request(Limits{Head: 1000, Line: len(line), Fields: 10}), errLine},
		{"request line, its end still to come", line + "\r", line + "\rx", request(Limits{Head: 1000, Line: len(line), Fields: 10}), errLine},
		{"request line with a bare LF", strings.Repeat("G", 10), strings.Repeat("G", 12) + "\n", request(Limits{Head: 1000, Line: 10, Fields: 10}), errLine},
		{"head", line + rest, line + "\r\nHost: hh\r\n\r\n", request(Limits{Head: len(line + rest), Line: 100, Fields: 10}), errHead},
		{"head, its end still to come", line + "\r\nHost: h\r\nA:", line + "\r\nHost: h\r\nA: ", request(Limits{Head: len(line + rest), Line: 100, Fields: 10}), errHead},
		{"head with an empty line before it", "\r\n" + line + rest, "\r\n" + line + "\r\nHost: hh\r\n\r\n", request(Limits{Head: len(line+rest) + 2, Line: 100, Fields: 10}), errHead},
		{"head with a fault behind the limit", line + "\r\nHost: h\r\nA:", line + "\r\nHost: h\r\nA:\x00", request(Limits{Head: len(line + rest), Line: 100, Fields: 10}), errHead},
		{"fields", line + "\r\nHost: h\r\nA: 1" + "\r\n\r\n", line + "\r\nHost: h\r\nA: 1\r\nA: 2\r\n\r\n", request(Limits{Head: 1000, Line: 100, Fields: 2}), errFields},
		{"names in Connection", connectionNaming(connectionOptions), connectionNaming(connectionOptions + 1), request(wide), errOptions},

		{"status line", status + fields, "HTTP/1.1 200 Okays" + fields, response(Limits{Head: 1000, Line: len(status), Fields: 10}), errHead},
		{"response head", status + fields, status + "\r\nA: 12\r\n\r\n", response(Limits{Head: len(status + fields), Line: 100, Fields: 10}), errHead},
		{"response fields", status + "\r\nA: 1\r\nB: 1\r\n\r\n", status + "\r\nA: 1\r\nB: 1\r\nC: 1\r\n\r\n", response(Limits{Head: 1000, Line: 100, Fields: 2}), errFields},

		{"body by length", "5", "6", byLength(message.Length, 5), errBody},
		{"body until close", "5", "6", byLength(message.UntilClose, 5), errBody},
		{"body of one chunk", "5\r\nhello\r\n0\r\n\r\n", "6\r\n", chunked(wide, 5), errBody},
		{"body of two chunks", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "3\r\nhel\r\n3", chunked(wide, 5), errBody},
		{"body without limit", "5\r\nhello\r\n0\r\n\r\n", "fffffffffffffff0", chunked(wide, 0), errChunkSize},
		{"chunk extension", chunkWithLine(chunkLineBytes), chunkWithLine(chunkLineBytes + 1), chunked(wide, 0), errChunkLine},
		{"chunk extensions", chunksWithExtensions(extensionBytes), chunksWithExtensions(extensionBytes + 1), chunked(wide, 0), errExtensions},
		{"trailer section", "0\r\nA: 1\r\n\r\n", "0\r\nA: 12\r\n\r\n", chunked(Limits{Head: len("A: 1\r\n\r\n"), Line: 100, Fields: 10}, 0), errTrailers},
		{"trailer section, its end still to come", "0\r\nA: 12345", "0\r\nA: 123456", chunked(Limits{Head: len("A: 12345"), Line: 100, Fields: 10}, 0), errTrailers},
		{"trailer fields", "0\r\nA: 1\r\nB: 1\r\n\r\n", "0\r\nA: 1\r\nB: 1\r\nC: 1\r\n\r\n", chunked(Limits{Head: 1000, Line: 100, Fields: 2}, 0), errFields},
	}
}

// connectionNaming is a request whose Connection names n fields.
func connectionNaming(n int) string {
	return "GET / HTTP/1.1\r\nHost: h\r\nConnection: close" + strings.Repeat(", a", n) + "\r\n\r\n"
}

// chunkWithLine is a body with an extension of n bytes.
func chunkWithLine(n int) string {
	return "1;" + strings.Repeat("a", n-len(";\r")) + "\r\nx\r\n0\r\n\r\n"
}

// chunksWithExtensions is a body whose extensions are n bytes longer than its
// content.
func chunksWithExtensions(n int) string {
	content, extended := 0, 0
	var s strings.Builder
	for extended+512 <= content+n {
		s.WriteString("2;" + strings.Repeat("a", 512-len(";\r")) + "\r\nxx\r\n")
		content, extended = content+2, extended+512
	}
	s.WriteString("0;" + strings.Repeat("a", content+n-extended-len(";\r")) + "\r\n\r\n")
	return s.String()
}

// byLength feeds a body of as many bytes as the text says to one that is limited.
func byLength(f message.Framing, limit int64) func(string) any {
	return func(in string) any {
		var length int64
		fmt.Sscan(in, &length)
		var d decoding
		if err := d.body.Start(f, length, limit, usual); err != nil {
			return err
		}
		if err := d.feed(make([]byte, length)); err != nil {
			return err
		}
		return d.body.Total()
	}
}

// TestManyChunkExtensions: the limit is of each line, not of all.
func TestManyChunkExtensions(t *testing.T) {
	one := strings.TrimSuffix(chunkWithLine(chunkLineBytes), "0\r\n\r\n")
	if got, want := decode(usual, 0, one+one+one+"0\r\n\r\n"), `"xxx"`; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
