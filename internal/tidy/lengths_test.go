package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
)

// Limits on code that is no test. A function fits a screen; a reader holds so
// many branches and levels in mind. The numbers are those of good Go programs'
// longest functions, not of their median.
const (
	maxFunctionLines = 70
	maxFileLines     = 600
	maxComplexity    = 20 // branches, as McCabe counts them
	maxNesting       = 5  // levels of if, for, switch, select and func within a function
)

// Exceptions, each with its reason: "path: function" or "path". They shrink: one
// that is no longer needed is a fault.
var (
	longFunctions    = map[string]string{}
	complexFunctions = map[string]string{}
	deepFunctions    = map[string]string{}
	longFiles        = map[string]string{}
)

// measured are the directories whose code is measured.
var measured = []string{"cmd", "internal", "bench"}

// functionRule holds one measure of each function against its limit.
func functionRule(unit string, limit int, measure func(*tree, *ast.FuncDecl) int, exceptions map[string]string) rule {
	return func(tr *tree) []string {
		found := map[string]int{}
		for _, f := range tr.goFiles(measured...) {
			if f.isTest() {
				continue
			}
			for _, decl := range f.syntax.Decls {
				if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
					found[f.path+": "+functionName(fn)] = measure(tr, fn)
				}
			}
		}
		return excess(found, unit, limit, exceptions)
	}
}

// fileRule holds each file's lines against their limit.
func fileRule(limit int, exceptions map[string]string) rule {
	return func(tr *tree) []string {
		found := map[string]int{}
		for _, f := range tr.goFiles(measured...) {
			if !f.isTest() {
				found[f.path] = strings.Count(f.text, "\n")
			}
		}
		return excess(found, "lines", limit, exceptions)
	}
}

// excess finds measures over the limit that are no exception, and exceptions
// that are none.
func excess(found map[string]int, unit string, limit int, exceptions map[string]string) []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		reason, excepted := exceptions[name]
		switch over := found[name] > limit; {
		case over && !excepted:
			faults = append(faults, fmt.Sprintf("%s: %d %s, at most %d; split it, or except it with a reason in internal/tidy/lengths_test.go", name, found[name], unit, limit))
		case over && reason == "":
			faults = append(faults, fmt.Sprintf("%s: is an exception without a reason", name))
		case !over && excepted:
			faults = append(faults, fmt.Sprintf("%s: has %d %s and needs no exception any more; remove it", name, found[name], unit))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exceptions)) {
		if _, exists := found[name]; !exists {
			faults = append(faults, fmt.Sprintf("%s: is an exception, but does not exist; remove it", name))
		}
	}
	return faults
}

// functionName is a function's name with its receiver: "(*Loop).Run".
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return fmt.Sprintf("(%s).%s", types.ExprString(fn.Recv.List[0].Type), fn.Name.Name)
}

// functionLines counts the lines from "func" to the closing brace.
func functionLines(tr *tree, fn *ast.FuncDecl) int {
	return tr.fset.Position(fn.End()).Line - tr.fset.Position(fn.Pos()).Line + 1
}

// complexity counts the independent ways through a function (McCabe 1976): one,
// and one more for each branch. Functions inside count to the whole.
func complexity(_ *tree, fn *ast.FuncDecl) int {
	ways := 1
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			ways++
		case *ast.CaseClause:
			ways += min(1, len(n.List)) // default is the way that was there
		case *ast.CommClause:
			if n.Comm != nil {
				ways++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				ways++
			}
		}
		return true
	})
	return ways
}

// nesting counts the levels at a function's deepest place. An else-if stands on
// the level of its if.
func nesting(_ *tree, fn *ast.FuncDecl) int {
	depth, deepest := 0, 0
	var levels []int // what each open node added
	chained := map[ast.Node]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if n == nil {
			depth -= levels[len(levels)-1]
			levels = levels[:len(levels)-1]
			return true
		}
		level := 0
		switch n := n.(type) {
		case *ast.IfStmt:
			chained[n.Else] = true
			if !chained[n] {
				level = 1
			}
		case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
			level = 1
		}
		depth += level
		deepest = max(deepest, depth)
		levels = append(levels, level)
		return true
	})
	return deepest
}
