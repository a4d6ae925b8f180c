package http1

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"sluice/internal/message"
)

// decoding is a body that is fed piece by piece, as a connection would.
type decoding struct {
	body    Body
	content []byte
	used    int // bytes of all pieces that belong to the body
	unread  []byte
}

// feed hands over what has come. It returns the fault; whether the body is
// complete, body.Done says.
func (d *decoding) feed(piece []byte) error {
	d.unread = append(d.unread, piece...)
	for len(d.unread) > 0 && !d.body.Done() {
		data, used, err := d.body.Next(d.unread)
		d.content = append(d.content, data...)
		d.used += used
		if err != nil {
			return err
		}
		if used == 0 {
			return nil // it needs more than is there
		}
		d.unread = d.unread[used:]
	}
	return nil
}

// decode reads a chunked body that comes in these pieces: the fault, or
//
//	"content" | Trailer: field | then "what stands behind"
func decode(lim *Limits, limit int64, pieces ...string) any {
	d := decoding{}
	if err := d.body.Start(message.Chunked, 0, limit, lim); err != nil {
		return err
	}
	var all string
	for _, piece := range pieces {
		all += piece
		if err := d.feed([]byte(piece)); err != nil {
			return err
		}
	}
	if int(d.body.Total()) != len(d.content) {
		return fmt.Sprintf("%d bytes of content, but Total says %d", len(d.content), d.body.Total())
	}
	if !d.body.Done() {
		return fmt.Sprintf("%q and more", d.content)
	}
	text := fmt.Sprintf("%q", d.content) + fieldsTranscript(d.body.Trailers())
	if rest := all[d.used:]; rest != "" {
		text += fmt.Sprintf(" | then %q", rest)
	}
	return text
}

func TestChunkedBodies(t *testing.T) {
	for _, c := range chunkedBodies {
		t.Run(c.title(), func(t *testing.T) { c.hold(t, decode(usual, 0, c.in)) })
	}
}

