package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"sluice/internal/admin"
	"sluice/internal/topology"
)

// printStatus writes what after says, with the rates since before.
func printStatus(w io.Writer, before, after *admin.Status) error {
	ready := "ready"
	if !after.Ready {
		ready = "NOT READY"
	}
	fmt.Fprintf(w, "Sluice %s  pid %d  up %s  configuration %d  %s\n\n",
		after.Version, after.PID, age(seconds(after.UptimeSeconds)), after.Generation, ready)
	r := newRates(before, after)
	for _, t := range []*table{workerTable(after, r), nodeTable(after, r), listenerTable(after), certificateTable(after), serverTable(after, r)} {
		if len(t.rows) == 0 && t.optional {
			continue
		}
		if err := t.print(w); err != nil {
			return err
		}
	}
	for _, n := range after.ACME {
		if n.Failed > 0 {
			fmt.Fprintf(w, "%s: no certificate was issued, %s in a row, again in %s: %s\n\n", n.Name, plural(n.Failed, "time"), age(n.Next.Sub(after.Time)), n.Error)
		}
	}
	_, err := fmt.Fprintf(w, "%s requests, %s of them answered with an error by Sluice itself, %s held now.%s Response time: p50 %s, p99 %s, p99.9 %s.\n",
		whole(sum(after.Nodes, func(n admin.NodeStatus) uint64 { return n.Requests })), whole(refusals(after)), whole(after.Admission.Held), shed(after),
		span(after.Duration.P50), span(after.Duration.P99), span(after.Duration.P999))
	return err
}

func workerTable(s *admin.Status, r rates) *table {
	t := newTable("WORKER >PID >NODE CPUS >LOOPS STATE >UP >RESTARTS >CONNS >IDLE >ACTIVE >REQ/S >BUSY >MEMORY")
	for _, w := range s.Workers {
		rate := r.worker(w)
		t.add(whole(w.Index), whole(w.PID), node(w.Node), topology.FormatCPUs(w.CPUs), whole(w.Loops), w.State,
			age(s.Time.Sub(w.Started)), whole(w.Restarts), whole(w.Connections), whole(w.Idle), whole(w.Active),
			perSecond(rate.requests), percent(rate.busy), bytesText(w.Process.MemoryBytes))
	}
	return t
}

func nodeTable(s *admin.Status, r rates) *table {
	t := newTable("NODE >WORKERS >LOOPS >CONNS >IDLE >ACTIVE >REQ/S >BUSY >IN >OUT")
	for _, n := range s.Nodes {
		rate := r.node(n)
		t.add(node(n.Node), whole(len(n.Workers)), whole(n.Loops), whole(n.Connections), whole(n.Idle), whole(n.Active),
			perSecond(rate.requests), percent(rate.busy), bytesText(int64(n.BytesIn)), bytesText(int64(n.BytesOut)))
	}
	return t
}

func listenerTable(s *admin.Status) *table {
	t := newTable("LISTENER ADDRESS")
	for _, l := range s.Listeners {
		t.add(l.Name, l.Address)
	}
	return t
}

// certificateTable has the certificates, and the names that have none yet.
func certificateTable(s *admin.Status) *table {
	t := newTable("CERTIFICATE SOURCE NAMES EXPIRES >LEFT STATE")
	t.optional = true
	for _, c := range s.Certificates {
		source, left, state := "file", age(c.Expires.Sub(s.Time)), "good"
		if c.Asked {
			source = "acme"
		}
		switch {
		case !c.Expires.After(s.Time):
			left, state = "-", "EXPIRED"
		case c.Soon:
			state = "EXPIRES SOON"
		}
		t.add(c.File, source, someOf(c.Names), c.Expires.UTC().Format("2006-01-02 15:04"), left, state)
	}
	for _, n := range s.ACME {
		if !n.Held {
			t.add("-", "acme", n.Name, "-", "-", "NONE YET")
		}
	}
	return t
}

