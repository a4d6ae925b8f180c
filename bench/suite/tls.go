package suite

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"sluice/bench/configs"
	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/report"
	"sluice/bench/secure"
	"sluice/bench/toolchain"
)

// overTLS are the workloads over TLS, and what each speaks.
var overTLS = map[string]secure.Protocol{
	"W2": secure.HTTP1, "W3": secure.HTTP2, "W4": secure.HTTP3, "W5": secure.HTTP1, "W6-TLS": secure.HTTP1, "W7-TLS": secure.HTTP1,
}

// With several streams on each connection, as many requests are under way as in W1.
const (
	streams     = 8
	streamConns = 8
)

var (
	w2 = closed{
		id: "W2", title: "HTTP/1.1 keep-alive over TLS 1.3, 53-byte responses, 64 connections", protocol: secure.HTTP1, key: secure.P256,
		job:   load.Job{Conns: 64, Target: "/53"},
		goals: map[string]float64{peers.Nginx: 0.85, peers.HAProxy: 0.85},
	}
	w3 = closed{
		id: "W3", title: "HTTP/2 over TLS 1.3, 53-byte responses, 8 connections of 8 streams", protocol: secure.HTTP2, key: secure.P256,
		job:   load.Job{Conns: streamConns, Streams: streams, Target: "/53"},
		goals: map[string]float64{peers.HAProxy: 1},
	}
	w4 = closed{
		id: "W4", title: "HTTP/3, 53-byte responses, 8 connections of 8 streams", protocol: secure.HTTP3, key: secure.P256,
		job:   load.Job{Conns: streamConns, Streams: streams, Target: "/53"},
		goals: map[string]float64{peers.Caddy: 0.7},
	}
	w5 = []closed{
		handshakes("W5-P256", secure.P256, load.Full, map[string]float64{peers.Nginx: 1}),
		handshakes("W5-P256-resumed", secure.P256, load.Resumed, map[string]float64{peers.Nginx: 1}),
		handshakes("W5-RSA", secure.RSA2048, load.Full, nil),
		handshakes("W5-RSA-resumed", secure.RSA2048, load.Resumed, nil),
	}
	w6tls = []closed{w6small.secured("W6-TLS-64KiB"), w6large.secured("W6-TLS-10MiB")}
)

// handshakes are connections that end after their handshake. What accepting and closing
// them costs is part of it.
func handshakes(id string, key secure.Key, sort load.Handshake, goals map[string]float64) closed {
	return closed{
		id: id, title: fmt.Sprintf("TLS 1.3 handshakes without a request, %s certificate, %s, 64 at a time", key, sort),
		protocol: secure.HTTP1, key: key, goals: goals,
		job: load.Job{Conns: 64, Target: "/53", Handshakes: sort},
	}
}

// secured is the same over TLS. HAProxy has no pipes to be larger there, and only nginx's
// cost is a goal.
func (c closed) secured(id string) closed {
	c.id, c.title = id, c.title+", over TLS 1.3"
	c.protocol, c.key = secure.HTTP1, secure.P256
	c.goals = map[string]float64{peers.Nginx: 1}
	plain := c.more
	c.more = func(all []Entrant) []Entrant {
		return slices.DeleteFunc(plain(all), func(e Entrant) bool { return e.Name == haproxyLarge })
	}
	return c
}

// several runs one workload after the other.
func several(ctx context.Context, r *Rig, all ...closed) ([]report.Table, error) {
	var tables []report.Table
	for _, c := range all {
		some, err := c.run(ctx, r)
		if err != nil {
			return nil, err
		}
		tables = append(tables, some...)
	}
	return tables, nil
}

// speaking are the entrants that speak a protocol, with a certificate of that key, and
// a note about each that does not.
func speaking(all []Entrant, protocol secure.Protocol, key secure.Key) (those []Entrant, notes []string) {
	for _, e := range all {
		lacks := e.Peer.Lacks(protocol)
		if lacks != "" && e.Name != peers.Floor {
			notes = append(notes, fmt.Sprintf("%s takes no part: %s", e.Name, lacks))
		}
		if lacks == "" {
			e.Protocol, e.Key = protocol, key
			those = append(those, e)
		}
	}
	return those, notes
}

// Secure makes and finds what those of the named workloads need that are over TLS, and
// asks every peer that can tell whether it takes its configuration: what is refused is
// to be known before the first round. hb is the path of that program.
func (r *Rig) Secure(ctx context.Context, names []string, hb string) error {
	chosen := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return overTLS[n] == "" })
	if len(chosen) == 0 {
		return nil
	}
	var err error
	if r.Certificates, err = secure.Make(r.Dir); err != nil {
		return err
	}
	tried := map[secure.Protocol]bool{}
	for _, name := range chosen {
		p := overTLS[name]
		if tried[p] {
			continue
		}
		tried[p] = true
		if err := r.client(ctx, p, hb); err != nil {
			return fmt.Errorf("%s is %s: %w", name, p.Words(), err)
		}
		if err := r.check(ctx, p); err != nil {
			return fmt.Errorf("%s: %w\n-w runs other workloads, and -peers lets others take part", name, err)
		}
	}
	return nil
}

// client finds or builds the load generator of a protocol.
func (r *Rig) client(ctx context.Context, p secure.Protocol, hb string) error {
	var err error
	switch p {
	case secure.HTTP1:
		if r.Generator.TLS, err = toolchain.C(ctx, r.Dir, "load-tls", load.Source, load.FlagsTLS...); err != nil {
			return fmt.Errorf("the load generator needs OpenSSL's headers (make deps): %w", err)
		}
	case secure.HTTP2:
		if r.Generator.H2Load, err = exec.LookPath("h2load"); err != nil {
			return fmt.Errorf("the load generator is not installed (make deps): %w", err)
		}
	case secure.HTTP3:
		if r.Generator.HB, err = filepath.Abs(hb); err != nil {
			return err
		}
		if out, err := exec.CommandContext(ctx, r.Generator.HB, "--http3", "--version").CombinedOutput(); err != nil {
			return fmt.Errorf("the load generator is not there, or does not speak it (make build): %w %s", err, out)
		}
	}
	return nil
}

// check asks the peers about their configurations for a protocol.
func (r *Rig) check(ctx context.Context, protocol secure.Protocol) error {
	dir, err := os.MkdirTemp(r.Dir, "check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, err := r.ports.Next()
	if err != nil {
		return err
	}
	for _, p := range r.Peers {
		if p.Missing != "" || p.Lacks(protocol) != "" {
			continue
		}
		err := p.Check(ctx, configs.Setup{
			Dir: dir, Port: port, Backends: []int{port + 1}, Threads: len(r.Layout.Proxy),
			Protocol: protocol, Certificate: r.Certificates[secure.P256],
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// methodOverTLS says what the workloads over TLS have in common, if any was prepared.
func (r *Rig) methodOverTLS() []string {
	if r.Certificates == nil {
		return nil
	}
	return []string{
		fmt.Sprintf("TLS is 1.3 with %s and %s for all, so that neither a stronger cipher nor the hybrid key exchange with ML-KEM-768 that newer "+
			"proxies prefer is in the difference: a round with anything else fails. The certificates are self-signed, one of each key for all "+
			"(%v); session tickets are sent as each proxy does by default.", secure.Cipher, secure.Group, slices.Sorted(maps.Keys(r.Certificates))),
		"In W5 a connection is a handshake that both sides end without a request; resumed ones all begin with the ticket of one earlier connection. " +
			"The load is OpenSSL's for HTTP/1.1 (bench/load/load.c), h2load for HTTP/2, hb for HTTP/3.",
	}
}
