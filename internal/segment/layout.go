// Package segment is the memory that supervisor and workers share: a memfd of
// fixed, versioned layout. It outlives every worker and every reload, so
// counters never step back.
//
// Each Loop block has one writer, the loop that owns it, which adds without
// atomic instructions; readers load aligned 64-bit words and may see a sum that
// is a moment old. Two loops write to one cache line only in a Gate, and in a
// LineStats, which is touched only where requests wait.
//
// The order in memory, each part from a new page:
//
//	header | WorkerStats by worker | Gates by server | Homes by server | Learned by server |
//	server directory | by worker: LineStats by server |
//	by worker, by loop: LoopStats, then ServerStats by server
//
// One loop's figures have pages of their own, so that the node of the thread that
// touches them first, which is the loop's, holds them. The memfd is sparse: what
// nobody touches costs addresses only.
package segment

import "sync/atomic"

const (
	Magic   = 0x3145434955_4C53 // "SLUICE1" in memory order
	Version = 1                 // of the layout; Open refuses every other

	MaxWorkers = 64  // processes: an 8-socket machine with 8 clusters each
	MaxLoops   = 256 // per worker
	MaxServers = 512 // over all farms, removed ones included until their slot is reused
	NameBytes  = 240 // farm and URL of a server together, for readers that know no configuration

	// DefaultServers is the capacity that a supervisor asks for: what reloads may
	// grow to. An unused slot costs addresses, not memory.
	DefaultServers = 256

	cacheLine = 64
	page      = 4096
)

// header is the first page. Create writes it once, save for Slots.
type header struct {
	Magic   uint64
	Version uint64
	Layout  uint64 // layoutHash of the program that made the segment
	Workers uint64 // the Shape
	Loops   uint64
	Servers uint64
	Size    uint64 // bytes of the whole segment
	Slots   uint64 // server slots ever given out: readers of the directory stop here; supervisor only
}

// WorkerStats describe one worker. Two processes write here, so each has its own
// cache line. The words change rarely; they are atomic because neither side
// knows when the other looks.
type WorkerStats struct {
	// Written by the supervisor, before it starts the worker.
	PID      atomic.Int64 // 0: none runs
	Node     atomic.Int64 // NUMA node; -1 if the machine tells none
	Started  atomic.Int64 // Unix time, ns
	Restarts atomic.Int64 // starts after the first
	Loops    atomic.Int64 // the most loops that this worker ever had; never lowered, so that sums never step back
	_        [cacheLine - 5*8]byte

	// Written by the worker while it lives, by the supervisor once it is dead.
	State      atomic.Int64 // a WorkerState
	Generation atomic.Int64 // of the configuration that it serves, from 1; 0: none yet
	LetOut     atomic.Int64 // loops allowed on other workers' CPUs (workers.affinity: soft); a counter
	CalledBack atomic.Int64 // of these, allowed on their own CPUs alone again; a counter, and less by those of workers that died
	Away       atomic.Int64 // loops that are let out now
	_          [cacheLine - 5*8]byte
}

// WorkerState says what a worker does.
type WorkerState int64

const (
	Starting WorkerState = iota
	Serving
	Draining
	Restarting // dead; the supervisor will start another
	stateCount
)

var stateNames = [stateCount]string{"starting", "serving", "draining", "restarting"}

// String gives the name that operators see.
func (s WorkerState) String() string {
	if s < 0 || s >= stateCount {
		return "unknown"
	}
	return stateNames[s]
}