// someOf are the first names of many.
func someOf(names []string) string {
	const shown = 3
	if len(names) <= shown {
		return strings.Join(names, ",")
	}
	return fmt.Sprintf("%s,+%d", strings.Join(names[:shown], ","), len(names)-shown)
}

func serverTable(s *admin.Status, r rates) *table {
	t := newTable("FARM SERVER >NODE >WEIGHT >CONNS >IDLE >ACTIVE >LIMIT >QUEUE >REQ/S >REQUESTS >FAILED >P50 >P99")
	for _, f := range s.Farms {
		for _, b := range f.Servers {
			place := "-"
			if b.Node != nil {
				place = node(*b.Node)
			}
			limit, queue := "-", "-"
			if b.Admission != nil {
				limit, queue = limitText(b.Admission), whole(b.Admission.Waiting)
			}
			t.add(f.Name, b.URL, place, whole(b.Weight), whole(b.Open), whole(b.Idle), whole(b.InFlight), limit, queue,
				perSecond(r.server(f.Name, b)), whole(b.Requests), whole(b.Failures+b.ConnectFailures), span(b.Response.P50), span(b.Response.P99))
		}
	}
	return t
}

// rates are what happened between two looks.
type rates struct {
	seconds float64 // between them
	workers map[int]admin.Traffic
	nodes   map[int]admin.Traffic
	servers map[string]uint64 // requests, by farm and URL
}

// rate is what loops did in each second.
type rate struct {
	requests float64
	busy     float64 // share of the loops' time, 0 to 1
}

func newRates(before, after *admin.Status) rates {
	r := rates{
		seconds: after.Time.Sub(before.Time).Seconds(),
		workers: make(map[int]admin.Traffic),
		nodes:   make(map[int]admin.Traffic),
		servers: make(map[string]uint64),
	}
	for _, w := range before.Workers {
		r.workers[w.Index] = w.Traffic
	}
	for _, n := range before.Nodes {
		r.nodes[n.Node] = n.Traffic
	}
	for _, f := range before.Farms {
		for _, b := range f.Servers {
			r.servers[f.Name+" "+b.URL] = b.Requests
		}
	}
	return r
}

func (r rates) worker(w admin.WorkerStatus) rate {
	return r.between(r.workers[w.Index], w.Traffic, w.Loops)
}

func (r rates) node(n admin.NodeStatus) rate { return r.between(r.nodes[n.Node], n.Traffic, n.Loops) }

// between never leaves what is possible: counters are read while they move, and
// Sluice may have been restarted between two looks.
func (r rates) between(before, after admin.Traffic, loops int) rate {
	if r.seconds <= 0 || loops <= 0 {
		return rate{}
	}
	return rate{
		requests: rise(before.Requests, after.Requests) / r.seconds,
		busy:     min(max(0, after.BusySeconds-before.BusySeconds)/r.seconds/float64(loops), 1),
	}
}

// server is its requests in each second; 0 for one that a reload has just brought.
func (r rates) server(farm string, b admin.ServerStatus) float64 {
	before, known := r.servers[farm+" "+b.URL]
	if !known || r.seconds <= 0 {
		return 0
	}
	return rise(before, b.Requests) / r.seconds
}

func rise(before, after uint64) float64 {
	if after < before {
		return 0
	}
	return float64(after - before)
}

func refusals(s *admin.Status) uint64 {
	return sum(s.Workers, func(w admin.WorkerStatus) uint64 {
		var n uint64
		for _, of := range w.Refused {
			n += of
		}
		return n
	})
}

// shed tells of connections that were refused because Sluice had too much to do.
func shed(s *admin.Status) string {
	var n uint64
	for _, of := range s.Admission.Shed {
		n += of
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" Too much to do: %s refused at once.", plural(int(n), "connection"))
}

func sum[T any](all []T, value func(T) uint64) (n uint64) {
	for _, one := range all {
		n += value(one)
	}
	return n
}

// node is a NUMA node's number; none if the machine tells none.
func node(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
