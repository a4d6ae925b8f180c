package admin

import (
	"os"
	"slices"
	"time"

	"sluice/internal/config"
	"sluice/internal/segment"
)

// Status is what GET /status answers, and `sluice status` prints. Counters count
// since the supervisor began; they outlive workers and reloads. Times are in
// seconds, sizes in bytes.
type Status struct {
	Version       string           `json:"version"`
	Generation    uint64           `json:"generation"` // of the configuration, from 1
	Ready         bool             `json:"ready"`      // every worker serves
	Time          time.Time        `json:"time"`       // of this answer
	Started       time.Time        `json:"started"`
	UptimeSeconds float64          `json:"uptime_seconds"`
	PID           int              `json:"pid"` // of the supervisor
	Process       Usage            `json:"process"`
	Workers       []WorkerStatus   `json:"workers"`
	Nodes         []NodeStatus     `json:"nodes"`
	Listeners     []ListenerStatus `json:"listeners"`

	Certificates []CertificateStatus `json:"certificates"` // of all listeners, by file
	ACME         []NameStatus        `json:"acme"`         // names of tls.acme
	Farms        []FarmStatus        `json:"farms"`
	Admission    AdmissionTotals     `json:"admission"`
	Duration     Distribution        `json:"duration"` // of requests: head complete to the response's last byte given to the kernel
}

// CertificateStatus is one certificate.
type CertificateStatus struct {
	File    string    `json:"file"`
	Names   []string  `json:"names"` // that it covers
	Issuer  string    `json:"issuer"`
	Expires time.Time `json:"expires"`
	Asked   bool      `json:"acme"`         // asked for by ACME; else its file is the operator's
	Soon    bool      `json:"expires_soon"` // within two weeks, or a quarter of its life if that is less and it is asked for; or it has
}

// NameStatus is a name that certificates are asked for by ACME.
type NameStatus struct {
	Name   string    `json:"name"`
	Held   bool      `json:"held"`   // there is one
	Failed int       `json:"failed"` // times in a row that none was got
	Error  string    `json:"error"`  // of the last; empty: none
	Next   time.Time `json:"next"`   // when it is asked for again, if failed is not 0
}

// AdmissionTotals are requests held and connections shed, of all workers.
type AdmissionTotals struct {
	Held        int64             `json:"held"`         // requests that wait for a permit now
	ClientsGone uint64            `json:"clients_gone"` // held requests whose client went away
	Wait        Distribution      `json:"wait"`         // of all that were held, however it ended
	Shed        map[string]uint64 `json:"shed"`         // connections refused at once, by what Sluice was short of
	// Both stay 0 unless something is wrong.
	Leaks    uint64 `json:"leaks"`    // permits that belonged to nobody
	Stranded uint64 `json:"stranded"` // times that requests waited although permits were free
}

// WorkerStatus is one listener process.
type WorkerStatus struct {
	Index    int       `json:"index"`
	PID      int       `json:"pid"`
	Node     int       `json:"node"` // NUMA node; -1 if the machine tells none
	CPUs     []int     `json:"cpus"`
	Loops    int       `json:"loops"`
	State    string    `json:"state"` // starting, serving, draining or restarting
	Restarts int       `json:"restarts"`
	Started  time.Time `json:"started"`
	Process  Usage     `json:"process"`
	Traffic
	Responses    map[string]uint64 `json:"responses"`     // by class: "2xx"; "none" if none was sent
	Refused      map[string]uint64 `json:"refused"`       // answered by Sluice itself, by reason; those that happened
	Shed         map[string]uint64 `json:"shed"`          // connections refused at once, by what Sluice was short of; those that happened
	ProxyHeaders map[string]uint64 `json:"proxy_headers"` // of listeners with proxy_protocol, by what came of them; those that happened
	AcceptPauses uint64            `json:"accept_pauses"`
	LogDropped   uint64            `json:"log_dropped"`
	Panics       uint64            `json:"panics"`
}

