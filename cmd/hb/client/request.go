package client

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
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
	own := []Field{{"Host", u.Host}, {"User-Agent", "hb"}, {"Accept", "*/*"}}
	if bodyBytes > 0 || method == "POST" || method == "PUT" || method == "PATCH" {
		own = append(own, Field{"Content-Length", strconv.Itoa(bodyBytes)})
	}
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

func named(fields []Field, name string) bool {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// render is the request's bytes, with the client's cookies if it has any.
func (c *Client) render(r *Request) []byte {
	cookies := c.jar.line(r.host)
	if len(cookies) == 0 {
		return r.whole
	}
	c.out = append(c.out[:0], r.head...)
	c.out = append(c.out, cookies...)
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, r.body...)
	return c.out
}
