// Package configs holds the configurations of the proxies that are compared.
//
// They say the same thing in six languages: pass every request to the backends
// over kept-alive connections, tell them X-Forwarded-For, -Proto, -Host, -Port, Via
// and X-Request-Id, and log nothing unless asked. Time-outs and limits are set so that
// none of them acts during a run. TLS is 1.3 with the one cipher and the one key exchange
// of package secure, where a proxy can be told, and with session tickets as each comes;
// only the asked protocol is offered, and those that it needs beside it. Bodies go by splice(2) where a peer can. All else is
// left as each project ships it; LargeBodies gives nginx and HAProxy what their own
// guides advise for them.
package configs

import (
	"bytes"
	"embed"
	"text/template"

	"sluice/bench/secure"
)

//go:embed *.tmpl
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*.tmpl"))

// Setup is what a configuration is filled in with.
type Setup struct {
	Dir         string // its own directory, for what the proxy writes
	Port        int    // to listen on, on 127.0.0.1
	Backends    []int  // ports on 127.0.0.1
	Threads     int    // workers, threads or loops: as many as CPUs
	Per         string // of Sluice: a worker for each node, cluster or machine, or so many, with a loop for each CPU; empty: Threads loops
	Affinity    string // of Sluice: workers.affinity, with Per; empty: the default
	Steering    string // of Sluice: the listener's steering; empty: the default
	LargeBodies bool   // with the buffers that suit large bodies, where the defaults do not
	AccessLog   string // file for the default access log, where the template knows one; empty: none

	Protocol    secure.Protocol    // over TLS; empty: HTTP/1.1 without
	Certificate secure.Certificate // for TLS
}

// Render fills in the template of that name.
func Render(name string, s Setup) ([]byte, error) {
	var out bytes.Buffer
	err := templates.ExecuteTemplate(&out, name+".tmpl", s)
	return out.Bytes(), err
}
