// Package config turns a YAML file into a checked Config.
//
// It is the one place of names and defaults: nothing outside this package
// invents a default. Load reports every fault at once. A Config is a value that
// nobody changes after Load; a reload makes a new one.
package config

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Config is a whole configuration, defaults filled in.
type Config struct {
	Workers   Workers    `yaml:"workers" json:"workers"`
	Admin     Admin      `yaml:"admin" json:"admin"`
	Log       Log        `yaml:"log" json:"log"`
	Limits    Limits     `yaml:"limits" json:"limits"`
	Timeouts  Timeouts   `yaml:"timeouts" json:"timeouts"`
	Forward   Forward    `yaml:"forward" json:"forward"`
	Trust     []Prefix   `yaml:"trust" json:"trust"` // clients whose X-Forwarded-*, Forwarded, X-Request-Id and PROXY headers are believed
	State     string     `yaml:"state" json:"state"` // auto | off | an absolute path: the file of what limits have learned
	Overload  Overload   `yaml:"overload" json:"overload"`
	TLS       TLS        `yaml:"tls" json:"tls"` // of all listeners
	Listeners []Listener `yaml:"listeners" json:"listeners"`
	Farms     Farms      `yaml:"farms" json:"farms"`   // in the file's order
	Routes    []Route    `yaml:"routes" json:"routes"` // first match wins
}

// Workers says how many listener processes run and where (DESIGN §5).
type Workers struct {
	Per      string `yaml:"per" json:"per"`           // node | cluster | machine | a number of workers
	Affinity string `yaml:"affinity" json:"affinity"` // hard | soft | none
	Memory   string `yaml:"memory" json:"memory"`     // prefer | bind | default
	Loops    int    `yaml:"loops" json:"loops"`       // per worker; 0: one per CPU of it
	Reserve  string `yaml:"reserve" json:"reserve"`   // none | cpu | sibling: what no worker uses, so that interrupts have it
	CPUs     string `yaml:"cpus" json:"cpus"`         // only these, as "0-7,16"; empty: all that fit
	Nodes    string `yaml:"nodes" json:"nodes"`       // only these nodes' CPUs, as "0-1"; empty: all
}

// Admin is the address of /metrics, /status and the other operator's pages.
type Admin struct {
	Listen string `yaml:"listen" json:"listen"` // host:port, unix:PATH, or off
	Pprof  bool   `yaml:"pprof" json:"pprof"`
}

// Log says what is written, and where.
type Log struct {
	Access AccessLog `yaml:"access" json:"access"`
	Level  string    `yaml:"level" json:"level"` // debug | info | warn | error: Sluice's own messages, on stderr
}

// AccessLog is one line for each request.
type AccessLog struct {
	Path   string   `yaml:"path" json:"path"`     // off | stdout | stderr | a file
	Format string   `yaml:"format" json:"format"` // json | combined
	Buffer Size     `yaml:"buffer" json:"buffer"` // bytes held per loop while the disk is slow; beyond it lines are dropped and counted
	Flush  Duration `yaml:"flush" json:"flush"`   // a line waits no longer than this for its write
}

// Limits bound what one client may send. Each is tested at n and at n+1.
type Limits struct {
	Head         Size `yaml:"head" json:"head"`                   // bytes of request line and fields; beyond: 431
	Line         Size `yaml:"line" json:"line"`                   // bytes of the request line; beyond: 414
	Fields       int  `yaml:"fields" json:"fields"`               // header fields; beyond: 431
	Body         Size `yaml:"body" json:"body"`                   // bytes of a request body; beyond: 413; 0: no limit
	Requests     int  `yaml:"requests" json:"requests"`           // per connection, then it is closed; 0: no limit
	Streams      int  `yaml:"streams" json:"streams"`             // requests at once on one connection of HTTP/2 or HTTP/3
	ResponseHead Size `yaml:"response_head" json:"response_head"` // bytes of a response head; beyond: 502
}

// Timeouts bound how long a client may take. (A farm has its own for its servers.)
type Timeouts struct {
	Header Duration `yaml:"header" json:"header"` // first byte of a head to its last; then 408
	Idle   Duration `yaml:"idle" json:"idle"`     // between requests; then the connection is closed
	Body   Duration `yaml:"body" json:"body"`     // between two reads of a request body; then 408
	Write  Duration `yaml:"write" json:"write"`   // a write of the response makes no progress; then the connection is closed
	Linger Duration `yaml:"linger" json:"linger"` // after a refusal what the client still sends is read and thrown away this long
	Drain  Duration `yaml:"drain" json:"drain"`   // SIGTERM: requests in progress may take this long
	Rate   Size     `yaml:"rate" json:"rate"`     // least bytes per second of a request body and of a response taken by the client, after the first seconds (http.sys: 240)
}

