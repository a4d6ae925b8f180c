package tidy

import (
	"slices"
	"testing"
)

// rule finds its faults in a tree, each as "path:line: what is wrong; the cure".
type rule func(*tree) []string

// rules hold for this repository. Tables that name its packages are bound here,
// so that a rule itself knows none.
var rules = map[string]rule{
	"arrows":          arrowsRule(arrows),
	"sides":           sidesRule(supervisorSide, workerSide, sharedBySides),
	"test packages":   testPackageRule("internal/testkit", "internal/guest"),
	"dependencies":    dependencyRule(dependencies),
	"confined":        confinedRule(confined),
	"placing":         placingRule("internal/affinity"),
	"function length": functionRule("lines", maxFunctionLines, functionLines, longFunctions),
	"complexity":      functionRule("branches", maxComplexity, complexity, complexFunctions),
	"nesting":         functionRule("levels", maxNesting, nesting, deepFunctions),
	"file length":     fileRule(maxFileLines, longFiles),
	"package comment": packageComments,
	"package name":    packageNames,
	"exported docs":   exportedDocs,
	"sleep":           noSleep,
	"skipped tests":   noSkip,
	"unfinished work": noUnfinished,
	"globals":         noChangingGlobals,
	"top level":       topLevelRule(topLevel),
}

// TestTidy holds the repository against every rule.
func TestTidy(t *testing.T) {
	tr := loadTree(t)
	if len(tr.packages()) < 10 {
		t.Fatalf("only %d packages found: this is not the repository", len(tr.packages()))
	}
	for name, check := range rules {
		t.Run(name, func(t *testing.T) {
			for _, fault := range check(tr) {
				t.Error(fault)
			}
		})
	}
}

// TestRules holds each rule against its specimens.
func TestRules(t *testing.T) {
	tried := map[string]bool{}
	for _, s := range specimens {
		tried[s.rule] = true
		t.Run(s.rule+"/"+s.name, func(t *testing.T) {
			check := s.check
			if check == nil {
				check = rules[s.rule]
			}
			if got := check(parseTree(t, s.files)); !slices.Equal(got, s.want) {
				t.Errorf("found\n%q\nwant\n%q", got, s.want)
			}
		})
	}
	for name := range rules {
		if !tried[name] {
			t.Errorf("rule %q has no specimen", name)
		}
	}
}
