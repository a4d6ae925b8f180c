// Package peers knows the proxies that are compared: where each is found, which
// version it is, and how it is started and ended.
package peers

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"sluice/bench/configs"
	"sluice/bench/secure"
)

// The peers, as they are called in tables and on the command line.
const (
	Sluice  = "sluice"
	Nginx   = "nginx"
	HAProxy = "haproxy"
	Envoy   = "envoy"
	Caddy   = "caddy"
	GoProxy = "reverseproxy"
	Floor   = "floor"
	Direct  = "direct" // no proxy: the backend itself
)

// Peer is one program under test.
type Peer struct {
	Name    string
	Path    string // empty: it is not here, and Missing says why
	Version string
	Missing string

	kind    kind
	noHTTP3 string // why it speaks no HTTP/3; empty: it does
}

// kind is how one sort of peer is run.
type kind struct {
	name     string
	template string // in configs; empty: all is said by arguments
	find     func(context.Context, Tools, string) (string, error)
	version  []string // arguments that make it tell its version
	builder  []string // or, for what is built here, the command that tells its compiler's
	args     func(config string, s Setup) []string
	golang   bool                         // obeys GOMAXPROCS; Sluice is to find its CPUs itself
	stop     syscall.Signal               // ends it at once
	check    func(config string) []string // arguments that make it judge a configuration; nil: it is not asked
	noTLS    string                       // why it speaks no TLS; empty: it does
	noHTTP3  string                       // why it speaks no HTTP/3; empty: it does
	unless   []string                     // an argument, and what the program then says if it speaks HTTP/3 after all
}

// Tools is where the programs are that are not in the path.
type Tools struct {
	Sluice       string // the binary under test
	Floor        string // built from floor.c
	ReverseProxy string // built from the package of that name
	Cache        string // directory for what is downloaded
}

// Setup is what one start of a peer is to do.
type Setup struct {
	configs.Setup
	CPUs       []int
	PerRequest bool // each client connection carries one request; only the floor must be told
}

// kinds are the peers in the order of the tables.
var kinds = []kind{
	{name: Sluice, template: "sluice.yaml", find: underTest, version: []string{"version"}, stop: syscall.SIGINT,
		args:  func(c string, _ Setup) []string { return []string{"run", "--config", c} },
		check: func(c string) []string { return []string{"check", c} }},
	{name: Nginx, template: "nginx.conf", find: inPath, version: []string{"-v"}, stop: syscall.SIGTERM,
		noHTTP3: "built without --with-http_v3_module", unless: []string{"-V", "--with-http_v3_module"},
		args: func(c string, s Setup) []string { return []string{"-p", s.Dir, "-c", c, "-e", "stderr"} }},
	{name: HAProxy, template: "haproxy.cfg", find: inPath, version: []string{"-v"}, stop: syscall.SIGTERM,
		noHTTP3: "built without USE_QUIC", unless: []string{"-vv", " +QUIC "},
		args: func(c string, _ Setup) []string { return []string{"-db", "-q", "-f", c} }},
	{name: Envoy, template: "envoy.yaml", find: envoyBinary, version: []string{"--version"}, stop: syscall.SIGTERM,
		args: func(c string, s Setup) []string {
			return []string{"-c", c, "--concurrency", strconv.Itoa(s.Threads), "--use-dynamic-base-id", "-l", "error", "--disable-hot-restart"}
		}},
	{name: Caddy, golang: true, template: "Caddyfile", find: inPath, version: []string{"version"}, stop: syscall.SIGTERM,
		args: func(c string, _ Setup) []string {
			return []string{"run", "--config", c, "--adapter", "caddyfile"}
		}},
	{name: GoProxy, golang: true, find: built, builder: []string{"go", "version"}, stop: syscall.SIGTERM, args: reverseProxyArgs, noHTTP3: "net/http has none"},
	{name: Floor, find: built, builder: []string{"cc", "--version"}, stop: syscall.SIGTERM, args: floorArgs, noTLS: "it relays bytes"},
}

// Names are all that may take part, in the order of the tables.
func Names() []string {
	all := []string{Direct}
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// Lacks says why a peer takes no part in what is about a protocol; empty: it does.
func (p Peer) Lacks(protocol secure.Protocol) string {
	if p.Name == Direct {
		p.kind.noTLS = "there is no proxy"
	}
	switch {
	case protocol == "":
		return ""
	case p.kind.noTLS != "":
		return p.kind.noTLS
	case protocol == secure.HTTP3:
		return p.noHTTP3
	}
	return ""
}

// Find looks for the named peers, builds those that the benchmark has itself, and
// tells their versions. What it cannot find is returned with Missing set.
func Find(ctx context.Context, names []string, t Tools) ([]Peer, error) {
	var all []Peer
	for _, name := range names {
		if name == Direct {
			all = append(all, Peer{Name: Direct, Path: "-"})
			continue
		}
		k, ok := kindOf(name)
		if !ok {
			return nil, fmt.Errorf("no peer is named %q", name)
		}
		p := Peer{Name: name, kind: k}
		path, err := k.find(ctx, t, name)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			p.Missing = err.Error()
		} else {
			p.Path, p.Version, p.noHTTP3 = path, k.tellVersion(ctx, path), k.lacksHTTP3(ctx, path)
		}
		all = append(all, p)
	}
	return all, nil
}

func kindOf(name string) (kind, bool) {
	for _, k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// lacksHTTP3 says why a program speaks no HTTP/3, by what it tells of how it was built.
func (k kind) lacksHTTP3(ctx context.Context, path string) string {
	if k.unless == nil {
		return k.noHTTP3
	}
	said, err := exec.CommandContext(ctx, path, k.unless[0]).CombinedOutput()
	if err == nil && strings.Contains(string(said), k.unless[1]) {
		return ""
	}
	return k.noHTTP3
}

var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?([-+][0-9A-Za-z.+~-]+)?`)

// tellVersion is what the program tells of itself, or its compiler.
func (k kind) tellVersion(ctx context.Context, path string) string {
	command, by := append([]string{path}, k.version...), ""
	if k.builder != nil {
		command, by = k.builder, k.builder[0]+" "
	}
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return "unknown"
	}
	return by + versionIn(string(out), k.name, path)
}

// versionIn finds the version in what a program said: the word after its own
// name, as in "sluice 8b5c0e4", or the first number of that shape. Some name
// their own path, which may have numbers too.
func versionIn(said, name, path string) string {
	said = strings.TrimSpace(strings.ReplaceAll(said, path, ""))
	words := strings.Fields(said)
	if len(words) > 1 && words[0] == name && !strings.HasPrefix(words[1], "version") {
		return words[1]
	}
	if v := versionNumber.FindString(said); v != "" {
		return v
	}
	first, _, _ := strings.Cut(said, "\n")
	return first
}
