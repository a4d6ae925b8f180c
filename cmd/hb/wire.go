package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/plan"
)

// wireFlags say how requests travel: protocol and TLS.
type wireFlags struct {
	http1, http2, http3 bool
	streams             int

	insecure                 bool
	ca, cert, key, name      string
	minimum, maximum, curves string
	resume                   string
}

func (f *wireFlags) define(c *cobra.Command) {
	s := c.Flags()
	s.BoolVar(&f.http1, "http1", false, "HTTP/1.1, as is the default")
	s.BoolVar(&f.http2, "http2", false, "HTTP/2: for https by ALPN, for http with prior knowledge")
	s.BoolVar(&f.http3, "http3", false, "HTTP/3, for https")
	s.IntVarP(&f.streams, "streams", "m", 1, "requests that each user has under way at once, over one connection")
	s.BoolVarP(&f.insecure, "insecure", "k", false, "accept any certificate")
	s.StringVar(&f.ca, "cacert", "", "file of certificates to trust, instead of the system's")
	s.StringVar(&f.cert, "cert", "", "file of the client's own certificate")
	s.StringVar(&f.key, "key", "", "file of its key")
	s.StringVar(&f.name, "sni", "", "server name to ask for and to verify (default the URL's host)")
	s.StringVar(&f.minimum, "tls-min", "", "lowest version of TLS, like 1.2")
	s.StringVar(&f.maximum, "tls-max", "", "highest version of TLS")
	s.StringVar(&f.curves, "curves", "", "curves for the key exchange, like X25519,P-256")
	s.StringVar(&f.resume, "resume", "on", "on: resume TLS sessions; off: each handshake is a full one")
}

// plan notes in a plan what the flags say; its targets are already there.
func (f *wireFlags) plan(p *plan.Plan) error {
	switch {
	case f.http2:
		p.Protocol = client.HTTP2
	case f.http3:
		p.Protocol = client.HTTP3
	}
	p.Streams = f.streams
	p.TLS = plan.TLS{Insecure: f.insecure, Resume: f.resume == "on", Name: f.name, CA: f.ca, Cert: f.cert, Key: f.key}
	var err error
	if p.TLS.Min, err = plan.ParseVersion(f.minimum); err != nil {
		return fmt.Errorf("--tls-min %w", err)
	}
	if p.TLS.Max, err = plan.ParseVersion(f.maximum); err != nil {
		return fmt.Errorf("--tls-max %w", err)
	}
	if p.TLS.Curves, err = plan.ParseCurves(f.curves); err != nil {
		return fmt.Errorf("--curves %w", err)
	}
	if err := f.check(p); err != nil {
		return err
	}
	return plan.CheckTargets(p.Targets, p.Protocol)
}

// check finds what cannot be together, or cannot be at all.
func (f *wireFlags) check(p *plan.Plan) error {
	switch {
	case f.http1 && f.http2 || f.http1 && f.http3 || f.http2 && f.http3:
		return errors.New("only one of --http1, --http2 and --http3")
	case f.streams < 1 || f.streams > plan.MaxStreams:
		return errors.New("--streams is from 1 to " + strconv.Itoa(plan.MaxStreams))
	case f.streams > 1 && p.Protocol == client.HTTP1:
		return errors.New("--streams needs --http2 or --http3; in HTTP/1.1 a connection carries one request at a time")
	case f.streams > 1 && !p.KeepAlive:
		return errors.New("--no-keep-alive makes a connection for each request; leave --streams out")
	case (f.cert == "") != (f.key == ""):
		return errors.New("--cert and --key belong together")
	case f.resume != "on" && f.resume != "off":
		return fmt.Errorf("--resume %q: write on or off", f.resume)
	}
	return f.checkVersions(p)
}

// checkVersions holds the versions of TLS against each other and the protocol.
func (f *wireFlags) checkVersions(p *plan.Plan) error {
	switch highest := p.TLS.Max; {
	case highest == 0:
		return nil
	case p.TLS.Min > highest:
		return fmt.Errorf("--tls-min %s is above --tls-max %s", f.minimum, f.maximum)
	case p.Protocol == client.HTTP3 && highest < tls.VersionTLS13:
		return errors.New("HTTP/3 has no TLS below 1.3; leave --tls-max out")
	}
	return nil
}
