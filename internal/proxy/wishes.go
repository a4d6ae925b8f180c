package proxy

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"strings"
	"time"

	"sluice/internal/admission"
	"sluice/internal/config"
	"sluice/internal/message"
)

// way is what a route says of a request beyond its farm.
type way struct {
	held     bool // admission is not off
	class    uint8
	deadline time.Duration // 0: none
	upgrades []string      // what the connection may become, in lower case
}

// house is how a farm holds its requests.
type house struct {
	line     *admission.Line // nil: its limit is off
	target   time.Duration
	timeout  time.Duration
	priority key
	tenant   key
	deadline key
	failures []config.Failure
	timing   bool
}

// key says where in a request a value stands.
type key struct {
	kind string // client, host, header, cookie; empty: nowhere
	name string // in lower case if it is a field's
}

func newKey(k config.Key) key {
	kind, name := k.Parts()
	if kind == "header" {
		name = strings.ToLower(name)
	}
	return key{kind, name}
}

// newHouse takes the configuration of a farm apart. The failures have passed
// Validate.
func newHouse(a *config.Admission, lines []*admission.Line, farm int) house {
	h := house{
		target: time.Duration(a.Target), timeout: time.Duration(a.Timeout), timing: a.ServerTiming,
		priority: newKey(a.Priority), tenant: newKey(a.Tenant), deadline: newKey(a.Deadline),
	}
	if lines != nil && a.Limit != "off" {
		h.line = lines[farm]
	}
	for _, text := range a.Failures {
		if f, err := config.ParseFailure(text); err == nil {
			h.failures = append(h.failures, f)
		}
	}
	return h
}

// value finds what a key names; nil if it is not there.
func (x *exchange) value(k key) []byte {
	switch k.kind {
	case "client":
		a := x.realClient() // behind a trusted proxy, whose own address all clients would share
		if !a.IsValid() {
			a = x.s.peer.Addr()
		}
		bytes16 := a.As16()
		x.scratch = append(x.scratch[:0], bytes16[:]...)
		return x.scratch
	case "host":
		x.scratch = appendLower(x.scratch[:0], x.req.Host)
		return x.scratch
	case "header":
		for i := range x.req.Fields {
			if f := &x.req.Fields[i]; equalFold(f.Name, k.name) {
				return f.Value
			}
		}
	case "cookie":
		for i := range x.req.Fields {
			if f := &x.req.Fields[i]; f.ID == message.Cookie {
				if v := cookie(f.Value, k.name); v != nil {
					return v
				}
			}
		}
	}
	return nil
}

// cookie finds the value of a cookie in a Cookie field (RFC 6265 4.2.1).
func cookie(field []byte, name string) []byte {
	for pair := range bytes.SplitSeq(field, []byte(";")) {
		if n, v, ok := bytes.Cut(bytes.TrimLeft(pair, " \t"), []byte("=")); ok && string(n) == name {
			return v
		}
	}
	return nil
}

// equalFold compares a field's name with one in lower case. Field names are ASCII.
func equalFold(name []byte, lower string) bool {
	if len(name) != len(lower) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func appendLower(dst, text []byte) []byte {
	for _, c := range text {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// class is the request's urgency: what a trusted client says, else the route's.
func (x *exchange) class(h *house) uint8 {
	if x.trusted && h.priority.kind != "" {
		if u, ok := urgency(x.value(h.priority)); ok {
			return u
		}
	}
	return x.way.class
}

// urgency reads a priority: a number from 0 to 7, or the u parameter of the
// Priority field (RFC 9218 4.1, 5).
func urgency(value []byte) (u uint8, ok bool) {
	for member := range bytes.SplitSeq(value, []byte(",")) {
		digit := bytes.TrimSpace(member)
		if rest, isParameter := bytes.CutPrefix(digit, []byte("u=")); isParameter {
			digit = rest
		}
		if len(digit) == 1 && '0' <= digit[0] && digit[0] <= '7' {
			return digit[0] - '0', true
		}
	}
	return 0, false
}

// patience is how long the request may be held at most so that it can be of use;
// 0: no such end.
func (x *exchange) patience(h *house) time.Duration {
	d := x.way.deadline
	if h.deadline.kind != "" {
		if said := span(x.value(h.deadline)); said > 0 && (d == 0 || said < d) {
			d = said
		}
	}
	if left := x.callLeft(); left > 0 && (d == 0 || left < d) {
		d = left
	}
	return d
}

// span reads a length of time: a number of milliseconds, or one with its unit. 0
// if it is neither.
func span(value []byte) time.Duration {
	text := string(bytes.TrimSpace(value))
	if ms, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	if d, err := time.ParseDuration(text); err == nil {
		return max(0, d)
	}
	return 0
}

// tenant is a hash of whose share of the queue the request takes; 0: nobody's.
func (x *exchange) tenant(h *house) uint64 {
	if h.tenant.kind == "" {
		return 0
	}
	v := x.value(h.tenant)
	if len(v) == 0 {
		return 0
	}
	return maphash.Bytes(seed, v)
}

// seed is the process's own, so that nobody outside can find tenants that share a
// hash.
var seed = maphash.MakeSeed()

// saysFailure reports whether the response is one by which a server says that
// it has too much to do.
func (h *house) saysFailure(r *message.Response) bool {
	for i := range h.failures {
		f := &h.failures[i]
		if f.Field == "" {
			if f.From <= r.Status && r.Status <= f.To {
				return true
			}
			continue
		}
		for j := range r.Fields {
			line := &r.Fields[j]
			if bytes.EqualFold(line.Name, []byte(f.Field)) && (f.Value == "" || string(line.Value) == f.Value) {
				return true
			}
		}
	}
	return false
}
