// Package plan is what a run shall do: which requests, by how many users, at which
// rate, for how long. It reads all of it from words on a command line or in a
// file, and says what is wrong with them.
//
//	plan.go     the plan
//	stages.go   ranges and ramps
//	targets.go  URLs with weights
//	protocol.go HTTP/2, TLS
package plan

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"time"

	"sluice/cmd/hb/client"
)

// Plan is a whole run.
type Plan struct {
	Targets  []Target
	Stages   []Stage
	WarmUp   time.Duration // before the first stage, with its load; not measured
	Requests int64         // the run ends after so many; 0: it ends by time only
	Think    Think
	Poisson  bool // an open loop's requests come at random, not evenly
	Seed     uint64

	Protocol       client.Protocol
	Streams        int // requests that each user has under way at once, at least 1
	TLS            TLS
	KeepAlive      bool
	Cookies        bool
	Connect        string // host:port to connect to, whatever the URL says; may be empty
	Timeout        time.Duration
	ConnectTimeout time.Duration
}

// TLS says how users shake hands.
type TLS struct {
	Insecure  bool          // any certificate will do
	Resume    bool          // sessions that the server lets resume
	Name      string        // to ask for and to verify; empty: the URL's host
	CA        string        // file of certificates to trust; empty: the system's
	Cert, Key string        // files of the client's own certificate; empty: none
	Min, Max  uint16        // versions, as in crypto/tls; 0: its own
	Curves    []tls.CurveID // for the key exchange; nil: those of crypto/tls
}

// Stage is a part of the run with a constant load.
type Stage struct {
	Users int           // virtual clients; with a rate, they bound the requests under way
	Rate  float64       // requests per second, an open loop; 0: a closed loop
	For   time.Duration // 0: until all requests are done
}

// Target is one kind of request.
type Target struct {
	Weight int // its share of all weights is its share of the requests
	Method string
	URL    *url.URL
	Fields []client.Field
	Body   []byte
}

// Think is how long a user of a closed loop waits after an answer.
type Think struct {
	Mean        time.Duration
	Exponential bool
}

// ParseThink reads "500ms", or "exp:500ms" for waits that are distributed
// exponentially about a mean.
func ParseThink(text string) (Think, error) {
	rest, exponential := strings.CutPrefix(text, "exp:")
	mean, err := time.ParseDuration(rest)
	if err != nil || mean < 0 {
		return Think{}, fmt.Errorf("think time %q: write a duration like 500ms, or exp:500ms for random ones of that mean", text)
	}
	return Think{mean, exponential}, nil
}
