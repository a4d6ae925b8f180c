package client

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// Field is one header field.
type Field struct{ Name, Value string }

// Request is a request as it is sent, made once and used by many clients.
type Request struct {
	Address string // host:port to connect to
	TLS     bool

	remote     string // what tells links apart
	serverName string // for SNI and the certificate
	host       string // for cookies
	noBody     bool   // the answer to HEAD has none, whatever its head says
	head       []byte // request line and fields, without the empty line
	body       []byte
	whole      []byte // head, empty line and body

	fields []hpack.HeaderField // the head as HTTP/2 and HTTP/3 have it
	h3     []byte              // what is sent before the body, in HTTP/3
}

// NewRequest builds a request for an absolute http or https URL. A given field
// takes the place of one that would be made here (Host, User-Agent, Accept,
// Content-Length, Connection). If address is not empty, it is connected to
// instead of the URL's host. See RFC 9112, section 3.2.1, for the target's form.
func NewRequest(method string, u *url.URL, fields []Field, body []byte, keepAlive bool, address string) *Request {
	r := &Request{
		Address:    address,
		TLS:        u.Scheme == "https",
		serverName: u.Hostname(),
		host:       u.Hostname(),
		noBody:     method == "HEAD",
		body:       body,
	}
	if r.Address == "" {
		r.Address = AddressOf(u)
	}
	r.remote = u.Scheme + "|" + u.Hostname() + "|" + r.Address
	r.head = head(method, u, fields, len(body), keepAlive)
	r.whole = append(append(append([]byte(nil), r.head...), "\r\n"...), body...)
	r.fields = headFields(method, u, fields, len(body))
	r.h3 = h3Head(r.fields, "", len(body))
	return r
}

// AddressOf is a URL's host and port, the scheme's own port if it names none.
func AddressOf(u *url.URL) string {
	port := u.Port()
	if port == "" && u.Scheme == "https" {
		port = "443"
	} else if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// BasicAuth is the field of basic authentication (RFC 7617, section 2) for
// "name:password".
func BasicAuth(credentials string) Field {
	return Field{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(credentials))}
}

// head is the request line and the fields.
func head(method string, u *url.URL, fields []Field, bodyBytes int, keepAlive bool) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, u.RequestURI())
	own := append([]Field{{"Host", u.Host}}, common(method, bodyBytes)...)
	if !keepAlive {
		own = append(own, Field{"Connection", "close"})
	}
	for _, f := range own {
		if !named(fields, f.Name) {
			fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
		}
	}
	for _, f := range fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
	}
	return []byte(b.String())
}

// common is what a request says unless the given fields do.
func common(method string, bodyBytes int) []Field {
	own := []Field{{"User-Agent", "hb"}, {"Accept", "*/*"}}
	if bodyBytes > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		own = append(own, Field{"Content-Length", strconv.Itoa(bodyBytes)})
	}
	return own
}

// headFields is the head as pseudo-fields and fields in lower case (RFC 9113,
// section 8.3.1). A given Host is the authority.
func headFields(method string, u *url.URL, fields []Field, bodyBytes int) []hpack.HeaderField {
	authority := u.Host
	var rest []hpack.HeaderField
	for _, f := range common(method, bodyBytes) {
		if !named(fields, f.Name) {
			rest = append(rest, hpack.HeaderField{Name: strings.ToLower(f.Name), Value: f.Value})
		}
	}
	for _, f := range fields {
		if strings.EqualFold(f.Name, "Host") {
			authority = f.Value
			continue
		}
		rest = append(rest, hpack.HeaderField{Name: strings.ToLower(f.Name), Value: f.Value})
	}
	return append([]hpack.HeaderField{
		{Name: ":method", Value: method}, {Name: ":scheme", Value: u.Scheme},
		{Name: ":authority", Value: authority}, {Name: ":path", Value: u.RequestURI()},
	}, rest...)
}

func named(fields []Field, name string) bool {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// render is the request's bytes, with the client's cookies if it has any.
func (c *Client) render(r *Request, jar *hostJar) []byte {
	if jar == nil {
		return r.whole
	}
	before := append(append(c.out[:0], r.head...), "Cookie: "...)
	c.out = jar.appendLine(before)
	if len(c.out) == len(before) {
		return r.whole
	}
	c.out = append(c.out, "\r\n\r\n"...)
	c.out = append(c.out, r.body...)
	return c.out
}