// LoopStats are the figures of one loop: all that is not about a server.
type LoopStats struct {
	Accepted     Counter              // connections taken from the listening sockets
	Connections  Gauge                // client connections open now
	Idle         Gauge                // of these, between requests
	Requests     Counter              // requests whose head was read
	Status       [6]Counter           // responses by class: [1]=1xx interim … [5]=5xx; [0]=none was sent (499)
	Refused      [ReasonCount]Counter // requests answered by Sluice itself, by reason
	Active       Gauge                // requests in progress, held ones too
	BytesIn      Counter              // read from clients
	BytesOut     Counter              // written to clients
	AcceptPauses Counter              // accept stopped because descriptors ran out (EMFILE)
	LogDropped   Counter              // access log lines given up because the disk was slow
	Panics       Counter              // tasks ended by a panic, which closed their connection
	Turns        Counter              // turns of the loop
	BusyNanos    Counter              // time not asleep in epoll_wait, ns
	Takeovers    Counter              // upstream connections taken over from a sibling loop
	Tunnels      Gauge                // connections that are tunnels now (raw TCP, WebSocket, CONNECT)
	Tunneled     Counter              // connections that became tunnels
	Held         Gauge                // requests that wait for a permit now; the loop of their client counts
	LeftHeld     Counter              // requests whose client went away while they were held
	Abuses       [AbuseCount]Counter  // of HTTP/2, that were stopped, by class
	Shed         [ShedCount]Counter   // connections refused at once because Sluice itself had too much to do, by cause
	Crossings    Crossings            // requests sent to servers, each try counted, by where the server is
	HandedOver   Counter              // connections accepted here and given to a sibling loop, which had fewer; they are in its Accepted
	Shaking      Gauge                // of Connections, the ones whose TLS handshake is not over
	Handshakes   [TLSVersions]Counter // TLS handshakes with clients, by version
	Resumed      Counter              // of these, the ones that went on with an earlier session
	Hybrid       Counter              // of Handshakes, the ones whose key exchange holds against a quantum computer as well
	Shunned      [ShunCount]Counter   // TLS handshakes with clients that failed, by cause
	Duration     Histogram            // request head complete to last response byte handed to the kernel
	Wait         Histogram            // time held, of all requests that were held, however it ended

	HTTP3Connections Counter                  // connections of HTTP/3 whose handshake is over; in Accepted and Connections too
	HTTP3Events      [HTTP3EventCount]Counter // of HTTP/3, by kind

	ProxyHeaders [ProxyHeaderCount]Counter // connections of which a PROXY header was asked, by what came of it

	TunnelEnds     [TunnelEndCount]Counter // those that are over, and connections that came to none, by how it ended
	TunnelBytesIn  Counter                 // from clients to servers, through tunnels; in BytesIn too
	TunnelBytesOut Counter                 // from servers to clients; in BytesOut too
}

// AbuseCount is how many classes of abuse of HTTP/2 there are: those of
// http2.Class, in its order.
const AbuseCount = 15

// AbuseNames are the label values of sluice_http2_abuses_total.
var AbuseNames = [AbuseCount]string{
	"rapid_reset", "made_you_reset", "continuation_flood", "settings_flood", "ping_flood", "window_update_flood",
	"priority_flood", "empty_frames", "unknown_frames", "unread_replies", "head_bomb", "stalled_stream",
	"refused_stream", "malformed_request", "slow_frames",
}

// HTTP3EventCount is how many kinds of events of HTTP/3 there are: those of
// http3.Event, in its order.
const HTTP3EventCount = 6

// HTTP3EventNames are the label values of sluice_http3_events_total.
var HTTP3EventNames = [HTTP3EventCount]string{"retry", "refused_connection", "reset_request", "malformed_request", "stalled_stream", "excessive_load"}

// Shed says what Sluice itself was short of. Names are in ShedNames.
type Shed uint8

const (
	ShedLatency     Shed = iota // the loop takes too long for a turn
	ShedMemory                  // memory in use is near the limit
	ShedDescriptors             // file descriptors are nearly gone
	ShedCount
)

// ShedNames are the label values of sluice_shed_connections_total.
var ShedNames = [ShedCount]string{"latency", "memory", "descriptors"}

// ProxyHeader says what came of the PROXY header that was asked of a connection.
// Names are in ProxyHeaderNames.
type ProxyHeader uint8

const (
	HeaderTaken     ProxyHeader = iota
	HeaderUntrusted             // the connection was refused, since its address is not in trust
	HeaderInvalid               // and since it began otherwise
	HeaderMissing               // and since it ended, or its time was over, before the header was whole
	ProxyHeaderCount
)

// ProxyHeaderNames are the label values of sluice_proxy_headers_total.
var ProxyHeaderNames = [ProxyHeaderCount]string{"taken", "untrusted", "invalid", "missing"}

// Versions of TLS, as LoopStats.Handshakes counts them, and their names.
const (
	TLS12 = iota
	TLS13
	TLSVersions
)

// TLSNames are the label values of sluice_tls_handshakes_total.
var TLSNames = [TLSVersions]string{"1.2", "1.3"}

// Shun says why a TLS handshake failed. Names are in ShunNames.
type Shun uint8

const (
	ShunOther       Shun = iota
	ShunTimeout          // it took too long
	ShunGone             // the peer went away
	ShunHTTP             // it speaks HTTP without TLS
	ShunNotTLS           // it speaks something else
	ShunVersion          // no version in common
	ShunParameters       // no cipher, key exchange or signature in common
	ShunProtocol         // no application protocol in common (ALPN)
	ShunName             // no certificate for that name
	ShunCertificate      // the peer's certificate is missing, or not good
	ShunRefused          // the peer refused: mostly our certificate
	ShunCount
)

// ShunNames are the label values of sluice_tls_handshake_failures_total, and the log's.
var ShunNames = [ShunCount]string{
	"other", "timeout", "gone", "plain_http", "not_tls", "version", "parameters", "alpn", "name", "certificate", "refused",
}

// TunnelEnd says how a tunnel ended. Names are in TunnelEndNames.
type TunnelEnd uint8

