package tidy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// permit says why something may be imported, and where. Tests may import it
// anywhere.
type permit struct {
	why string
	in  []string // directories, with all below; empty: everywhere
}

// dependencies are the modules that code here imports, tests included. Another
// needs a reason that is worth its upkeep; the commit that adds it says so.
var dependencies = map[string]permit{
	"golang.org/x/sys":                        {"system calls and constants that package syscall is frozen without", nil},
	"golang.org/x/crypto":                     {"what authorities of certificates are asked by: OCSP and ACME", to("tlsterm", "testkit")},
	"golang.org/x/net":                        {"another's HTTP/2, which ours is compared with; HPACK for the load generator, frames for the attacker", []string{"cmd/hb", "bench/abuse/attack"}},
	"go.yaml.in/yaml/v3":                      {"YAML nodes that know their line, for faults that say where", to("config")},
	"github.com/spf13/cobra":                  {"commands, flags and help as users know them", []string{"cmd/sluice", "cmd/hb"}},
	"github.com/prometheus/client_golang":     {"the exposition format, and the linter of metric names", to("admin")},
	"github.com/quic-go/quic-go":              {"QUIC, for clients, for the load generator and for the attacker", []string{"internal/http3", "cmd/hb", "bench/abuse/attack"}},
	"github.com/quic-go/qpack":                {"another's fields of HTTP/3, which ours are compared with; and for the load generator", []string{"cmd/hb"}},
	"github.com/HdrHistogram/hdrhistogram-go": {"latencies free of coordinated omission, in a format that others read", []string{"bench", "cmd/hb"}},
	"gonum.org/v1/plot":                       {"pictures of bench results and load tests", []string{"bench", "cmd/hb"}},
}

// confined are packages of the standard library with a place of their own.
var confined = map[string]permit{
	"net/http": {"traffic goes through our own codec; net/http serves the admin, the demo and the benches, and asks authorities of certificates", []string{"internal/admin", "internal/demo", "internal/tlsterm/authority", "cmd/sluice", "bench"}},
}

// dependencyRule holds imports from outside against the table, and the table
// against the imports.
func dependencyRule(allowed map[string]permit) rule {
	return func(tr *tree) []string {
		var faults []string
		used := map[string]bool{}
		for _, f := range tr.goFiles() {
			for _, spec := range f.syntax.Imports {
				name := importPath(spec)
				if !thirdParty(name) {
					continue
				}
				at := moduleOf(name, allowed)
				used[at] = true
				if at == "" {
					faults = append(faults, tr.fault(spec.Pos(), "imports %s; do without it, or add it with its reason to internal/tidy/imports_test.go", name))
				} else if !allowed[at].covers(f) {
					faults = append(faults, tr.fault(spec.Pos(), "imports %s, which is for %v only", name, allowed[at].in))
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(allowed)) {
			if !used[name] {
				faults = append(faults, fmt.Sprintf("internal/tidy/imports_test.go: nothing imports %s any more; remove it here and from go.mod", name))
			}
		}
		return faults
	}
}

// thirdParty tells a module's path, which begins with a domain, from the
// standard library's and ours.
func thirdParty(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return strings.Contains(first, ".")
}

// moduleOf finds the module of a package; empty if it is not in the table.
func moduleOf(name string, allowed map[string]permit) string {
	for module := range allowed {
		if name == module || strings.HasPrefix(name, module+"/") {
			return module
		}
	}
	return ""
}

// confinedRule finds imports outside of their place.
func confinedRule(places map[string]permit) rule {
	return func(tr *tree) []string {
		var faults []string
		for _, f := range tr.goFiles() {
			for _, spec := range f.syntax.Imports {
				place, found := places[importPath(spec)]
				if found && !place.covers(f) {
					faults = append(faults, tr.fault(spec.Pos(), "imports %s: %s", importPath(spec), place.why))
				}
			}
		}
		return faults
	}
}

// placing are the calls that change where threads run and where memory comes
// from. Package affinity makes them all, so that a thread is never changed by two.
var placing = regexp.MustCompile(`^unix\.(SchedSetaffinity|SetMemPolicy)`)

// placingRule finds such calls in code of other packages. Benches place their
// peers themselves.
func placingRule(owner string) rule {
	return func(tr *tree) []string {
		var faults []string
		for _, f := range tr.goFiles("cmd", "internal") {
			if f.isTest() || f.dir() == owner {
				continue
			}
			for call, name := range calls(f) {
				if placing.MatchString(name) {
					faults = append(faults, tr.fault(call.Pos(), "calls %s; only %s places threads and memory", name, owner))
				}
			}
		}
		return faults
	}
}

// covers reports whether the permit holds for a file.
func (p permit) covers(f *file) bool {
	return len(p.in) == 0 || f.isTest() || slices.ContainsFunc(p.in, func(dir string) bool {
		return strings.HasPrefix(f.path, dir+"/")
	})
}
