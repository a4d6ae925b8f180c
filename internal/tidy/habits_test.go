package tidy

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// noSleep finds time.Sleep in tests, where it makes time an assumption, and in
// internal packages, where it blocks a loop or delays an end. A test waits for
// what it waits for; code uses a timer that ends with its context. Inside
// synctest.Test time is virtual, and Sleep is the way to move it.
func noSleep(tr *tree) []string {
	var faults []string
	for _, f := range tr.goFiles() {
		if !f.isTest() && !strings.HasPrefix(f.path, "internal/") {
			continue
		}
		var bubble *ast.CallExpr // the synctest.Test that was seen last
		for call, name := range calls(f) {
			inBubble := bubble != nil && call.Pos() < bubble.End()
			switch {
			case name == "synctest.Test":
				bubble = call
			case name == "time.Sleep" && !inBubble:
				faults = append(faults, tr.fault(call.Pos(), "calls time.Sleep; wait for the event itself, or use testing/synctest"))
			}
		}
	}
	return faults
}

// skips are the ways to leave a test out, on the names that a test gives to its
// testing.T, B, F or TB.
var skips = regexp.MustCompile(`^(t|b|f|tb)\.(Skip|Skipf|SkipNow)$`)

// noSkip finds tests that may leave themselves out: what is not tested here is
// believed to work.
func noSkip(tr *tree) []string {
	var faults []string
	for _, f := range tr.goFiles() {
		for call, name := range calls(f) {
			if skips.MatchString(name) {
				faults = append(faults, tr.fault(call.Pos(), "calls %s; make what it needs part of `make deps`, or fail", name))
			}
		}
	}
	return faults
}

// calls yields each call of the form name.name, in the order of the text.
func calls(f *file) func(yield func(*ast.CallExpr, string) bool) {
	return func(yield func(*ast.CallExpr, string) bool) {
		more := true
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !more {
				return more
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
				if on, ok := selector.X.(*ast.Ident); ok {
					more = yield(call, on.Name+"."+selector.Sel.Name)
				}
			}
			return more
		})
	}
}

// unfinished are the words by which people mark work that they left. They stand
// apart here, so that this file does not find itself.
var unfinished = regexp.MustCompile(`\b(` + strings.Join([]string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}, "|") + `)\b`)

// noUnfinished finds marks of unfinished work, in any text file: a thing to do
// is an issue.
func noUnfinished(tr *tree) []string {
	var faults []string
	for _, f := range tr.files {
		number := 0
		for line := range strings.Lines(f.text) {
			number++
			if word := unfinished.FindString(line); word != "" {
				faults = append(faults, fmt.Sprintf("%s:%d: says %s; do it, or open an issue", f.path, number, word))
			}
		}
	}
	return faults
}

// topLevel is all that stands in the repository's root: a newcomer sees it first.
var topLevel = []string{
	".ci", ".gitignore", "Makefile", "README.md", "bench", "cmd", "deploy", "go.mod", "go.sum", "internal",
}

// topLevelRule finds other entries in the root.
func topLevelRule(allowed []string) rule {
	return func(tr *tree) []string {
		var names []string
		for _, f := range tr.files {
			name, _, _ := strings.Cut(f.path, "/")
			names = append(names, name)
		}
		var faults []string
		for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
			if !slices.Contains(allowed, name) {
				faults = append(faults, fmt.Sprintf("%s: does not belong in the root; put it into cmd, internal, bench or deploy", name))
			}
		}
		return faults
	}
}