var chunkedBodies = []wireCase{
	{"RFC 9112 7.1", "one chunk", "5\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1", "two chunks and a message behind", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\nGET", `"hello" | then "GET"`},
	{"RFC 9112 7.1", "no content", "0\r\n\r\n", `""`},
	{"RFC 9112 7.1", "several zeros end it too", "000\r\n\r\n", `""`},
	{"RFC 9112 7.1", "leading zeros", "0005\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1", "digits in both cases", "a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", `"01234567890123456789"`},
	{"RFC 9112 7.1", "content that looks like chunks", "7\r\n0\r\n\r\n1\r\r\n0\r\n\r\n", `"0\r\n\r\n1\r"`},
	{"RFC 9112 7.1", "most digits", "000000000000005\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1", "one digit more", "0000000000000005\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "beyond 64 bits", "10000000000000005\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "beyond 63 bits", "ffffffffffffffff\r\n", errChunkSize},
	{"RFC 9112 7.1", "largest", "fffffffffffffff\r\n", `"" and more`},
	{"RFC 9112 7.1", "no size", "\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "no hexadecimal digit", "g\r\n", errChunkSize},
	{"RFC 9112 7.1", "0x", "0x5\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "h behind", "5h\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "plus", "+5\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "minus", "-5\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "minus nothing", "-0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "underscore between digits", "1_0\r\n", errChunkSize},
	{"RFC 9112 7.1", "fraction", "5.0\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "comma", "5,5\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "quoted", "\"5\"\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "NUL behind", "5\x00\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "digits beyond ASCII", "\xd9\xa5\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "space before", " 5\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "space behind", "5 \r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1", "tab behind", "5\t\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1", "vertical tab behind", "5\v\r\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "space between digits", "1 0\r\n", errChunkExt},
	{"RFC 9112 2.2", "size line ends with LF alone", "5\nhello\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 2.2", "size line ends with CR alone", "5\rhello\r\n0\r\n\r\n", errBareCR},
	{"RFC 9112 2.2", "size line ends with CR CR LF", "5\r\r\nhello\r\n0\r\n\r\n", errBareCR},
	{"RFC 9112 2.2", "size line of zero ends with LF alone", "0\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "data is longer than its size", "4\r\nhello\r\n0\r\n\r\n", errChunkEnd},
	{"RFC 9112 7.1", "data is shorter than its size", "6\r\nhello\r\n0\r\n\r\n", errChunkEnd},
	{"RFC 9112 7.1", "data ends with LF alone", "5\r\nhello\n0\r\n\r\n", errChunkEnd},
	{"RFC 9112 7.1", "data ends with CR alone", "5\r\nhello\r0\r\n\r\n", errChunkEnd},
	{"RFC 9112 7.1", "data ends with LF CR", "5\r\nhello\n\r0\r\n\r\n", errChunkEnd},
	{"RFC 9112 7.1", "data ends with nothing", "5\r\nhello0\r\n\r\n", errChunkEnd},
	{"RFC 9112 7.1", "data ends with two other bytes", "5\r\nhelloXX0\r\n\r\n", errChunkEnd},
	{"RFC 9112 7.1", "an empty line between chunks", "5\r\nhello\r\n\r\n0\r\n\r\n", errChunkSize},
	{"RFC 9112 7.1", "not all there", "5\r\nhel", `"hel" and more`},
	{"RFC 9112 7.1", "no last chunk", "5\r\nhello\r\n", `"hello" and more`},
	{"RFC 9112 7.1", "no end of trailers", "5\r\nhello\r\n0\r\n", `"hello" and more`},

	{"RFC 9112 7.1.1", "extension", "5;a\r\nhello\r\n0;b\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1.1", "extension with a value", "5;a=b;c=d\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1.1", "as AWS signs", "5;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1.1", "quoted value", "5;a=\"b;c \t\x80\"\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1.1", "quoted value with escapes", "5;a=\"\\\"\\\\\\b\"\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1.1", "empty quoted value", "5;a=\"\"\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1.1", "white space around everything but the end", "5 ; a = b\t; c = \"d\" ;e\r\nhello\r\n0\r\n\r\n", `"hello"`},
	{"RFC 9112 7.1.1", "white space at the end", "5;a \r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "no name", "5;\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "no name but a value", "5;=b\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "no value", "5;a=\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "two values", "5;a=b=c\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "two semicolons", "5;;a\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "two words", "5;a b\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "a word without semicolon", "5 a\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "a value that goes on after its quotes", "5;a=\"b\"c\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "quote within a token", "5;a=b\"c\"\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "quotes not closed", "5;a=\"b\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "LF in an extension", "5;a\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "LF in quotes", "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "escaped LF in quotes", "5;a=\"\\\n\"\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "CR in quotes", "5;a=\"\r\"\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "bare CR behind", "5;a\rb\r\nhello\r\n0\r\n\r\n", errBareCR},
	{"RFC 9112 7.1.1", "NUL", "5;a\x00\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "NUL in quotes", "5;a=\"\x00\"\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "beyond ASCII", "5;\x80\r\nhello\r\n0\r\n\r\n", errChunkExt},
	{"RFC 9112 7.1.1", "a chunk hidden in an extension by LF (TERM.EXT)", "5;\nhello\r\n0\r\n\r\n", errChunkExt},

	{"RFC 9112 7.1.2", "trailers", "0\r\nA: 1\r\nb:2\r\n\r\nGET", `"" | A: 1 | b: 2 | then "GET"`},
	{"RFC 9110 6.5.1", "no trailer that frames, routes or is known otherwise goes on", "0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: h\r\nCookie: c\r\nX_Forwarded_For: 1\r\nA: 1\r\n\r\n",
		`"" | -Content-Length: 5 | -Transfer-Encoding: chunked | -Host: h | -Cookie: c | -X_Forwarded_For: 1 | A: 1`},
	{"RFC 9112 7.1.2", "trailer that is no field", "0\r\nA\r\n\r\n", errName},
	{"RFC 9112 7.1.2", "a request for a trailer", "0\r\nGET / HTTP/1.1\r\n\r\n", errName},
	{"RFC 9112 7.1.2", "space before the colon", "0\r\nA : 1\r\n\r\n", errName},
	{"RFC 9112 7.1.2", "folded", "0\r\nA: 1\r\n 2\r\n\r\n", errFold},
	{"RFC 9112 7.1.2", "control character", "0\r\nA: \x01\r\n\r\n", errValue},
	{"RFC 9112 7.1.2", "trailer ends with LF alone", "0\r\nA: 1\n\r\n", errBareLF},
	{"RFC 9112 7.1.2", "section ends with LF alone", "0\r\nA: 1\r\n\n", errBareLF},
	{"RFC 9112 7.1.2", "section ends with CR and another byte", "0\r\n\rX", errBareCR},
	{"RFC 9112 7.1.2", "section without fields ends with LF alone", "0\r\n\n", errBareLF},
}

// TestBodiesByLength: content of which the length is known, and of which it is
// the connection's.
func TestBodiesByLength(t *testing.T) {
	for _, c := range []struct {
		name    string
		framing message.Framing
		length  int64
		in      string
		want    string
	}{
		{"no body", message.NoBody, 0, "GET", `"" done, 0 used, -1 left; at the end <nil>`},
		{"of nothing", message.Length, 0, "GET", `"" done, 0 used, 0 left; at the end <nil>`},
		{"whole", message.Length, 5, "hello", `"hello" done, 5 used, 0 left; at the end <nil>`},
		{"and a message behind", message.Length, 5, "helloGET", `"hello" done, 5 used, 0 left; at the end <nil>`},
		{"not all there", message.Length, 5, "hel", `"hel", 3 used, 2 left; at the end unexpected EOF`},
		{"until close", message.UntilClose, 0, "hello", `"hello", 5 used, -1 left; at the end <nil>`},
		{"until close at once", message.UntilClose, 0, "", `"", 0 used, -1 left; at the end <nil>`},
		{"chunks not all there", message.Chunked, 0, "5\r\nhel", `"hel", 6 used, -1 left; at the end unexpected EOF`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d decoding
			if err := d.body.Start(c.framing, c.length, 0, usual); err != nil {
				t.Fatal(err)
			}
			if err := d.feed([]byte(c.in)); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%q%s, %d used, %d left; at the end %v", d.content, pick(d.body.Done(), " done", ""), d.used, d.body.Left(), d.body.End())
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if err := d.body.End(); !d.body.Done() && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the end of an unfinished body is %v", err)
			}
		})
	}
}

// TestSkip: content that was spliced counts as if it had been seen.
func TestSkip(t *testing.T) {
	var body Body
	if err := body.Start(message.Length, 10, 0, usual); err != nil {
		t.Fatal(err)
	}
	body.Skip(4)
	if data, used, err := body.Next([]byte("abc")); string(data) != "abc" || used != 3 || err != nil {
		t.Errorf("Next: %q, %d, %v", data, used, err)
	}
	body.Skip(3)
	if !body.Done() || body.Left() != 0 || body.Total() != 10 {
		t.Errorf("done %v, %d left, %d in total", body.Done(), body.Left(), body.Total())
	}
	if err := body.Start(message.UntilClose, 0, 0, usual); err != nil {
		t.Fatal(err)
	}
	if body.Skip(7); body.Done() || body.Total() != 7 {
		t.Errorf("until close: done %v, %d in total", body.Done(), body.Total())
	}
}

// TestZeroBody: the zero value is done, uses nothing and ends well.
func TestZeroBody(t *testing.T) {
	var body Body
	data, used, err := body.Next([]byte("GET"))
	if !body.Done() || data != nil || used != 0 || err != nil || body.End() != nil {
		t.Errorf("done %v, %q, %d, %v", body.Done(), data, used, err)
	}
}

// TestBodyIsReusable: a body that was given up half way is as new after Start.
func TestBodyIsReusable(t *testing.T) {
	var d decoding
	for _, c := range chunkedBodies {
		d.unread = nil
		if err := d.body.Start(message.Chunked, 0, 0, usual); err != nil {
			t.Fatal(err)
		}
		_ = d.feed([]byte(c.in)) // leaves it in whatever state
	}
	if err := d.body.Start(message.Chunked, 0, 0, usual); err != nil {
		t.Fatal(err)
	}
	d.content, d.unread = nil, nil
	if err := d.feed([]byte("5\r\nhello\r\n0\r\n\r\n")); err != nil || string(d.content) != "hello" || !d.body.Done() || len(d.body.Trailers()) != 0 {
		t.Errorf("%q, done %v, trailers %v, %v", d.content, d.body.Done(), d.body.Trailers(), err)
	}
}

// TestDisguisedChunks puts every byte into every place of a size line with its
// data. It is refused, or means the chunks that it shows.
func TestDisguisedChunks(t *testing.T) {
	const body = "5;a=b\r\nhello\r\n0\r\n\r\n"
	for place := range body {
		for c := range 256 {
			in := body[:place] + string([]byte{byte(c)}) + body[place:]
			got, ok := decode(usual, 0, in).(string)
			if !ok {
				continue
			}
			if want := naiveChunks(in); !strings.HasPrefix(got, want) {
				t.Errorf("%q is read as %s, want %s", in, got, want)
			}
		}
	}
}

// naiveChunks reads chunks without any check, by their size lines alone.
func naiveChunks(in string) string {
	content := ""
	for {
		line, rest, _ := strings.Cut(in, "\r\n")
		size := 0
		digits, _, _ := strings.Cut(line, ";")
		fmt.Sscanf(strings.TrimRight(digits, " \t"), "%x", &size)
		switch {
		case size == 0:
			return fmt.Sprintf("%q", content)
		case len(rest) < size+2:
			return fmt.Sprintf("%q and more", content+rest[:min(size, len(rest))])
		}
		content, in = content+rest[:size], rest[size+2:]
	}
}
