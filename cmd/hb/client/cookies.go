package client

import (
	"bytes"
	"slices"
	"strings"
)

// jar is a client's cookies (RFC 6265), kept by host. A load test's cookies are
// sessions and affinity, so it knows names, values and removal, not paths,
// domains or dates.
type jar struct{ hosts []*hostJar }

// hostJar is the cookies of one host, in the order in which they came.
type hostJar struct {
	host   string
	names  []string
	values []string
	field  []byte // the Cookie field that they make; empty if there is none
}

// line is the Cookie field for a host.
func (j *jar) line(host string) []byte {
	for _, h := range j.hosts {
		if h.host == host {
			return h.field
		}
	}
	return nil
}

// remember is where the cookies of a request's answer go; nil if none are kept.
func (c *Client) remember(r *Request) *hostJar {
	if !c.opts.Cookies {
		return nil
	}
	for _, h := range c.jar.hosts {
		if h.host == r.host {
			return h
		}
	}
	h := &hostJar{host: r.host}
	c.jar.hosts = append(c.jar.hosts, h)
	return h
}

// set takes the value of a Set-Cookie field (RFC 6265, section 5.2).
func (h *hostJar) set(value []byte) {
	pair, attributes, _ := bytes.Cut(value, []byte(";"))
	name, content, found := bytes.Cut(pair, []byte("="))
	name, content = bytes.TrimSpace(name), bytes.TrimSpace(content)
	if !found || len(name) == 0 {
		return
	}
	at := slices.Index(h.names, string(name))
	switch {
	case expires(attributes):
		if at < 0 {
			return
		}
		h.names, h.values = slices.Delete(h.names, at, at+1), slices.Delete(h.values, at, at+1)
	case at < 0:
		h.names, h.values = append(h.names, string(name)), append(h.values, string(content))
	case h.values[at] == string(content):
		return // the usual case: the server repeats itself
	default:
		h.values[at] = string(content)
	}
	h.write()
}

// expires reports whether the attributes take the cookie away at once.
func expires(attributes []byte) bool {
	for attribute := range strings.SplitSeq(string(attributes), ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(attribute), "=")
		if strings.EqualFold(name, "Max-Age") {
			return value == "0" || strings.HasPrefix(value, "-")
		}
	}
	return false
}

// write makes the field anew.
func (h *hostJar) write() {
	h.field = h.field[:0]
	for i, name := range h.names {
		if i == 0 {
			h.field = append(h.field, "Cookie: "...)
		} else {
			h.field = append(h.field, "; "...)
		}
		h.field = append(append(append(h.field, name...), '='), h.values[i]...)
	}
	if len(h.field) > 0 {
		h.field = append(h.field, "\r\n"...)
	}
}