const (
	TunnelClosed       TunnelEnd = iota // both sides have said that they send no more
	TunnelClientFailed                  // the client's connection failed
	TunnelServerFailed                  // the server's did
	TunnelIdle                          // nothing moved for as long as may be
	TunnelStalled                       // one side took nothing for as long as may be
	TunnelStopped                       // Sluice ended it
	TunnelRefused                       // there never was one: the client sent nothing good, or no server could be reached
	TunnelEndCount
)

// TunnelEndNames are the label values of sluice_tunnel_ends_total, and the log's.
var TunnelEndNames = [TunnelEndCount]string{"closed", "client_failed", "server_failed", "idle", "stalled", "stopped", "refused"}

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
	Misdirected
	QueueFull     // held requests were as many as may be
	QueueTimeout  // held as long as may be
	QueueDropped  // given up for a newer one, since the queue had stood for long
	DeadlineUnmet // it could not have been answered in time
	TLSFailed     // the server was reached, but did not prove who it is, spoke no TLS, or refused our certificate
	ReasonCount
)

// ReasonNames are the label values of sluice_refused_requests_total, and the log's.
var ReasonNames = [ReasonCount]string{
	"bad_request", "head_too_large", "line_too_long", "body_too_large", "client_timeout", "client_gone",
	"bad_version", "not_implemented", "no_route", "no_server", "connect_failed", "connect_timeout",
	"bad_response", "server_closed", "first_byte_timeout", "server_timeout", "internal", "misdirected",
	"queue_full", "queue_timeout", "queue_dropped", "deadline_unmet", "tls_failed",
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

	// The gate's account, in permits: what this loop claimed less what it gave back.
	// A permit may be claimed by one loop of a worker and given back by another, so
	// only the sum over a worker's loops means something.
	Permits Gauge
	Area    Counter // integral of Permits until Since, permit-ns, modulo 2^64
	Since   Counter // CLOCK_MONOTONIC, ns
	Good    Counter // permits given back for work done
	Slow    Counter // of these, the ones held longer than admission.target
	Ignored Counter // permits given back with nothing to be learned
	Failed  Counter // permits given back because the server could not, or would not
	Sum     Counter // how long the good ones were held, ns
	Squares Counter // the squares of the same, µs²

	Crossings Crossings // of Requests
	Wait      Histogram // time held, of requests that got a permit of this server after they had been held
}

// Crossings are requests sent to servers of which the node is known.
type Crossings struct {
	Local   Counter // to a server of the worker's own node
	Remote  Counter // to one of another node
	Spilled Counter // of these, the ones sent there because the own node had no permit left
}

// Home is where a server runs. It has no line of memory to itself: it is written
// when a server is configured or starts anew, and read for each request. Supervisor
// only.
type Home struct {
	node   atomic.Int32  // 1 more than the NUMA node; 0: none, or not known
	starts atomic.Uint32 // times that the server was found to have begun to listen
}

// Node is the NUMA node that the server runs on; -1: none, or not known, as of a nil
// Home.
func (h *Home) Node() int {
	if h == nil {
		return -1
	}
	return int(h.node.Load()) - 1
}

// Settle sets the node, -1 for none.
func (h *Home) Settle(node int) { h.node.Store(int32(node + 1)) }

// Starts counts the times that the server was found to have begun to listen since
// it was last looked for. The supervisor sees that of a server of this machine only.
func (h *Home) Starts() uint32 {
	if h == nil {
		return 0
	}
	return h.starts.Load()
}

// Began counts one more.
func (h *Home) Began() { h.starts.Add(1) }

// Gate is the admission gate of one server: the one cache line of a request's way
// that several workers write. Package admission/gate has its rules.
type Gate struct {
	Limit    atomic.Int64  // permits at once; 0: none was set yet, and nothing is limited. Supervisor only
	InFlight atomic.Int64  // permits claimed
	Waiters  atomic.Uint64 // bit i: requests that worker i holds may go to this server
	Used     atomic.Uint64 // 1 once a permit was claimed: then the loops' accounts of the server are worth a look
	Pace     atomic.Int64  // how long it takes for a good request of late, ns; 0: not known. Supervisor only
	_        [cacheLine - 40]byte
}

// LineStats are a worker's figures of the requests that it holds for one server.
// They are written by whichever loop holds the lock of the farm's line.
type LineStats struct {
	Waiting Gauge   // requests that may go to this server; one that may go to several counts for each
	Bound   Counter // time in which Waiting was not 0, until Since, ns
	Since   Counter // CLOCK_MONOTONIC, ns
}

// LearnedWords is the room for what a controller has learned of one server.
const LearnedWords = 16

// Learned is what the controller of one server has learned, as figures whose
// meaning is the controller's affair. Supervisor only.
type Learned [LearnedWords]float64

// serverEntry is one place of the server directory; supervisor only.
type serverEntry struct {
	State   uint64 // slotFree, slotUsed or slotReleased
	FarmLen uint32
	URLLen  uint32
	Name    [NameBytes]byte // farm, then URL
}
