// Package spec is what crosses from the supervisor to a worker: one struct, and
// the descriptors that belong to it, over a Unix socket. Supervisor and worker
// share no other Go code.
package spec

import "sluice/internal/config"

// Version of the protocol between supervisor and worker. They are the same
// binary, save during an upgrade.
const Version = 1

// Spec is everything that a worker needs to serve. A reload sends a new one.
type Spec struct {
	Version    int            `json:"version"`
	Generation uint64         `json:"generation"` // counts configurations, from 1
	Worker     int            `json:"worker"`     // index of this worker; its slot in the segment
	Node       int            `json:"node"`       // NUMA node; -1 if the machine tells none
	Nodes      []int          `json:"nodes"`      // all that it has CPUs of: servers there are its own
	CPUs       []int          `json:"cpus"`       // loop i runs on CPUs[i % len]
	Pin        bool           `json:"pin"`        // pin loops to their CPUs
	Overflow   []int          `json:"overflow"`   // CPUs that loops may go to as well while CPUs are full; none: they stay
	Loops      int            `json:"loops"`
	Listeners  []Listener     `json:"listeners"`
	Bells      []int          `json:"bells"` // eventfds: Bells[i] wakes worker i; in the message indexes, as Listener.Sockets
	Servers    []ServerSlot   `json:"servers"`
	Config     *config.Config `json:"config"`
	Keys       *Keys          `json:"keys"`  // of Config's certificates; nil if it names none
	Build      string         `json:"build"` // version of the binary, for Via and the demo page
	QUIC       QUIC           `json:"quic"`
}

// QUIC is what all workers share so that one can answer for connections that another
// had: keys of 32 bytes for the tokens of stateless resets, and for those that show
// that a client's address was verified (RFC 9000 10.3, 8.1). They are secret.
type QUIC struct {
	Reset []byte `json:"reset"`
	Token []byte `json:"token"`
}

// Listener names the sockets of one configured listener: Sockets[i] belongs to
// loop i. In the message they are indexes into the descriptors passed along; the
// receiver replaces them by its own descriptor numbers.
type Listener struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Sockets []int  `json:"sockets"`
	Packets []int  `json:"packets,omitempty"` // the same for QUIC: none if HTTP/3 is not spoken
	Place   int    `json:"place,omitempty"`   // of the first of Packets in the group of all workers' sockets; the others follow
}

// ServerSlot gives a server its place in the segment. The place stays with the
// server's identity (farm and URL) over every reload.
type ServerSlot struct {
	Farm string `json:"farm"`
	URL  string `json:"url"`
	Slot int    `json:"slot"`
}

// Keys are what a worker needs to end TLS, read from files that it has no right to
// read. They are secret: nothing writes them anywhere. They change without the
// configuration, by a message of their own.
type Keys struct {
	Certificates []Certificate  `json:"certificates"`
	Listeners    []ListenerKeys `json:"listeners"`  // as Config.Listeners
	Tickets      [][]byte       `json:"tickets"`    // keys of session tickets, 32 bytes each: the first seals, all open
	Challenges   []Challenge    `json:"challenges"` // what an authority wants to see now
	Serial       uint64         `json:"serial"`     // counts what was given out
	Farms        []FarmKeys     `json:"farms"`      // as Config.Farms
}

// Certificate is a certificate with its key, in PEM.
type Certificate struct {
	Chain  string `json:"chain"` // the certificate itself, then those that lead to its root
	Key    string `json:"key"`
	Staple []byte `json:"staple"` // its authority's word that it is good (OCSP, RFC 6960), DER; nil: none
}

// Challenge is what proves to an authority that a name is ours, and is for nobody else: a
// certificate (RFC 8737), or else an answer by HTTP (RFC 8555 8.3).
type Challenge struct {
	Name string `json:"name"`
	Certificate
	Path   string `json:"path"` // where the authority asks; empty: it looks for the certificate
	Answer string `json:"answer"`
}

// ListenerKeys are those of one listener; empty without TLS.
type ListenerKeys struct {
	Certificates []int  `json:"certificates"` // indexes into Keys.Certificates, as the configuration's
	ClientCA     string `json:"client_ca"`    // PEM; empty if clients are asked for nothing
}

// FarmKeys are those for the servers of one farm; empty if it names no files.
type FarmKeys struct {
	Certificates []int  `json:"certificates"` // the one that is shown to servers: its index in Keys.Certificates
	CA           string `json:"ca"`           // PEM; empty: the system's
}
