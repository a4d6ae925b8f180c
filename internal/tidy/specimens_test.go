package tidy

import (
	"fmt"
	"strings"
)

// specimen is a small tree, and the faults that one rule finds in it.
type specimen struct {
	rule  string
	name  string
	check rule // the rule with tables of its own; nil: as it holds for this repository
	files map[string]string
	want  []string
}

// one is a tree of a single file.
func one(path, text string) map[string]string { return map[string]string{path: text} }

// small is a table of arrows for the specimens: a → b, and a → c.
var small = []row{{"internal/a", to("b", "c"), "the top"}, {"internal/b", nil, "a leaf"}, {"internal/c", nil, "a leaf"}}

var specimens = []specimen{
	{"arrows", "as the table says", arrowsRule(small), map[string]string{
		"internal/a/a.go":      `package a; import ("fmt"; "sluice/internal/b"; "sluice/internal/c")`,
		"internal/b/b.go":      `package b`,
		"internal/b/b_test.go": `package b; import "sluice/internal/c"`,
	}, nil},
	{"arrows", "new and stale", arrowsRule(small), map[string]string{
		"internal/a/a.go": `package a; import "sluice/internal/b"`,
		"internal/b/b.go": `package b; import "sluice/internal/c"`,
	}, []string{
		"internal/a: no longer imports internal/c; remove the arrow from internal/tidy/arrows_test.go",
		`internal/b: imports internal/c, but is "a leaf"; invert the need, or add the arrow to internal/tidy/arrows_test.go and say why in the commit`,
	}},
	{"arrows", "unknown package", arrowsRule(small), one("internal/d/d.go", `package d`), []string{
		"internal/d: is not in the table of arrows; add a row to internal/tidy/arrows_test.go above all that it imports",
	}},
	{"arrows", "upward row", arrowsRule([]row{{"internal/b", nil, ""}, {"internal/a", to("b", "x"), ""}}), nil, []string{
		"internal/a: the table allows an arrow to internal/b, which has no row below; move the rows",
		"internal/a: the table allows an arrow to internal/x, which has no row below; move the rows",
	}},
	{"arrows", "bench from outside", arrowsRule(small), map[string]string{
		"bench/main.go":        `package main; import "sluice/bench/stats"`,
		"bench/stats/stats.go": `package stats; import "sluice/internal/b"`,
	}, []string{"bench/stats: imports internal/b; a bench treats Sluice like its peers, from outside"}},

	{"sides", "met in the middle", sidesRule(to("a"), to("z"), map[string]string{"internal/s": "crosses"}), map[string]string{
		"internal/a/a.go": `package a; import ("sluice/internal/m"; "sluice/internal/s")`,
		"internal/m/m.go": `package m; import "sluice/internal/n"`,
		"internal/n/n.go": `package n`,
		"internal/s/s.go": `package s`,
		"internal/z/z.go": `package z; import ("sluice/internal/n"; "sluice/internal/s")`,
	}, []string{"internal/n: is reached from the supervisor and from the worker, which share only [internal/s]; split it"}},

	{"test packages", "in code, in a test, in itself, in another of them", testPackageRule("internal/kit", "internal/big"), map[string]string{
		"internal/a/a.go":       "package a\nimport \"sluice/internal/kit\"",
		"internal/big/b.go":     `package big; import "sluice/internal/kit"`,
		"internal/a/a_test.go":  `package a; import "sluice/internal/kit"`,
		"internal/kit/k.go":     `package kit`,
		"internal/kit/sub/s.go": "package sub\n\nimport \"sluice/internal/kit\"",
	}, []string{"internal/a/a.go:2: imports internal/kit outside a test", "internal/kit/sub/s.go:3: imports internal/kit outside a test"}},

	{"dependencies", "unknown, misplaced, stale", dependencyRule(map[string]permit{
		"example.org/any":  {"", nil},
		"example.org/here": {"", to("a")},
		"example.org/old":  {"", nil},
	}), map[string]string{
		"internal/a/a.go":      `package a; import ("net/http"; "sluice/internal/b"; "example.org/any/sub"; "example.org/here")`,
		"internal/a/a_test.go": `package a; import "example.org/here"`,
		"internal/ab/b.go":     "package b\nimport \"example.org/here\"",
		"internal/b/a_test.go": "package b\nimport \"example.org/here\"",
		"internal/b/b_test.go": "package b\nimport \"example.org/anything\"",
	}, []string{
		"internal/ab/b.go:2: imports example.org/here, which is for [internal/a] only",
		"internal/b/b_test.go:2: imports example.org/anything; do without it, or add it with its reason to internal/tidy/imports_test.go",
		"internal/tidy/imports_test.go: nothing imports example.org/old any more; remove it here and from go.mod",
	}},

	{"confined", "in its place, in a test, elsewhere", confinedRule(map[string]permit{"net/http": {"for a only", to("a")}}), map[string]string{
		"internal/a/a.go":      `package a; import "net/http"`,
		"internal/b/b.go":      `package b; import ("net"; "net/http")`,
		"internal/b/b_test.go": `package b; import "net/http"`,
	}, []string{"internal/b/b.go:1: imports net/http: for a only"}},

	{"placing", "in its place, in a test, in a bench, elsewhere", placingRule("internal/a"), map[string]string{
		"internal/a/a.go":      `package a; func f() { unix.SchedSetaffinity(0, nil) }`,
		"internal/b/b_test.go": `package b; func f() { unix.SchedSetaffinity(0, nil) }`,
		"bench/b.go":           `package b; func f() { unix.SchedSetaffinity(0, nil) }`,
		"internal/b/b.go":      `package b; func f() { unix.SchedGetaffinity(0, nil); unix.SchedSetaffinityDynamic(0, nil) }`,
		"cmd/c/c.go":           `package main; func f() { unix.SetMemPolicy(0, nil) }`,
	}, []string{
		"cmd/c/c.go:1: calls unix.SetMemPolicy; only internal/a places threads and memory",
		"internal/b/b.go:1: calls unix.SchedSetaffinityDynamic; only internal/a places threads and memory",
	}},

	{"function length", "at the limit and beyond", nil, map[string]string{
		"internal/a/a.go":      "package a\n" + function("fits", 70) + function("(T) is", 71),
		"internal/a/a_test.go": "package a\n" + function("test", 200),
	}, []string{"internal/a/a.go: (T).is: 71 lines, at most 70; split it, or except it with a reason in internal/tidy/lengths_test.go"}},
	{"function length", "exceptions", functionRule("lines", 3, functionLines, map[string]string{
		"cmd/a.go: long":   "a table",
		"cmd/a.go: bare":   "",
		"cmd/a.go: shrunk": "a table",
		"cmd/a.go: gone":   "a table",
	}), one("cmd/a.go", "package a\n"+function("long", 4)+function("bare", 4)+function("shrunk", 3)), []string{
		"cmd/a.go: bare: is an exception without a reason",
		"cmd/a.go: shrunk: has 3 lines and needs no exception any more; remove it",
		"cmd/a.go: gone: is an exception, but does not exist; remove it",
	}},

	{"complexity", "each branch once", functionRule("branches", 0, complexity, nil), one("bench/a.go", `package a
func none() { a(); b := !c; _ = b }
func ifs() { if a { } else if b { } else { } }
func loops() { for { }; for range x { } }
func operators() { _ = a && b || c }
func cases() { switch { case a, b: case c: default: } }
func kinds() { switch x.(type) { case int: default: } }
func channels() { select { case <-a: default: } }
func inner() { func() { if a { } }() }
func outside()
`), []string{
		"bench/a.go: cases: 3 " + ofBranches,
		"bench/a.go: channels: 2 " + ofBranches,
		"bench/a.go: ifs: 3 " + ofBranches,
		"bench/a.go: inner: 2 " + ofBranches,
		"bench/a.go: kinds: 2 " + ofBranches,
		"bench/a.go: loops: 3 " + ofBranches,
		"bench/a.go: none: 1 " + ofBranches,
		"bench/a.go: operators: 3 " + ofBranches,
	}},
	{"complexity", "20 and 21", nil, one("cmd/a.go", "package a\nfunc at() {"+strings.Repeat("if a {};", 19)+"}\nfunc beyond() {"+strings.Repeat("if a {};", 20)+"}"),
		[]string{"cmd/a.go: beyond: 21 branches, at most 20; split it, or except it with a reason in internal/tidy/lengths_test.go"}},

	{"nesting", "each level once", functionRule("levels", -1, nesting, nil), one("bench/a.go", `package a
func none() { { a() } }
func chain() { if a { } else if b { } else if c { } else { } }
func chained() { if a { } else if b { for { } } }
func three() { for { switch { case a: select { case <-b: } } }; if c { } }
func inner() { f(func() { if a { } }) }
func kinds() { switch x.(type) { case int: for range y { } } }
func inElse() { if a { } else { if b { } } }
`), []string{
		"bench/a.go: chain: 1 " + ofLevels,
		"bench/a.go: chained: 2 " + ofLevels,
		"bench/a.go: inElse: 2 " + ofLevels,
		"bench/a.go: inner: 2 " + ofLevels,
		"bench/a.go: kinds: 2 " + ofLevels,
		"bench/a.go: none: 0 " + ofLevels,
		"bench/a.go: three: 3 " + ofLevels,
	}},
	{"nesting", "5 and 6", nil, one("cmd/a.go", "package a\nfunc at() {"+strings.Repeat("for {", 5)+strings.Repeat("}", 5)+"}\nfunc beyond() {"+strings.Repeat("for {", 6)+strings.Repeat("}", 6)+"}"),
		[]string{"cmd/a.go: beyond: 6 levels, at most 5; split it, or except it with a reason in internal/tidy/lengths_test.go"}},

	{"file length", "at the limit and beyond", nil, map[string]string{
		"internal/a/a.go":      "package a\n" + strings.Repeat("\n", 599),
		"internal/a/b.go":      "package a\n" + strings.Repeat("\n", 600),
		"internal/a/b_test.go": "package a\n" + strings.Repeat("\n", 900),
	}, []string{"internal/a/b.go: 601 lines, at most 600; split it, or except it with a reason in internal/tidy/lengths_test.go"}},

	{"package comment", "one, none, two", nil, map[string]string{
		"internal/a/a.go":      "// Package a is.\npackage a",
		"internal/a/b.go":      "package a",
		"internal/b/b.go":      "// A detached comment.\n\npackage b",
		"internal/c/a.go":      "// Package c is.\npackage c",
		"internal/c/b.go":      "// Package c is again.\npackage c",
		"internal/d/d_test.go": "package d",
	}, []string{
		"internal/b: has 0 package comments; it tells its story once, on top of one file",
		"internal/c: has 2 package comments; it tells its story once, on top of one file",
	}},

	{"package name", "vague, unlike, and a program", nil, map[string]string{
		"cmd/hb/main.go":        "package main",
		"internal/a/a.go":       "package a",
		"internal/b/b.go":       "package c",
		"internal/utils/all.go": "package utils",
	}, []string{
		"internal/b: holds package c; name both alike",
		"internal/utils: is named for no subject; move what is in it to what uses it",
	}},

	{"exported docs", "with and without", nil, map[string]string{
		"internal/a/a_test.go": "package a\nfunc TestA() {}",
		"internal/a/a.go": `package a
// F is.
func F() {}
func G() {}
func g() {}
func (T) M() {}
func (*T) N() {}
func (*P[K, V]) Q() {}
func (t) O() {}
func (T) String() string { return "" }
type T struct{ Field int }
type t struct{}
type (
	// U is.
	U int
	V int
	W int // is
)
// Group of two.
const ( A = 1; B = 2 )
const ( C = 1 // is
	D = 2
)
const ( E kind = iota; H )
var I, j = 1, 2
`}, documented("4: G", "6: M", "7: N", "8: Q", "11: T", "16: V", "22: D", "25: I")},

	{"sleep", "in tests and in internal", nil, map[string]string{
		"internal/a/a.go":      "package a\nfunc f() { time.Sleep(1); time.After(1) }",
		"bench/a/a.go":         "package a\nfunc f() { time.Sleep(1) }",
		"bench/a/a_test.go":    "package a\nfunc f() { clock.Sleep(1) }",
		"internal/a/a_test.go": "package a\n\nfunc f() { go func() { time.Sleep(1) }() }",
		"internal/a/b_test.go": "package a\nfunc f() { synctest.Test(t, func(t *testing.T) { time.Sleep(1); f(); time.Sleep(2) })\ntime.Sleep(3) }",
	}, []string{
		"internal/a/a.go:2: calls time.Sleep; wait for the event itself, or use testing/synctest",
		"internal/a/a_test.go:3: calls time.Sleep; wait for the event itself, or use testing/synctest",
		"internal/a/b_test.go:3: calls time.Sleep; wait for the event itself, or use testing/synctest",
	}},

	{"skipped tests", "each form", nil, one("internal/a/a_test.go", "package a\nfunc f() { t.Skip()\nb.Skipf(1)\ntb.SkipNow()\nr.Skip(2); t.Fatal() }"), []string{
		"internal/a/a_test.go:2: calls t.Skip; make what it needs part of `make deps`, or fail",
		"internal/a/a_test.go:3: calls b.Skipf; make what it needs part of `make deps`, or fail",
		"internal/a/a_test.go:4: calls tb.SkipNow; make what it needs part of `make deps`, or fail",
	}},

	{"unfinished work", "whole words, any file", nil, map[string]string{
		"Makefile":        "all:\n\t# " + "TO" + "DO: more\n",
		"internal/a/a.go": "package a // " + "X" + "XX\n// mktemp " + "X" + "XX" + "X, " + "TO" + "DOS\n",
		"bench/b.c":       "/* ok */\n/* " + "FIX" + "ME */",
	}, []string{
		"Makefile:2: says " + "TO" + "DO; do it, or open an issue",
		"bench/b.c:2: says " + "FIX" + "ME; do it, or open an issue",
		"internal/a/a.go:1: says " + "X" + "XX; do it, or open an issue",
	}},

	{"globals", "each kind of write", nil, map[string]string{
		"internal/a/a.go": `package a
var (
	table = map[string]int{"a": 1}
	list []int
	state = &T{}
	made = make([]int, 1)
	fixed = [2]int{}
	number int
)
func read() { _ = table["a"]; list := list; list = nil; number++; fixed[0] = 1 }
func write() {
	table["b"] = 2
	delete(table, "b")
	(*state).field.deep++
	made = append(made, 1)
}
`,
		"internal/a/b.go": `package a
func init() { list = nil }
func local() { var table map[string]int; table["b"] = 2 }
`,
		"internal/a/a_test.go": `package a; func f() { list = nil }`,
		"internal/b/b.go":      `package b; func f() { list = nil }`,
	}, []string{
		changes("a.go:12", "table"), changes("a.go:13", "table"), changes("a.go:14", "state"), changes("a.go:15", "made"),
		changes("b.go:2", "list"),
	}},

	{"top level", "the known and the stray", nil, map[string]string{
		"Makefile": "", "cmd/sluice/main.go": "package main", "notes.txt": "", "scripts/x.sh": "", "scripts/y.sh": "",
	}, []string{
		"notes.txt: does not belong in the root; put it into cmd, internal, bench or deploy",
		"scripts: does not belong in the root; put it into cmd, internal, bench or deploy",
	}},
}

const (
	ofBranches = "branches, at most 0; split it, or except it with a reason in internal/tidy/lengths_test.go"
	ofLevels   = "levels, at most -1; split it, or except it with a reason in internal/tidy/lengths_test.go"
)

// function writes a function of so many lines.
func function(name string, lines int) string {
	return "func " + name + "() {" + strings.Repeat("\n", lines-1) + "}\n"
}

// documented makes the faults of the rule of exported docs from "line: name".
func documented(places ...string) []string {
	for i, place := range places {
		line, name, _ := strings.Cut(place, ": ")
		places[i] = fmt.Sprintf("internal/a/a.go:%s: %s is exported without a comment; say what it is, its units and its errors", line, name)
	}
	return places
}

func changes(place, name string) string {
	return fmt.Sprintf("internal/a/%s: changes the package variable %s; give the state an owner", place, name)
}
