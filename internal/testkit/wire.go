package testkit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Field is one field line.
type Field struct{ Name, Value string }

// Message is a request or a response as it stood on the wire.
type Message struct {
	Start    string // request line or status line
	Fields   []Field
	Body     []byte
	Trailers []Field
}

// Status is the status code of a response; 0 if it is none.
func (m *Message) Status() int {
	version, rest, _ := strings.Cut(m.Start, " ")
	code, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(code)
	if err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return 0
	}
	return n
}

// Method is the first word of a request line.
func (m *Message) Method() string {
	method, _, _ := strings.Cut(m.Start, " ")
	return method
}

// Target is the second word of a request line.
func (m *Message) Target() string {
	_, rest, _ := strings.Cut(m.Start, " ")
	target, _, _ := strings.Cut(rest, " ")
	return target
}

// All lists the values of a field's lines.
func (m *Message) All(name string) []string { return values(m.Fields, name) }

// Get is the value of a field; those of several lines are joined (RFC 9110 5.3).
func (m *Message) Get(name string) string { return strings.Join(m.All(name), ", ") }

// Trailer is the value of a trailer field.
func (m *Message) Trailer(name string) string { return strings.Join(values(m.Trailers, name), ", ") }

func values(fields []Field, name string) []string {
	var found []string
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			found = append(found, f.Value)
		}
	}
	return found
}

// readLine reads one line, which must end with CR LF.
func readLine(r *bufio.Reader) (string, error) {
	text, err := r.ReadString('\n')
	switch {
	case err == io.EOF && text != "":
		return text, io.ErrUnexpectedEOF
	case err != nil:
		return text, err
	case !strings.HasSuffix(text, "\r\n"):
		return text, fmt.Errorf("line %q does not end with CR LF", text)
	}
	return text[:len(text)-2], nil
}

// readFields reads field lines up to the empty one.
func readFields(r *bufio.Reader) (fields []Field, err error) {
	for {
		line, err := readLine(r)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || line == "" {
			return fields, err
		}
		name, value, found := strings.Cut(line, ":")
		if !found || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(value, "\r\x00") {
			return fields, fmt.Errorf("field line %q is malformed", line)
		}
		fields = append(fields, Field{name, strings.Trim(value, " \t")})
	}
}

// readHead reads start line and fields. io.EOF means that there is no message.
func readHead(r *bufio.Reader) (m *Message, err error) {
	m = &Message{}
	if m.Start, err = readLine(r); err != nil {
		return m, err
	}
	m.Fields, err = readFields(r)
	return m, err
}

// readBody reads the body of a message with these fields. toClose: without
// framing it goes to the end of the stream. What came before an error is in
// m.Body.
func readBody(r *bufio.Reader, m *Message, toClose bool) error {
	coding, lengths := m.All("Transfer-Encoding"), m.All("Content-Length")
	switch {
	case len(coding)+len(lengths) > 1:
		return fmt.Errorf("framed more than once: %q", m.Fields)
	case len(coding) == 1 && coding[0] != "chunked":
		return fmt.Errorf("transfer coding %q", coding[0])
	case len(coding) == 1:
		return readChunks(r, m)
	case len(lengths) == 1:
		n, err := strconv.ParseUint(lengths[0], 10, 31)
		if err != nil {
			return err
		}
		return readExactly(r, m, int(n))
	case toClose:
		var err error
		m.Body, err = io.ReadAll(r)
		return err
	}
	return nil
}

// readExactly adds n bytes to the body.
func readExactly(r *bufio.Reader, m *Message, n int) error {
	have := len(m.Body)
	m.Body = append(m.Body, make([]byte, n)...)
	got, err := io.ReadFull(r, m.Body[have:])
	m.Body = m.Body[:have+got]
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// readChunks reads a body in the chunked coding, without extensions, and its
// trailers (RFC 9112 7.1).
func readChunks(r *bufio.Reader, m *Message) error {
	for {
		line, err := readLine(r)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(line, 16, 31)
		if err != nil {
			return err
		}
		if n == 0 {
			m.Trailers, err = readFields(r)
			return err
		}
		if err := readExactly(r, m, int(n)); err != nil {
			return err
		}
		if end, err := readLine(r); err != nil || end != "" {
			return errors.Join(errors.New("a chunk does not end with CR LF"), err)
		}
	}
}

// readResponse reads the answer to a request with this method; an interim one
// (1xx) has no body.
func readResponse(r *bufio.Reader, method string) (*Message, error) {
	m, err := readHead(r)
	if err != nil {
		return m, err
	}
	status := m.Status()
	switch {
	case status < 100 || status > 599:
		return m, fmt.Errorf("status line %q is malformed", m.Start)
	case status < 200 || status == 204 || status == 304 || method == "HEAD":
		return m, nil
	}
	return m, readBody(r, m, true)
}

// readRequest reads a request with its body.
func readRequest(r *bufio.Reader) (*Message, error) {
	m, err := readHead(r)
	if err != nil {
		return m, err
	}
	return m, readBody(r, m, false)
}
