package config

import (
	"cmp"
	"net/url"
	"strings"
	"time"
)

// Default gives the configuration of a file that says nothing: all it lacks is a
// farm.
func Default() *Config {
	return &Config{
		Workers: Workers{Per: "node", Affinity: "hard", Memory: "prefer", Reserve: "none"},
		Admin:   Admin{Listen: "127.0.0.1:9900"},
		Log: Log{
			Access: AccessLog{Path: "stdout", Format: "json", Buffer: 1 << 20, Flush: seconds(1)},
			Level:  "info",
		},
		Limits: Limits{
			Head: 64 << 10, Line: 16 << 10, Fields: 128, Requests: 100_000, Streams: 100, ResponseHead: 64 << 10,
		},
		Timeouts: Timeouts{
			Header: seconds(30), Idle: seconds(60), Body: seconds(30), Write: seconds(60),
			Linger: seconds(5), Drain: seconds(30), Rate: 240,
		},
		Forward:   Forward{XForwarded: true, Via: "sluice", RequestID: true, ClientCert: ClientCertRFC},
		Listeners: []Listener{newListener(":8080")},
		State:     "auto",
		Overload:  Overload{Latency: seconds(1) / 2, Memory: 90, Descriptors: 90},
		TLS:       TLS{Tickets: Tickets{Rotate: seconds(12 * 3600)}},
	}
}

// defaultBacklog is the kernel's own net.core.somaxconn since Linux 5.4.
const defaultBacklog = 4096

// defaultPriority is the urgency of a request that says none, RFC 9218 4.1.
const defaultPriority = 3

// NewFarm gives a farm with all defaults and these servers.
func NewFarm(name string, urls ...string) Farm {
	farm := Farm{
		Name:        name,
		Host:        "preserve",
		Protocol:    HTTP1,
		Connections: Connections{Idle: 256},
		Timeouts: FarmTimeouts{
			Connect: seconds(5), FirstByte: seconds(30), Idle: seconds(60),
			KeepAlive: seconds(30), Continue: seconds(1), Tunnel: seconds(3600),
		},
		Retries: 1,
		FailFor: seconds(10),
		Spill:   Spill{Threshold: "20"},
		Admission: Admission{
			Limit: "adaptive", Min: 2, Max: 10_000, Queue: 1000, Timeout: seconds(30),
			Failures: []string{"429", "503"},
		},
		ProxyProtocol: ProxyOff,
	}
	for _, u := range urls {
		server := Server{URL: u}
		server.setDefaults()
		farm.Servers = append(farm.Servers, server)
	}
	return farm
}

// newListener gives a listener of this address, which is its name too.
func newListener(address string) Listener {
	l := Listener{Name: address, Address: address}
	l.setDefaults()
	return l
}

func (l *Listener) setDefaults() {
	l.Backlog, l.Steering, l.Away, l.ProxyProtocol = defaultBacklog, SteerAuto, AwayWait, ProxyOff
	l.Protocols, l.AltSvc = []string{HTTP1, HTTP2}, defaultAltSvc
}

// defaultAltSvc is what most who serve HTTP/3 say, and RFC 7838 3.1 assumes.
const defaultAltSvc = Duration(24 * time.Hour)

// defaultHandshakes bounds the memory of handshakes, some 40 KiB each, and is as many
// as may wait for accept.
const defaultHandshakes = 4096

func (t *ListenerTLS) setDefaults() {
	t.MinVersion, t.Curves = "1.2", []string{"X25519MLKEM768", "X25519", "P-256", "P-384"}
	t.Handshake, t.Handshakes = seconds(10), defaultHandshakes
	t.ClientAuth.Mode = ClientAuthOff
}

func (a *ACME) setDefaults() {
	a.Directory, a.Proof = "https://acme-v02.api.letsencrypt.org/directory", ProofTLS
}

func (c *Certificate) setDefaults() { c.OCSP = OCSPAuto }

func (s *Server) setDefaults() { s.Weight, s.Node = 100, "auto" }
func (r *Route) setDefaults()  { r.Priority, r.Upgrades = defaultPriority, []string{"websocket"} }

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }

// Simple gives the configuration of a sidecar: one listener, one server. An
// empty listen is ":8080". Its Faults name the flags, --listen and --to.
func Simple(listen, to string) (*Config, error) {
	c := Default()
	if listen != "" {
		c.Listeners[0] = newListener(listen)
	}
	c.Farms = Farms{NewFarm("app", to)}
	c.Normalize()
	err := c.Validate()
	faults, bad := err.(Faults)
	if !bad {
		return c, nil
	}
	flags := strings.NewReplacer("listeners[0].address", "--listen", "farms.app.servers[0].url", "--to")
	for i := range faults {
		faults[i].Path = flags.Replace(faults[i].Path)
	}
	return nil, faults
}

// Normalize fills in what follows from other values, for a Config that was made
// by code: names of listeners, the route to an only farm, the plain form of
// URLs. Load and Parse have done it already.
func (c *Config) Normalize() {
	c.derive(&report{})
}

// derive fills in what follows from other values. Where the operator set only
// one of two related values, the default of the other gives way.
func (c *Config) derive(r *report) {
	if !r.wasSet("limits.line") {
		c.Limits.Line = min(c.Limits.Line, max(c.Limits.Head, minHead))
	}
	for i := range c.Listeners {
		l := &c.Listeners[i]
		l.Name = cmp.Or(l.Name, l.Address)
		if l.TLS != nil {
			l.TLS.derive()
		}
	}
	for i := range c.Farms {
		f := &c.Farms[i]
		at := join("farms", f.Name)
		if f.Connections.Max > 0 && !r.wasSet(at+".connections.idle") {
			f.Connections.Idle = min(f.Connections.Idle, f.Connections.Max)
		}
		if !r.wasSet(at + ".timeouts.continue") {
			f.Timeouts.Continue = min(f.Timeouts.Continue, f.Timeouts.FirstByte)
		}
		if t := f.TLS; t != nil && t.Key == "" {
			t.Key = t.Cert
		}
		r.deriveAdmission(&f.Admission, at+".admission")
		for j := range f.Servers {
			f.Servers[j].URL = plainURL(f.Servers[j].URL)
		}
	}
	if len(c.Routes) == 0 && len(c.Farms) == 1 && !c.Farms[0].raw() {
		c.Routes = []Route{{Farm: c.Farms[0].Name}}
		c.Routes[0].setDefaults()
	}
}

// plainURL takes away what makes two spellings of one server differ: the case
// of scheme and host, and a lone slash at the end. What is no good URL it leaves
// as it is.
func plainURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https") && !strings.EqualFold(u.Scheme, "tcp") || u.Host == "" || u.User != nil {
		return text
	}
	scheme, rest, _ := strings.Cut(text, "://")
	host := strings.TrimSuffix(rest, "/")
	if strings.ContainsAny(host, "/?#") {
		return text
	}
	return strings.ToLower(scheme + "://" + host)
}
