package main

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/admin"
)

// statuses are two looks, 2 s apart, at a Sluice of two nodes.
func statuses() (before, after *admin.Status) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(now time.Time, requests uint64, busy float64) *admin.Status {
		one := admin.Traffic{
			Connections: 1204, Idle: 1100, Active: 104, Requests: requests, BusySeconds: busy,
			BytesIn: 5 << 20, BytesOut: 3 << 30,
		}
		idle := admin.Traffic{}
		server := 0
		return &admin.Status{
			Version: "v1", Generation: 2, Ready: true, Time: now, Started: start,
			UptimeSeconds: now.Sub(start).Seconds(), PID: 100,
			Workers: []admin.WorkerStatus{
				{Index: 0, PID: 101, Node: 0, CPUs: []int{0, 1, 2, 3}, Loops: 4, State: "serving", Started: start,
					Process: admin.Usage{MemoryBytes: 12 << 20}, Traffic: one, Refused: map[string]uint64{"no_server": 2, "no_route": 1}},
				{Index: 1, PID: 202, Node: 1, CPUs: []int{4, 6}, Loops: 2, State: "starting", Restarts: 1, Started: now,
					Process: admin.Usage{MemoryBytes: 900}, Traffic: idle},
			},
			Nodes: []admin.NodeStatus{
				{Node: 0, Workers: []int{0}, Loops: 4, Traffic: one},
				{Node: 1, Workers: []int{1}, Loops: 2, Traffic: idle},
			},
			Listeners: []admin.ListenerStatus{{Name: "web", Address: ":8080"}},
			Certificates: []admin.CertificateStatus{
				{File: "shop.pem", Names: []string{"a.test", "b.test", "c.test", "d.test", "e.test"}, Expires: now.Add(90 * 24 * time.Hour)},
				{File: "/acme/www.test.pem", Names: []string{"www.test"}, Expires: now.Add(13*24*time.Hour + 5*time.Hour), Asked: true, Soon: true},
				{File: "old.pem", Names: []string{"old.test"}, Expires: now, Soon: true},
			},
			ACME: []admin.NameStatus{
				{Name: "www.test", Held: true, Failed: 3, Error: "order: refused", Next: now.Add(20 * time.Minute)},
				{Name: "new.test"},
			},
			Farms: []admin.FarmStatus{{Name: "app", Servers: []admin.ServerStatus{
				{URL: "http://127.0.0.1:9001", Node: &server, Weight: 100, Open: 30, Idle: 20, InFlight: 10,
					Requests: requests, Failures: 5, ConnectFailures: 2, Response: admin.Distribution{P50: 0.0012, P99: 0.034},
					Admission: &admin.AdmissionStatus{Kind: "adaptive", Limit: 12, Waiting: 94}},
				{URL: "http://10.1.2.3:9002", Weight: 50},
			}}},
			Admission: admin.AdmissionTotals{Held: 94, Shed: map[string]uint64{"memory": 6, "latency": 2}},
			Duration:  admin.Distribution{P50: 0.0013, P99: 0.035, P999: 1.2},
		}
	}
	end := start.Add(192*time.Minute + 2*time.Second)
	return at(end.Add(-2*time.Second), 1000, 100), at(end, 3000, 104)
}

func TestPrintStatus(t *testing.T) {
	before, after := statuses()
	var got strings.Builder
	if err := printStatus(&got, before, after); err != nil {
		t.Fatal(err)
	}
	want := `
Sluice v1  pid 100  up 3h12m  configuration 2  ready

WORKER  PID  NODE  CPUS  LOOPS  STATE        UP  RESTARTS  CONNS  IDLE  ACTIVE  REQ/S  BUSY  MEMORY
0       101     0  0-3       4  serving   3h12m         0   1204  1100     104   1000   50%  12 MiB
1       202     1  4,6       2  starting     0s         1      0     0       0      0    0%   900 B

NODE  WORKERS  LOOPS  CONNS  IDLE  ACTIVE  REQ/S  BUSY     IN    OUT
0           1      4   1204  1100     104   1000   50%  5 MiB  3 GiB
1           1      2      0     0       0      0    0%    0 B    0 B

LISTENER  ADDRESS
web       :8080

CERTIFICATE         SOURCE  NAMES                    EXPIRES            LEFT  STATE
shop.pem            file    a.test,b.test,c.test,+2  2026-04-02 06:16  90d0h  good
/acme/www.test.pem  acme    www.test                 2026-01-15 11:16  13d5h  EXPIRES SOON
old.pem             file    old.test                 2026-01-02 06:16      -  EXPIRED
-                   acme    new.test                 -                     -  NONE YET

FARM  SERVER                 NODE  WEIGHT  CONNS  IDLE  ACTIVE  LIMIT  QUEUE  REQ/S  REQUESTS  FAILED     P50    P99
app   http://127.0.0.1:9001     0     100     30    20      10     12     94   1000      3000       7  1.2 ms  34 ms
app   http://10.1.2.3:9002      -      50      0     0       0      -      -      0         0       0       -      -

www.test: no certificate was issued, 3 times in a row, again in 20m0s: order: refused

3000 requests, 3 of them answered with an error by Sluice itself, 94 held now. Too much to do: 8 connections refused at once. Response time: p50 1.3 ms, p99 35 ms, p99.9 1.2 s.
`
	if got.String() != want[1:] {
		t.Errorf("got\n%s\nwant%s", got.String(), want)
	}
}

func TestRates(t *testing.T) {
	look := func(at int, requests uint64, busy float64) *admin.Status {
		t := admin.Traffic{Requests: requests, BusySeconds: busy}
		return &admin.Status{
			Time:    time.Unix(int64(at), 0),
			Workers: []admin.WorkerStatus{{Index: 0, Loops: 2, Traffic: t}},
			Farms:   []admin.FarmStatus{{Name: "f", Servers: []admin.ServerStatus{{URL: "u", Requests: requests}}}},
		}
	}
	for _, c := range []struct {
		name          string
		before, after *admin.Status
		want          rate
		server        float64
	}{
		{"plain", look(10, 100, 1), look(12, 300, 3), rate{100, 0.5}, 100},
		{"the same look twice", look(10, 100, 1), look(10, 100, 1), rate{}, 0},
		{"restarted between", look(10, 100, 9), look(12, 4, 1), rate{}, 0},
		{"more than possible", look(10, 100, 1), look(12, 100, 90), rate{0, 1}, 0},
		{"new since", &admin.Status{Time: time.Unix(10, 0)}, look(12, 300, 1), rate{150, 0.25}, 0},
	} {
		r := newRates(c.before, c.after)
		if got := r.worker(c.after.Workers[0]); got != c.want {
			t.Errorf("%s: worker %+v, want %+v", c.name, got, c.want)
		}
		if got := r.server("f", c.after.Farms[0].Servers[0]); got != c.server {
			t.Errorf("%s: server %g, want %g", c.name, got, c.server)
		}
	}
}
