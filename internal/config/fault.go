package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Fault is one thing that is wrong in a configuration, said so that the operator
// can mend it without looking anything up.
type Fault struct {
	File   string // as given to Load or Parse; empty if the configuration came from code
	Line   int    // from 1; 0: the fault has no place in the file, such as a missing section
	Column int    // from 1, in characters; 0 as Line
	Path   string // where in the configuration: routes[2].host; empty: the file as a whole
	Value  string // what stands there, quoted; empty if the fault is that nothing does
	Rule   string // what it breaks
	Cure   string // what to write instead; may be empty
}

// Error gives the fault in one line:
//
//	sluice.yaml:12: routes[2].host: "*.a.*": only the first label may be a wildcard; write "*.a.example"
func (f Fault) Error() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			b.WriteString(":" + strconv.Itoa(f.Line))
		}
		b.WriteString(": ")
	}
	for _, part := range []string{f.Path, f.Value} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}
	b.WriteString(f.Rule)
	if f.Cure != "" {
		b.WriteString("; " + f.Cure)
	}
	return b.String()
}

// Faults is every fault of one configuration, in the order of its lines. It is
// the only type of error that this package returns for a configuration.
type Faults []Fault

// Error gives one line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sort puts faults in the order of their lines.
func (f Faults) sort() {
	slices.SortStableFunc(f, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// problem is a fault that does not know yet where it stands.
type problem struct{ rule, cure string }

func (p *problem) Error() string {
	return Fault{Rule: p.rule, Cure: p.cure}.Error()
}

// place is where a path stands in the file, and what is written there.
type place struct {
	line, column int
	shown        string // the value, quoted; empty for mappings, lists and null
}

// report collects the faults of one file. It knows where every path stands, so
// that a rule checked long after decoding still names its line.
type report struct {
	file   string
	places map[string]place // nil if the configuration came from code
	broken map[string]bool  // paths already found at fault: what follows from that is not told again
	faults Faults
}

// add records a fault at path, unless path or what holds it is at fault already.
// value is shown if the file does not say how it was written.
func (r *report) add(path, value string, p problem) {
	at, ok := r.places[path]
	switch {
	case r.isBroken(path):
		return
	case !ok:
		at = r.nearestPlace(path)
		at.shown = quote(value)
	case at.shown == "":
		at.shown = quote(value)
	}
	r.faults = append(r.faults, Fault{
		File: r.file, Line: at.line, Column: at.column,
		Path: path, Value: at.shown, Rule: p.rule, Cure: p.cure,
	})
}

// fail records a fault and keeps later ones at path, or below it, from being told.
func (r *report) fail(path, value string, p problem) {
	r.add(path, value, p)
	r.broken[path] = true
}

func (r *report) isBroken(path string) bool {
	for path != "" && !r.broken[path] {
		path = parent(path)
	}
	return r.broken[path]
}

// wasSet tells whether the file gives path a value. A Config that did not come
// from a file counts as set throughout.
func (r *report) wasSet(path string) bool {
	return r.places == nil || r.places[path].shown != ""
}

// nearestPlace finds where a missing path would stand: at what would hold it.
func (r *report) nearestPlace(path string) place {
	for ; path != ""; path = parent(path) {
		if at, ok := r.places[path]; ok {
			return at
		}
	}
	return place{}
}

// err gives the faults in the order of their lines, or nil.
func (r *report) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	r.faults.sort()
	return r.faults
}

// parent takes the last name or index off a path: a.b[2] → a.b → a → "".
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// maxShownBytes keeps a fault on one line of a terminal.
const maxShownBytes = 80

// quote gives a value as it is shown in a fault; the empty string gives nothing.
func quote(value string) string {
	if value == "" {
		return ""
	}
	if len(value) > maxShownBytes {
		cut := maxShownBytes
		for cut > 0 && !utf8.RuneStart(value[cut]) {
			cut--
		}
		return strconv.Quote(value[:cut]) + "…"
	}
	return strconv.Quote(value)
}