// Forward says what is told to the servers about the client.
type Forward struct {
	XForwarded bool   `yaml:"x_forwarded" json:"x_forwarded"` // X-Forwarded-For, -Proto, -Host, -Port
	Forwarded  bool   `yaml:"forwarded" json:"forwarded"`     // Forwarded, RFC 7239
	Via        string `yaml:"via" json:"via"`                 // pseudonym in Via, RFC 9110 7.6.3; off: none
	RequestID  bool   `yaml:"request_id" json:"request_id"`   // X-Request-Id
	ClientCert string `yaml:"client_cert" json:"client_cert"` // rfc9440: the certificate that a client has shown, in Client-Cert | arr: in X-ARR-ClientCert | off
	Placement  bool   `yaml:"placement" json:"placement"`     // X-Sluice-Placement: node, worker, loop, server and time held; for the demo and for debugging
}

// Values of Forward.ClientCert.
const (
	ClientCertRFC = "rfc9440"
	ClientCertARR = "arr"
	ClientCertOff = "off"
)

// Listener is one address that clients connect to.
type Listener struct {
	Name     string `yaml:"name" json:"name"`
	Address  string `yaml:"address" json:"address"`             // [host]:port
	Backlog  int    `yaml:"backlog" json:"backlog"`             // connections that may wait for accept, per socket
	Steering string `yaml:"steering" json:"steering"`           // auto | node | cpu | hash: which loop gets a connection
	Away     string `yaml:"steering_away" json:"steering_away"` // wait | spread: what becomes of the new connections of a worker that has died

	Protocols     []string     `yaml:"protocols" json:"protocols"`           // http1, http2, http3: what clients may speak; with TLS they choose by ALPN
	AltSvc        Duration     `yaml:"alt_svc" json:"alt_svc"`               // how long clients keep in mind that there is HTTP/3 (Alt-Svc, RFC 7838); 0: they are not told
	TLS           *ListenerTLS `yaml:"tls" json:"tls,omitempty"`             // nil: clients speak without TLS
	ProxyProtocol string       `yaml:"proxy_protocol" json:"proxy_protocol"` // off | on: each connection begins with a PROXY header, by which those in trust tell the client's address; others are refused
	Redirect      string       `yaml:"redirect" json:"redirect"`             // https, or https:PORT: clients are sent there by 308, to the same host and path; empty: they are served
	TCP           *TCP         `yaml:"tcp" json:"tcp,omitempty"`             // not nil: bytes go to servers as they are, without HTTP
}

// TCP says which farm's servers get the connections of a listener. Without tls of the
// listener a client's TLS goes through to the server; with it, it ends here, and the
// servers get what is inside.
type TCP struct {
	Routes      []TCPRoute `yaml:"routes" json:"routes"`           // first match wins; no match: the connection is closed
	Connections int        `yaml:"connections" json:"connections"` // open at once, per worker; beyond they are closed; 0: no limit
}

// TCPRoute sends matching connections to a farm.
type TCPRoute struct {
	SNI  string `yaml:"sni" json:"sni"` // the name that a client's TLS asks for: exact, or *.example.com: any name below it; empty: every connection
	Farm string `yaml:"farm" json:"farm"`
}

// Values of Listener.Steering, Listener.Away and Listener.ProxyProtocol.
const (
	SteerAuto = "auto" // SteerNode if workers are on several nodes, else SteerHash
	SteerNode = "node" // a loop of the node whose CPU received the connection
	SteerCPU  = "cpu"  // the loop of that CPU
	SteerHash = "hash" // any loop

	AwayWait   = "wait"   // they wait for the next process, for a second at most; then they are spread
	AwaySpread = "spread" // they go to the others at once

	ProxyOff = "off"
	ProxyOn  = "on" // version 1 or 2

	ProxyV1 = "v1" // of Farm.ProxyProtocol: one line of text
	ProxyV2 = "v2" // binary, with what is known of the client's TLS
)

