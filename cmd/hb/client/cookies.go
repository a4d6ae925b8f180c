package client

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// jar is a client's cookies (RFC 6265), kept by host. A load test's cookies are
// sessions and affinity, so it knows names, values and removal, not paths,
// domains or dates.
type jar struct {
	mu    sync.Mutex // guards what follows: requests of one client may go side by side
	hosts []*hostJar
}

// hostJar is the cookies of one host, in the order in which they came.
type hostJar struct {
	host   string
	mu     sync.Mutex // guards what follows
	names  []string
	values []string
	line   []byte // the Cookie field's value that they make; empty if there is none
}

// remember is where the cookies of a request's answer go; nil if none are kept.
func (c *Client) remember(r *Request) *hostJar {
	if !c.opts.Cookies {
		return nil
	}
	c.jar.mu.Lock()
	defer c.jar.mu.Unlock()
	for _, h := range c.jar.hosts {
		if h.host == r.host {
			return h
		}
	}
	h := &hostJar{host: r.host}
	c.jar.hosts = append(c.jar.hosts, h)
	return h
}

// appendLine appends the value of the Cookie field; nothing if there is none.
func (h *hostJar) appendLine(b []byte) []byte {
	if h == nil {
		return b
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return append(b, h.line...)
}

// set takes the value of a Set-Cookie field (RFC 6265, section 5.2).
func (h *hostJar) set(value []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
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

// write makes the line anew.
func (h *hostJar) write() {
	h.line = h.line[:0]
	for i, name := range h.names {
		if i > 0 {
			h.line = append(h.line, "; "...)
		}
		h.line = append(append(append(h.line, name...), '='), h.values[i]...)
	}
}
