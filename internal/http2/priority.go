package http2

import "sluice/internal/message"

// Priority is what RFC 9218 4 says of a response.
type Priority struct {
	Urgency     uint8 // 0 to 7, the most urgent first
	Incremental bool  // a part of it is of use before the rest: others may have turns between
}

// usual is the priority of who says nothing.
var usual = Priority{Urgency: 3}

// ParsePriority reads a Priority field: u=0 to 7, and i. What cannot be read, or
// is not known, counts as not said (RFC 9218 4; structured fields, RFC 8941 3.2).
func ParsePriority(b []byte) Priority {
	p := usual
	for {
		var member []byte
		if member, b = message.NextToken(b); member == nil {
			return p
		}
		for i, c := range member { // parameters mean nothing here
			if c == ';' {
				member = message.Trim(member[:i])
				break
			}
		}
		switch string(member) {
		case "i", "i=?1":
			p.Incremental = true
		case "i=?0":
			p.Incremental = false
		case "u=0", "u=1", "u=2", "u=3", "u=4", "u=5", "u=6", "u=7":
			p.Urgency = member[2] - '0'
		}
	}
}

// PriorityOf is what a request's Priority field says (RFC 9218 5); said: it has one.
func PriorityOf(fs message.Fields) (p Priority, said bool) {
	for i := range fs {
		if string(fs[i].Name) == "priority" {
			return ParsePriority(fs[i].Value), true
		}
	}
	return usual, false
}