// ProtocolAuto is a value of Farm.Protocol, as are HTTP1 and HTTP2.
const ProtocolAuto = "auto"

// Values of Listener.Protocols.
const (
	HTTP1 = "http1" // HTTP/1.0 and HTTP/1.1
	HTTP2 = "http2" // without TLS: by prior knowledge
	HTTP3 = "http3" // over UDP, on the same port
)

// ListenerTLS says how TLS ends at a listener. Sizes of keys, and which ciphers, are
// not to be configured: only what is good today is on offer.
type ListenerTLS struct {
	Certificates []Certificate `yaml:"certificates" json:"certificates"` // by SNI; the first is for clients that name no host, or one that no certificate covers
	MinVersion   string        `yaml:"min_version" json:"min_version"`   // 1.2 | 1.3
	Curves       []string      `yaml:"curves" json:"curves"`             // key exchanges on offer: see curveNames
	Handshake    Duration      `yaml:"handshake" json:"handshake"`       // accept to the handshake's end; then the connection is closed
	Handshakes   int           `yaml:"handshakes" json:"handshakes"`     // in progress at once, per worker; others wait, within the same time; 0: 1000 for each loop
	ClientAuth   ClientAuth    `yaml:"client_auth" json:"client_auth"`
	HSTS         HSTS          `yaml:"hsts" json:"hsts"`
}

// Certificate names the files of one certificate, PEM. Several of one name may stand
// side by side, such as an ECDSA and an RSA one: the client's first choice is taken. In a
// file one word stands for cert alone.
type Certificate struct {
	Cert string `yaml:"cert" json:"cert"` // the certificate, then those that lead to its root
	Key  string `yaml:"key" json:"key"`   // the private key; empty: it stands in cert
	OCSP string `yaml:"ocsp" json:"ocsp"` // auto: its authority is asked whether it is still good, if it says where; off; or a file with the answer, DER. Clients are shown it (RFC 6066 8)
}

// TLS is what the listeners with TLS have in common.
type TLS struct {
	Tickets Tickets `yaml:"tickets" json:"tickets"`
	ACME    *ACME   `yaml:"acme" json:"acme,omitempty"` // nil: all certificates are files
}

// ACME says which certificates are asked for, and renewed, by the protocol of RFC 8555.
// The authority looks for the names at port 443 (tls-alpn-01, RFC 8737); all listeners with
// TLS have the certificates, and answer. To name a directory is to agree to its terms.
type ACME struct {
	Names     []string `yaml:"names" json:"names"`         // hosts, a certificate for each
	Cache     string   `yaml:"cache" json:"cache"`         // directory that keeps keys and certificates; several machines may share it
	Email     string   `yaml:"email" json:"email"`         // where the authority writes to; empty: nowhere
	Directory string   `yaml:"directory" json:"directory"` // URL of the authority
	CA        string   `yaml:"ca" json:"ca"`               // file of the certificates, PEM, that sign the directory's; empty: those of this machine
	Proof     string   `yaml:"proof" json:"proof"`         // tls-alpn-01 | http-01: where the authority looks for a name
}

// Values of ACME.Proof: RFC 8737, at port 443; RFC 8555 8.3, at port 80.
const (
	ProofTLS  = "tls-alpn-01"
	ProofHTTP = "http-01"
)

// Tickets are what clients go on with a session by (RFC 8446 2.2, RFC 5077). All workers
// share their keys. A ticket opens for two to three times Rotate.
type Tickets struct {
	File   string   `yaml:"file" json:"file"`     // of secrets that keys are made of, so that several machines have the same; empty: keys of this run alone
	Rotate Duration `yaml:"rotate" json:"rotate"` // a key seals no longer
}

// ClientAuth says whether clients show a certificate. In a file one word stands for
// the mode alone.
type ClientAuth struct {
	Mode string `yaml:"mode" json:"mode"` // off | request: one that is shown must be good | require
	CA   string `yaml:"ca" json:"ca"`     // file of the certificates, PEM, that sign those of clients
}

// Values of Certificate.OCSP that are no file.
const (
	OCSPAuto = "auto"
	OCSPOff  = "off"
)

// Values of ClientAuth.Mode.
const (
	ClientAuthOff     = "off"
	ClientAuthRequest = "request"
	ClientAuthRequire = "require"
)