// Traffic is what clients do with a worker, or with the workers of a node.
type Traffic struct {
	Connections       int64     `json:"connections"` // open now
	Idle              int64     `json:"idle"`        // of these, between requests
	Active            int64     `json:"active"`      // requests in progress
	Held              int64     `json:"held"`        // of these, waiting for a permit; the others are at a server, or their client is sending or reading
	Accepted          uint64    `json:"accepted"`    // connections
	Requests          uint64    `json:"requests"`
	BusySeconds       float64   `json:"busy_seconds"`        // all loops together, not asleep
	RequestsPerSecond float64   `json:"requests_per_second"` // over the last 5 to 10 s
	Utilisation       float64   `json:"utilisation"`         // share of the loops' time not asleep, 0 to 1, over the same
	BytesIn           uint64    `json:"bytes_in"`            // from clients
	BytesOut          uint64    `json:"bytes_out"`           // to clients
	Crossings         Crossings `json:"crossings"`
	Tunnels           Tunnels   `json:"tunnels"`
}

// Tunnels are connections whose bytes Sluice only moves.
type Tunnels struct {
	Open     int64             `json:"open"` // now
	Opened   uint64            `json:"opened"`
	BytesIn  uint64            `json:"bytes_in"`  // from clients to servers; in those of Traffic too
	BytesOut uint64            `json:"bytes_out"` // from servers to clients; likewise
	Ends     map[string]uint64 `json:"ends"`      // by how they ended; those that happened
}

func newTunnels(t *segment.LoopStats) Tunnels {
	n := Tunnels{
		Open: t.Tunnels.Load(), Opened: t.Tunneled.Load(),
		BytesIn: t.TunnelBytesIn.Load(), BytesOut: t.TunnelBytesOut.Load(), Ends: make(map[string]uint64),
	}
	for end, name := range segment.TunnelEndNames {
		if count := t.TunnelEnds[end].Load(); count > 0 {
			n.Ends[name] = count
		}
	}
	return n
}

// add adds those of another worker.
func (n *Tunnels) add(o Tunnels) {
	n.Open += o.Open
	n.Opened += o.Opened
	n.BytesIn += o.BytesIn
	n.BytesOut += o.BytesOut
	if n.Ends == nil && o.Ends != nil {
		n.Ends = make(map[string]uint64)
	}
	for end, count := range o.Ends {
		n.Ends[end] += count
	}
}

// Crossings are requests sent to servers of which the node is known, each try
// counted.
type Crossings struct {
	Local   uint64 `json:"local"`   // to a server of the worker's own node
	Remote  uint64 `json:"remote"`  // to one of another
	Spilled uint64 `json:"spilled"` // of these, the ones sent there because the own node had no permit left
}

func newCrossings(c *segment.Crossings) Crossings {
	return Crossings{Local: c.Local.Load(), Remote: c.Remote.Load(), Spilled: c.Spilled.Load()}
}

func (c *Crossings) add(o Crossings) {
	c.Local += o.Local
	c.Remote += o.Remote
	c.Spilled += o.Spilled
}

// NodeStatus is the sum over the workers of one NUMA node.
type NodeStatus struct {
	Node    int   `json:"node"`
	Workers []int `json:"workers"` // indexes
	Loops   int   `json:"loops"`
	Traffic
}

// ListenerStatus is an address that clients connect to.
type ListenerStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// FarmStatus is a set of servers.
type FarmStatus struct {
	Name    string         `json:"name"`
	Servers []ServerStatus `json:"servers"`
}

// ServerStatus is one backend, seen by all workers together.
type ServerStatus struct {
	URL             string       `json:"url"`
	Node            *int         `json:"node,omitempty"` // NUMA node, if it has one and that is known
	Weight          int          `json:"weight"`
	Requests        uint64       `json:"requests"` // sent, each try counted
	Failures        uint64       `json:"failures"` // tries without a whole, valid response
	Retries         uint64       `json:"retries"`
	Connects        uint64       `json:"connects"`
	ConnectFailures uint64       `json:"connect_failures"`
	Reused          uint64       `json:"reused"` // requests on a kept connection
	Open            int64        `json:"open"`   // connections now
	Idle            int64        `json:"idle"`   // of these, unused
	InFlight        int64        `json:"in_flight"`
	BytesIn         uint64       `json:"bytes_in"` // from the server
	BytesOut        uint64       `json:"bytes_out"`
	Crossings       Crossings    `json:"crossings"`
	Response        Distribution `json:"response"` // last request byte sent to the response's first byte
	// With the last 32 decisions; GET /limits has all. Missing in the moment of a reload.
	Admission *AdmissionStatus `json:"admission,omitempty"`
}

// Distribution sums up a histogram, in seconds. Quantiles are within 12.5 %.
type Distribution struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
}

