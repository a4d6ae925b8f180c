package demo

import (
	"strconv"
	"strings"
)

// passageField is the request field by which Sluice tells the app which way a
// request came (forward.placement): pairs like worker=0, a space between them.
const passageField = "X-Sluice-Placement"

// passage is that way. Known is false if the request did not come by Sluice.
type passage struct {
	Known      bool   `json:"known"`
	Node       int    `json:"node"`       // NUMA node of the listener process
	Worker     int    `json:"worker"`     // listener process
	Loop       int    `json:"loop"`       // of that process
	Farm       string `json:"farm"`       //
	Server     string `json:"server"`     // URL
	WaitedUS   int64  `json:"waited_us"`  // from the complete head until there was a connection to the server, microseconds
	Connection string `json:"connection"` // to the server: new, reused, or taken from a sibling loop
}

// parsePassage reads the field. A pair that it does not know is passed over, so
// that an older page understands a newer Sluice.
func parsePassage(field string) passage {
	p := passage{Known: field != ""}
	for pair := range strings.FieldsSeq(field) {
		key, value, _ := strings.Cut(pair, "=")
		number, _ := strconv.ParseInt(value, 10, 64) // what is no number counts as 0
		switch key {
		case "node":
			p.Node = int(number)
		case "worker":
			p.Worker = int(number)
		case "loop":
			p.Loop = int(number)
		case "farm":
			p.Farm = value
		case "server":
			p.Server = value
		case "waited_us":
			p.WaitedUS = number
		case "connection":
			p.Connection = value
		}
	}
	return p
}