// HSTS is Strict-Transport-Security, RFC 6797, on every answer of the listener. In a
// file one duration stands for the age alone.
type HSTS struct {
	MaxAge     Duration `yaml:"max_age" json:"max_age"`       // how long browsers remember; 0: the field is not sent
	Subdomains bool     `yaml:"subdomains" json:"subdomains"` // for the names below as well
	Preload    bool     `yaml:"preload" json:"preload"`       // the owner agrees to lists that browsers are built with
}

// Farm is a set of servers that answer the same requests.
type Farm struct {
	Name        string       `yaml:"-" json:"name"`
	Servers     []Server     `yaml:"servers" json:"servers"`
	Host        string       `yaml:"host" json:"host"`         // preserve | server | a fixed name: the Host that servers see
	Protocol    string       `yaml:"protocol" json:"protocol"` // http1 | http2 | auto: what servers are spoken to in; auto: what one that is https:// chooses
	Connections Connections  `yaml:"connections" json:"connections"`
	Timeouts    FarmTimeouts `yaml:"timeouts" json:"timeouts"`
	Retries     int          `yaml:"retries" json:"retries"`   // other tries of a request that may be sent again
	FailFor     Duration     `yaml:"fail_for" json:"fail_for"` // a server that could not be reached is skipped this long
	Spill       Spill        `yaml:"spill" json:"spill"`
	Admission   Admission    `yaml:"admission" json:"admission"`

	ProxyProtocol string   `yaml:"proxy_protocol" json:"proxy_protocol"` // off | v1 | v2: each connection to a server begins with a PROXY header that tells its client, and serves no other
	TLS           *FarmTLS `yaml:"tls" json:"tls,omitempty"`             // of servers that are https://; nil: all is as it is by default
}

// FarmTLS says how the servers of a farm prove who they are, and what is shown to
// them.
type FarmTLS struct {
	CA       string   `yaml:"ca" json:"ca"`             // file of the certificates, PEM, that sign those of servers; empty: those that this machine trusts
	Name     string   `yaml:"name" json:"name"`         // what servers' certificates are for, and the name that they are asked by (SNI); empty: the host of their URL
	Cert     string   `yaml:"cert" json:"cert"`         // file of the certificate that is shown to servers, then those that lead to its root; empty: none
	Key      string   `yaml:"key" json:"key"`           // its private key; empty: it stands in cert
	Pins     []string `yaml:"pins" json:"pins"`         // sha256/BASE64 of public keys (RFC 7469 2.4), of which one must be among the server's; none: any
	Insecure bool     `yaml:"insecure" json:"insecure"` // believe every server: only pins are checked, and only the server's own key
}

// Equal reports whether two say the same; nil says nothing special.
func (t *FarmTLS) Equal(o *FarmTLS) bool {
	t, o = cmp.Or(t, &FarmTLS{}), cmp.Or(o, &FarmTLS{})
	return t.CA == o.CA && t.Name == o.Name && t.Cert == o.Cert && t.Key == o.Key && t.Insecure == o.Insecure && slices.Equal(t.Pins, o.Pins)
}

// Admission says how many requests each server of a farm may have at once, and
// what becomes of those beyond. In a file one word or number stands for the limit
// alone: "admission: 50".
type Admission struct {
	Limit        Limit    `yaml:"limit" json:"limit"`                 // adaptive | gradient2 | off | a number
	Min          int      `yaml:"min" json:"min"`                     // requests; a limit never falls below
	Max          int      `yaml:"max" json:"max"`                     // requests; a limit never rises above
	Target       Duration `yaml:"target" json:"target"`               // nine of ten good responses should be faster; it only lowers the limit; 0: none
	Queue        int      `yaml:"queue" json:"queue"`                 // requests held at once, per worker; beyond: 503; 0: none is held
	Timeout      Duration `yaml:"timeout" json:"timeout"`             // a request is held no longer; then 503
	Failures     []string `yaml:"failures" json:"failures"`           // responses by which a server says that it has too much to do: see ParseFailure
	Priority     Key      `yaml:"priority" json:"priority"`           // header:NAME | cookie:NAME: where a trusted client's request says its urgency, RFC 9218 4.1; empty: nowhere
	Tenant       Key      `yaml:"tenant" json:"tenant"`               // client | host | header:NAME | cookie:NAME: whose share of the queue a request takes; empty: all alike
	Deadline     Key      `yaml:"deadline" json:"deadline"`           // header:NAME: how long the client will wait, as 250ms, 2s or a number of milliseconds; empty: nowhere
	ServerTiming bool     `yaml:"server_timing" json:"server_timing"` // tell the client the time held, in Server-Timing
}

