// Package segment is the memory that supervisor and workers share: a memfd of
// fixed, versioned layout. It outlives every worker and every reload, so
// counters never step back.
//
// Each Loop block has one writer, the loop that owns it, which adds without
// atomic instructions; readers load aligned 64-bit words and may see a sum that
// is a moment old. No cache line is written by two loops, except a Gate's.
package segment

const (
	Magic   = 0x3145434955_4C53 // "SLUICE1" in memory order
	Version = 1

	MaxWorkers = 64  // processes: an 8-socket machine with 8 clusters each
	MaxLoops   = 256 // per worker
	MaxServers = 512 // over all farms, removed ones included until their slot is reused
	NameBytes  = 192 // farm and URL of a server, for readers that know no configuration

	cacheLine = 64
	page      = 4096
)

// Counter has one writer. It only grows.
type Counter uint64

// Gauge has one writer.
type Gauge int64

// LoopStats are the figures of one loop: all that is not about a server.
type LoopStats struct {
	Accepted     Counter              // connections taken from the listening sockets
	Connections  Gauge                // client connections open now
	Idle         Gauge                // of these, between requests
	Requests     Counter              // requests whose head was read
	Status       [6]Counter           // responses by class: [1]=1xx interim … [5]=5xx; [0]=none was sent (499)
	Refused      [ReasonCount]Counter // requests answered by Sluice itself, by reason
	Active       Gauge                // requests in progress
	BytesIn      Counter              // read from clients
	BytesOut     Counter              // written to clients
	AcceptPauses Counter              // accept stopped because descriptors ran out (EMFILE)
	LogDropped   Counter              // access log lines given up because the disk was slow
	Panics       Counter              // tasks ended by a panic, which closed their connection
	Turns        Counter              // turns of the loop
	BusyNanos    Counter              // time not asleep in epoll_wait, ns
	Takeovers    Counter              // upstream connections taken over from a sibling loop
	Duration     Histogram            // request head complete to last response byte handed to the kernel
	_            [cacheLine]byte
}

// Reason says why Sluice itself answered. Names are in ReasonNames.
type Reason uint8

const (
	BadRequest Reason = iota
	HeadTooLarge
	LineTooLong
	BodyTooLarge
	ClientTimeout
	ClientGone
	BadVersion
	NotImplemented
	NoRoute
	NoServer
	ConnectFailed
	ConnectTimeout
	BadResponse
	ServerClosed
	FirstByteTimeout
	ServerTimeout
	Internal
	ReasonCount
)

// ReasonNames are the label values of sluice_refused_requests_total, and the log's.
var ReasonNames = [ReasonCount]string{
	"bad_request", "head_too_large", "line_too_long", "body_too_large", "client_timeout", "client_gone",
	"bad_version", "not_implemented", "no_route", "no_server", "connect_failed", "connect_timeout",
	"bad_response", "server_closed", "first_byte_timeout", "server_timeout", "internal",
}

// ServerStats are one loop's figures of one server.
type ServerStats struct {
	Requests     Counter // sent, each try counted
	Failures     Counter // tries that ended without a whole, valid response
	Retries      Counter // tries that were sent again, here or elsewhere
	Connects     Counter // connections opened
	ConnectFails Counter
	Reused       Counter   // requests sent on a kept connection
	Open         Gauge     // connections open now
	Idle         Gauge     // of these, unused
	InFlight     Gauge     // requests sent and not yet answered in full
	BytesIn      Counter   // read from the server
	BytesOut     Counter   // written to it
	Response     Histogram // last request byte sent to the response's first byte
	_            [cacheLine]byte
}

// Gate is the place of the admission gate of one server: the one line that
// several workers write. It is reserved here; nothing uses it yet.
type Gate struct {
	Limit    int64
	InFlight int64
	_        [cacheLine - 16]byte
}