// newStatus reads the segment and the view once.
func newStatus(view View, samples *sampler) *Status {
	now := time.Now()
	s := &Status{
		Version:       view.Build(),
		Generation:    view.Generation(),
		Ready:         view.Ready(),
		Time:          now,
		Started:       view.Started(),
		UptimeSeconds: now.Sub(view.Started()).Seconds(),
		PID:           os.Getpid(),
		Process:       usageNow(os.Getpid()),
		Workers:       []WorkerStatus{},
		Nodes:         []NodeStatus{},
		Listeners:     []ListenerStatus{},
		Certificates:  []CertificateStatus{},
		ACME:          []NameStatus{},
	}
	var all segment.LoopStats
	for _, w := range view.Workers() {
		totals := view.Segment().Totals(w.Index)
		all.Merge(&totals)
		s.Workers = append(s.Workers, newWorker(w, &totals, samples.rate(w, totals, now)))
	}
	for _, l := range view.Config().Listeners {
		s.Listeners = append(s.Listeners, ListenerStatus{Name: l.Name, Address: l.Address})
	}
	certificates := view.Certificates()
	for _, c := range certificates.All {
		s.Certificates = append(s.Certificates, CertificateStatus(c))
	}
	for _, n := range certificates.Asked {
		s.ACME = append(s.ACME, NameStatus(n))
	}
	s.Nodes = newNodes(s.Workers)
	limits := view.Admission()
	s.Farms = newFarms(view, limitsByServer(limits))
	s.Admission = AdmissionTotals{
		Held: all.Held.Load(), ClientsGone: all.LeftHeld.Load(), Wait: newDistribution(&all.Wait),
		Shed: shed(&all), Leaks: limits.Leaks, Stranded: limits.Stranded,
	}
	s.Duration = newDistribution(&all.Duration)
	return s
}

func newWorker(w WorkerView, t *segment.LoopStats, r rate) WorkerStatus {
	return WorkerStatus{
		Index: w.Index, PID: w.PID, Node: w.Node, CPUs: w.CPUs, Loops: w.Loops,
		State: w.State, Restarts: w.Restarts, Started: w.Started,
		Process: usageNow(w.PID),
		Traffic: Traffic{
			Connections:       t.Connections.Load(),
			Idle:              t.Idle.Load(),
			Active:            t.Active.Load(),
			Held:              t.Held.Load(),
			Accepted:          t.Accepted.Load(),
			Requests:          t.Requests.Load(),
			BusySeconds:       time.Duration(t.BusyNanos.Load()).Seconds(),
			RequestsPerSecond: r.requests,
			Utilisation:       r.utilisation,
			BytesIn:           t.BytesIn.Load(),
			BytesOut:          t.BytesOut.Load(),
			Crossings:         newCrossings(&t.Crossings),
			Tunnels:           newTunnels(t),
		},
		Responses:    responses(t),
		Refused:      refused(t),
		Shed:         shed(t),
		ProxyHeaders: proxyHeaders(t),
		AcceptPauses: t.AcceptPauses.Load(),
		LogDropped:   t.LogDropped.Load(),
		Panics:       t.Panics.Load(),
	}
}

// classNames are the label values of response classes, by first digit.
var classNames = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

func responses(t *segment.LoopStats) map[string]uint64 {
	by := make(map[string]uint64, len(classNames))
	for class, name := range classNames {
		by[name] = t.Status[class].Load()
	}
	return by
}

func refused(t *segment.LoopStats) map[string]uint64 {
	by := make(map[string]uint64)
	for reason, name := range segment.ReasonNames {
		if n := t.Refused[reason].Load(); n > 0 {
			by[name] = n
		}
	}
	return by
}

func shed(t *segment.LoopStats) map[string]uint64 {
	by := make(map[string]uint64)
	for cause, name := range segment.ShedNames {
		if n := t.Shed[cause].Load(); n > 0 {
			by[name] = n
		}
	}
	return by
}

func proxyHeaders(t *segment.LoopStats) map[string]uint64 {
	by := make(map[string]uint64)
	for result, name := range segment.ProxyHeaderNames {
		if n := t.ProxyHeaders[result].Load(); n > 0 {
			by[name] = n
		}
	}
	return by
}