// Server is one backend.
type Server struct {
	URL    string `yaml:"url" json:"url"`       // http://host:port, https://host:port, h2://host:port, http+unix:///path/to.sock, or tcp://host:port for raw TCP only
	Weight int    `yaml:"weight" json:"weight"` // share of requests, 1 to 1000; 0 takes it out
	Node   Node   `yaml:"node" json:"node"`     // auto | off | the NUMA node that it runs on
}

// Spill says when a request leaves its NUMA node although a server there is up. In
// a file one word or number stands for the threshold alone: "spill: off".
type Spill struct {
	Threshold Threshold `yaml:"threshold" json:"threshold"`
}

// Connections bounds the connections to each server, per worker.
type Connections struct {
	Max  int `yaml:"max" json:"max"`   // open at once; beyond it a request waits up to timeouts.connect; 0: no limit
	Idle int `yaml:"idle" json:"idle"` // kept open unused
}

// FarmTimeouts bound how long a server may take.
type FarmTimeouts struct {
	Connect   Duration `yaml:"connect" json:"connect"`       // to open a connection; then the next server, or 504
	FirstByte Duration `yaml:"first_byte" json:"first_byte"` // end of request to the response's first byte; then 504
	Idle      Duration `yaml:"idle" json:"idle"`             // between two reads of a response body, or two writes of a request
	KeepAlive Duration `yaml:"keep_alive" json:"keep_alive"` // an unused connection stays open
	Continue  Duration `yaml:"continue" json:"continue"`     // the server's 100 is awaited this long before ours is sent
	Tunnel    Duration `yaml:"tunnel" json:"tunnel"`         // a tunnel (WebSocket, CONNECT, raw TCP) in which nothing moves either way; then it is closed
}

// Route sends matching requests to a farm.
type Route struct {
	Host string `yaml:"host" json:"host"` // exact, or *.example.com: any name below it, however deep; empty: any
	Path string `yaml:"path" json:"path"` // prefix of whole segments: /api, or /api/, matches /api and /api/x, not /apis; as sent, escapes and all; empty: any
	Farm string `yaml:"farm" json:"farm"`

	Upgrades  []string `yaml:"upgrades" json:"upgrades"`   // protocols that a client may switch to by Upgrade, as websocket; connect: tunnels by CONNECT; all others are answered 501
	Admission string   `yaml:"admission" json:"admission"` // empty: as the farm says; off: never held, and its response times teach nothing
	Priority  int      `yaml:"priority" json:"priority"`   // urgency from 0, first, to 7, last: RFC 9218 4.1
	Deadline  Duration `yaml:"deadline" json:"deadline"`   // how long a client waits; a request that cannot be served in time is refused at once; 0: none
}

// Overload says when Sluice itself has too much to do: then it refuses new
// connections, so that it can go on with those that it has.
type Overload struct {
	Latency     Duration `yaml:"latency" json:"latency"`         // one turn of a loop takes longer, smoothed; 0: never
	Memory      int      `yaml:"memory" json:"memory"`           // percent of the worker's memory limit in use; 0: never
	Descriptors int      `yaml:"descriptors" json:"descriptors"` // percent of the descriptors that the worker may have; 0: never
}

// Farms keeps the file's order; names are unique.
type Farms []Farm

// Limit is how many requests a server may have at once: adaptive, gradient2, off,
// or a number.
type Limit string

// Node is where a server runs: on the NUMA node with that number; on the one of the
// process that listens at its address, if that is on this machine (auto); or
// nowhere, so that it serves all nodes alike (off).
type Node string

// Threshold is by how many percent points more of their permits the servers of the
// own node must have in use than a server of another: off, or 0 to 100. Only then,
// and only if the own node has none left, a request goes there.
type Threshold string

// Key says where in a request a value stands: client, host, header:NAME or
// cookie:NAME. The empty Key is nowhere.
type Key string

// Duration is a time span, in YAML and JSON a string with its unit: 30s, 1h30m.
type Duration time.Duration

// Size is a number of bytes, in YAML and JSON a number with an optional unit:
// 64KiB, 10MiB, 1GB, 240.
type Size int64

// Prefix is an address range: 10.0.0.0/8, or one address.
type Prefix netip.Prefix
