package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validate checks every rule that a decoded configuration must keep; its error
// is Faults. Load and Parse have done it already.
func (c *Config) Validate() error {
	k := checker{Config: c, report: &report{broken: map[string]bool{}}}
	k.all()
	return k.err()
}

// checker holds a Config against the rules. It changes nothing.
type checker struct {
	*Config
	*report
}

func (k *checker) all() {
	k.workers()
	k.log()
	k.limits()
	k.timeouts()
	k.forward()
	k.listeners()
	k.farms()
	k.routes()
	k.state()
	k.overload()
	k.tickets()
	if k.TLS.ACME != nil {
		k.acme(k.TLS.ACME, "tls.acme")
	}
}

// The machine's bounds, which the shared segment reserves room for, and the
// kernel's.
const (
	maxWorkers = 64
	maxLoops   = 256  // per worker
	maxServers = 512  // over all farms
	maxNode    = 1023 // Linux has at most 1024 nodes (CONFIG_NODES_SHIFT)
	maxCPU     = 8191 // and is built for at most 8192 CPUs (NR_CPUS on x86)
)

// Bounds that only keep slips of the pen out: beyond them nothing useful lies.
const (
	maxHead        = 16 << 20 // bytes; a head is held in memory whole
	minHead        = 256      // bytes; less holds no browser's request
	minLine        = 64
	maxFields      = 10_000
	maxCount       = 1_000_000_000
	maxStreams     = 10_000
	maxBytes       = 1 << 50
	maxConnections = 1_000_000
	maxRetries     = 16
	maxWeight      = 1000
	maxBacklog     = 65_535
	maxRoutes      = 10_000 // of requests, or of the connections of one listener
	maxListeners   = 64
	maxFarmName    = 63 // bytes; name and URL of a server share 192 in the segment
	maxURL         = 128
	minWait        = Duration(time.Millisecond)
	maxWait        = Duration(24 * time.Hour)
)

// bound is a number with its range, both ends included.
type bound[T cmp.Ordered] struct {
	path            string
	value, min, max T
}

func checkBounds[T cmp.Ordered](k *checker, show func(T) string, bounds []bound[T]) {
	for _, b := range bounds {
		switch {
		case b.value < b.min:
			k.add(b.path, show(b.value), problem{"less than " + show(b.min), "write " + show(b.min) + " to " + show(b.max)})
		case b.value > b.max:
			k.add(b.path, show(b.value), problem{"more than " + show(b.max), "write " + show(b.min) + " to " + show(b.max)})
		}
	}
}

// oneOf checks a word.
func (k *checker) oneOf(path, value string, words []string) {
	if slices.Contains(words, value) {
		return
	}
	p := problem{rule: "must be " + list(words, "or")}
	if near, ok := nearest(value, words); ok {
		p.cure = "did you mean " + quote(near) + "?"
	}
	k.add(path, value, p)
}

func (k *checker) log() {
	k.oneOf("log.level", k.Log.Level, []string{"debug", "info", "warn", "error"})
	k.oneOf("log.access.format", k.Log.Access.Format, []string{"json", "combined"})
	checkBounds(k, Size.String, []bound[Size]{{"log.access.buffer", k.Log.Access.Buffer, 4 << 10, 1 << 30}})
	checkBounds(k, Duration.String, []bound[Duration]{{"log.access.flush", k.Log.Access.Flush, minWait, seconds(60)}})
	switch path := k.Log.Access.Path; {
	case path == "":
		k.add("log.access.path", path, problem{"empty", "write stdout, stderr, off or the path of a file"})
	case strings.HasSuffix(path, "/"):
		k.add("log.access.path", path, problem{"a directory, not a file", "write " + quote(path+"access.log")})
	case !strings.ContainsAny(path, "/."):
		k.oneOf("log.access.path", path, []string{"stdout", "stderr", "off", "the path of a file (./" + path + ")"})
	}
}

func (k *checker) limits() {
	l := k.Limits
	checkBounds(k, Size.String, []bound[Size]{
		{"limits.head", l.Head, minHead, maxHead},
		{"limits.line", l.Line, minLine, maxHead},
		{"limits.body", l.Body, 0, maxBytes},
		{"limits.response_head", l.ResponseHead, minHead, maxHead},
	})
	checkBounds(k, strconv.Itoa, []bound[int]{
		{"limits.fields", l.Fields, 1, maxFields},
		{"limits.requests", l.Requests, 0, maxCount},
		{"limits.streams", l.Streams, 1, maxStreams},
	})
	if l.Line > l.Head && l.Line <= maxHead && l.Head >= minHead {
		k.add("limits.line", l.Line.String(), problem{
			"more than limits.head (" + l.Head.String() + "), which counts the request line too",
			"write " + l.Head.String() + " at most, or raise limits.head to " + l.Line.String()})
	}
}

func (k *checker) timeouts() {
	t := k.Timeouts
	checkBounds(k, Duration.String, []bound[Duration]{
		{"timeouts.header", t.Header, minWait, maxWait},
		{"timeouts.idle", t.Idle, minWait, maxWait},
		{"timeouts.body", t.Body, minWait, maxWait},
		{"timeouts.write", t.Write, minWait, maxWait},
		{"timeouts.linger", t.Linger, 0, seconds(600)},
		{"timeouts.drain", t.Drain, 0, maxWait},
	})
	checkBounds(k, Size.String, []bound[Size]{{"timeouts.rate", t.Rate, 0, 1 << 30}})
}

// forward checks what is told to servers; the pseudonym is a token, and a port if need be
// (RFC 9110 7.6.3).
func (k *checker) forward() {
	k.oneOf("forward.client_cert", k.Forward.ClientCert, []string{ClientCertRFC, ClientCertARR, ClientCertOff})
	via := k.Forward.Via
	name, port, hasPort := strings.Cut(via, ":")
	switch {
	case via == "" || strings.EqualFold(via, "none") || strings.EqualFold(via, "no"):
		k.add("forward.via", via, problem{"not a name", "write off to send no Via"})
	case !isToken(name):
		k.add("forward.via", via, problem{"a name in Via is a token: letters, digits and !#$%&'*+-.^_`|~", `write "sluice"`})
	case hasPort && !isPort(port):
		k.add("forward.via", via, problem{"what follows the colon is not a port", "write " + quote(name)})
	}
}

// isToken tells a token of RFC 9110 5.6.2.
func isToken(s string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && strings.Trim(s, letters+"!#$%&'*+-.^_`|~") == ""
}

// isPort tells a port to connect to, 1 to 65535.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}