// newNodes sums workers by node, ascending. Utilisation is weighed by loops.
func newNodes(workers []WorkerStatus) []NodeStatus {
	nodes := []NodeStatus{}
	for _, w := range workers {
		i := slices.IndexFunc(nodes, func(n NodeStatus) bool { return n.Node == w.Node })
		if i < 0 {
			i = len(nodes)
			nodes = append(nodes, NodeStatus{Node: w.Node})
		}
		nodes[i].add(w)
	}
	slices.SortFunc(nodes, func(a, b NodeStatus) int { return a.Node - b.Node })
	return nodes
}

func (n *NodeStatus) add(w WorkerStatus) {
	if loops := n.Loops + w.Loops; loops > 0 {
		n.Utilisation = (n.Utilisation*float64(n.Loops) + w.Utilisation*float64(w.Loops)) / float64(loops)
	}
	n.Workers = append(n.Workers, w.Index)
	n.Loops += w.Loops
	n.Connections += w.Connections
	n.Idle += w.Idle
	n.Active += w.Active
	n.Held += w.Held
	n.Accepted += w.Accepted
	n.Requests += w.Requests
	n.BusySeconds += w.BusySeconds
	n.RequestsPerSecond += w.RequestsPerSecond
	n.BytesIn += w.BytesIn
	n.BytesOut += w.BytesOut
	n.Crossings.add(w.Crossings)
	n.Tunnels.add(w.Tunnels)
}

// newFarms follows the order of the configuration.
func newFarms(view View, limits map[serverKey]*LimitView) []FarmStatus {
	totals, homes := serverTotals(view), serverHomes(view)
	farms := []FarmStatus{}
	for _, f := range view.Config().Farms {
		farm := FarmStatus{Name: f.Name, Servers: []ServerStatus{}}
		for _, s := range f.Servers {
			key := serverKey{f.Name, s.URL}
			one := newServer(s, totals[key])
			one.Node = homes[key]
			if limit := limits[key]; limit != nil {
				one.Admission = newAdmission(limit, totals[key], decisionsInStatus)
			}
			farm.Servers = append(farm.Servers, one)
		}
		farms = append(farms, farm)
	}
	return farms
}

// serverKey is a server's identity.
type serverKey struct{ farm, url string }

// serverTotals sums each server over the workers. A server that has no slot yet,
// in the moment of a reload, is missing.
func serverTotals(view View) map[serverKey]*segment.ServerStats {
	workers, totals := view.Workers(), make(map[serverKey]*segment.ServerStats)
	for _, s := range view.Servers() {
		sum := new(segment.ServerStats)
		for _, w := range workers {
			one := view.Segment().ServerTotals(w.Index, s.Slot)
			sum.Merge(&one)
		}
		totals[serverKey{s.Farm, s.URL}] = sum
	}
	return totals
}

// serverHomes gives the nodes of the servers that have one.
func serverHomes(view View) map[serverKey]*int {
	homes := make(map[serverKey]*int)
	for _, s := range view.Servers() {
		if node := view.Segment().Home(s.Slot).Node(); node >= 0 {
			homes[serverKey{s.Farm, s.URL}] = &node
		}
	}
	return homes
}

func newServer(c config.Server, t *segment.ServerStats) ServerStatus {
	s := ServerStatus{URL: c.URL, Weight: c.Weight}
	if t == nil {
		return s
	}
	s.Requests = t.Requests.Load()
	s.Failures = t.Failures.Load()
	s.Retries = t.Retries.Load()
	s.Connects = t.Connects.Load()
	s.ConnectFailures = t.ConnectFails.Load()
	s.Reused = t.Reused.Load()
	s.Open = t.Open.Load()
	s.Idle = t.Idle.Load()
	s.InFlight = t.InFlight.Load()
	s.BytesIn = t.BytesIn.Load()
	s.BytesOut = t.BytesOut.Load()
	s.Crossings = newCrossings(&t.Crossings)
	s.Response = newDistribution(&t.Response)
	return s
}

func newDistribution(h *segment.Histogram) Distribution {
	return Distribution{
		Count: h.Count(),
		Mean:  h.Mean().Seconds(),
		P50:   h.Quantile(0.5).Seconds(),
		P90:   h.Quantile(0.9).Seconds(),
		P99:   h.Quantile(0.99).Seconds(),
		P999:  h.Quantile(0.999).Seconds(),
	}
}

// usageNow is zero for a process that has gone, as a dead worker's has.
func usageNow(pid int) Usage {
	u, err := readUsage("/proc", pid)
	if err != nil {
		return Usage{}
	}
	return u
}
