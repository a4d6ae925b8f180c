// Package keyring reads the files of certificates and keys, for the supervisor: a
// worker needs no right to read them, and gets what stands in them.
//
//	keyring.go   what a configuration names, all faults at once
//	file.go      PEM: what may stand in a file, and what is wrong with it
//	doubt.go     what is wrong with certificates that can be served
//	watch.go     when files have changed
//	tickets.go   the keys of session tickets
//	staple.go    an authority's word that a certificate is good
package keyring

import (
	"cmp"
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"sluice/internal/config"
	"sluice/internal/spec"
)

// Ring is all that was read for one configuration. It is immutable.
type Ring struct {
	Keys  *spec.Keys // for the workers, without tickets; nil if no listener has TLS
	Certs []Cert     // as Keys.Certificates

	secrets [][]byte         // that keys of tickets are made of; none: they are of this run alone
	files   map[string]stamp // each file, as it was just before it was read
	open    []config.Fault   // what is wrong with files that could be read
}

// Cert is what an operator wants to know of a certificate.
type Cert struct {
	Path string // in the configuration, of the first that names it: listeners[0].tls.certificates[1]
	File string
	Leaf *x509.Certificate

	Asked  string            // the name that it was asked for by tls.acme; empty: the configuration names its file
	Issuer *x509.Certificate // who signed it; nil if the file does not tell
	Ask    bool              // the authority is to be asked whether it is good
	Staple *Staple           // its word, of a file; nil: none
}

// Read reads every file that cfg names. Its error is config.Faults, all at once. What
// is wrong only in time, such as a certificate that has expired, is no error.
func Read(cfg *config.Config) (*Ring, error) {
	r := &reader{known: map[config.Certificate]int{}, ring: &Ring{files: map[string]stamp{}}}
	var listeners []spec.ListenerKeys
	if cfg.TLS.ACME != nil {
		r.asked(cfg.TLS.ACME)
	}
	for i, l := range cfg.Listeners {
		listeners = append(listeners, r.listener(l.TLS, "listeners["+strconv.Itoa(i)+"].tls"))
	}
	if cfg.TLS.Tickets.File != "" && r.needed {
		r.ring.secrets = r.secrets(cfg.TLS.Tickets.File, "tls.tickets.file")
	}
	farms := r.farms(cfg.Farms)
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	if r.needed {
		r.ring.Keys = &spec.Keys{Certificates: r.certificates, Listeners: listeners, Farms: farms}
	}
	return r.ring, nil
}

// reader collects what is read, and the faults.
type reader struct {
	needed       bool // the configuration names files
	faults       config.Faults
	certificates []spec.Certificate
	known        map[config.Certificate]int // index in certificates; of a faulty one -1
	cached       []int                      // indexes of those that were asked for
	ring         *Ring
}

// listener reads the files of one listener.
func (r *reader) listener(t *config.ListenerTLS, at string) spec.ListenerKeys {
	var keys spec.ListenerKeys
	if t == nil {
		return keys
	}
	r.needed = true
	for i, c := range t.Certificates {
		keys.Certificates = append(keys.Certificates, r.once(c, at+".certificates["+strconv.Itoa(i)+"]"))
	}
	keys.Certificates = append(keys.Certificates, r.cached...)
	if t.ClientAuth.CA != "" {
		keys.ClientCA = r.Authorities(t.ClientAuth.CA, at+".client_auth.ca")
	}
	return keys
}

// farms reads what is shown to servers, and what theirs are judged by; nil if that is
// nothing.
func (r *reader) farms(farms config.Farms) []spec.FarmKeys {
	all, some := make([]spec.FarmKeys, len(farms)), false
	for i, f := range farms {
		at := "farms." + f.Name + ".tls"
		if f.TLS != nil && f.TLS.Cert != "" {
			some = true
			all[i].Certificates = []int{r.once(config.Certificate{Cert: f.TLS.Cert, Key: f.TLS.Key}, at)}
		}
		if f.TLS != nil && f.TLS.CA != "" {
			some = true
			all[i].CA = r.Authorities(f.TLS.CA, at+".ca")
		}
	}
	if !some {
		return nil
	}
	r.needed = true
	return all
}

// once gives the index of a certificate, which is read if it has not been.
func (r *reader) once(c config.Certificate, at string) int {
	index, known := r.known[c]
	if !known {
		index = r.certificate(c, at)
		r.known[c] = index
	}
	return index
}

// CacheFile is where the certificate of a name is kept that was asked for, with its key.
func CacheFile(a *config.ACME, name string) string { return filepath.Join(a.Cache, name+".pem") }

// asked reads the certificates that were asked for. One that is not there, or not good,
// will be asked for anew: it is no fault of the configuration.
func (r *reader) asked(a *config.ACME) {
	if a.CA != "" {
		r.Authorities(a.CA, "tls.acme.ca")
	}
	for i, name := range a.Names {
		file, at := CacheFile(a, name), "tls.acme.names["+strconv.Itoa(i)+"]"
		probe := &reader{ring: r.ring} // has faults of its own
		pair, leaf := probe.Pair(file, file, at)
		if leaf == nil {
			if r.ring.files[file] != (stamp{}) {
				r.ring.open = append(r.ring.open, probe.faults...)
			}
			continue
		}
		r.cached = append(r.cached, len(r.certificates))
		r.certificates = append(r.certificates, pair)
		r.ring.Certs = append(r.ring.Certs, Cert{
			Path: at, File: file, Leaf: leaf, Asked: name, Issuer: issuerIn(pair.Chain, leaf), Ask: len(leaf.OCSPServer) > 0,
		})
	}
}

// certificate reads a certificate and its key, and gives its index.
func (r *reader) certificate(c config.Certificate, at string) int {
	pair, leaf := r.Pair(c.Cert, c.Key, at)
	if leaf == nil {
		return -1
	}
	cert := Cert{Path: at, File: c.Cert, Leaf: leaf, Issuer: issuerIn(pair.Chain, leaf), Ask: c.OCSP == config.OCSPAuto && len(leaf.OCSPServer) > 0}
	if c.OCSP != config.OCSPAuto && c.OCSP != config.OCSPOff && c.OCSP != "" {
		cert.Staple = r.staple(c.OCSP, at+".ocsp", cert)
	}
	r.certificates = append(r.certificates, pair)
	r.ring.Certs = append(r.ring.Certs, cert)
	return len(r.certificates) - 1
}

// secret notes that a file holds what others should not read, and so that it should not
// be open to all.
func (r *reader) secret(at, file string) {
	if info, err := os.Stat(file); err == nil && info.Mode().Perm()&0o004 != 0 {
		r.ring.open = append(r.ring.open, config.Fault{Path: at, Value: strconv.Quote(file), Rule: "everybody on this machine may read it", Cure: "chmod o-r " + file})
	}
}

// fault notes what is wrong with a file.
func (r *reader) fault(at, file string, p *problem) {
	r.faults = append(r.faults, config.Fault{Path: at, Value: strconv.Quote(file), Rule: p.rule, Cure: p.cure})
}

// Names are the hosts that a certificate covers, without doubles: DNS names, wildcards
// among them, then addresses.
func (c Cert) Names() []string {
	names := slices.Clone(c.Leaf.DNSNames)
	for _, ip := range c.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(a, b) })
	return slices.Compact(names)
}
