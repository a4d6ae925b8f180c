package tidy

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
)

// packageComments finds packages whose files have no package comment, or more
// than one: a package tells one story, in one place.
func packageComments(tr *tree) []string {
	var faults []string
	packages := tr.packages()
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		comments := 0
		for _, f := range packages[dir] {
			if f.syntax.Doc != nil {
				comments++
			}
		}
		if comments != 1 {
			faults = append(faults, fmt.Sprintf("%s: has %d package comments; it tells its story once, on top of one file", dir, comments))
		}
	}
	return faults
}

// vague are package names that say nothing of what is inside: such a package
// grows without end. A package is named for its subject.
var vague = []string{"base", "common", "core", "helper", "helpers", "lib", "misc", "shared", "tools", "types", "util", "utils"}

// packageNames finds vague names, and packages that are not named as their
// directory. A program is named main.
func packageNames(tr *tree) []string {
	var faults []string
	packages := tr.packages()
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		name := packages[dir][0].syntax.Name.Name
		if slices.Contains(vague, path.Base(dir)) {
			faults = append(faults, fmt.Sprintf("%s: is named for no subject; move what is in it to what uses it", dir))
		}
		if name != path.Base(dir) && name != "main" {
			faults = append(faults, fmt.Sprintf("%s: holds package %s; name both alike", dir, name))
		}
	}
	return faults
}

// wellKnown are methods whose documentation is the interface that they fulfil:
// fmt.Stringer, error, sort.Interface, json.Marshaler and its inverse.
var wellKnown = map[string]bool{
	"String": true, "Error": true, "Unwrap": true,
	"Len": true, "Less": true, "Swap": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true,
}

// exportedDocs finds exported identifiers of a package without a comment. In a
// group one comment on the group serves all.
func exportedDocs(tr *tree) []string {
	var faults []string
	for _, f := range tr.goFiles() {
		if f.isTest() {
			continue
		}
		for _, decl := range f.syntax.Decls {
			for _, name := range undocumented(decl) {
				faults = append(faults, tr.fault(name.Pos(), "%s is exported without a comment; say what it is, its units and its errors", name.Name))
			}
		}
	}
	return faults
}

// undocumented lists the exported names of a declaration that have no comment.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Doc == nil && visible(decl) {
			return []*ast.Ident{decl.Name}
		}
	case *ast.GenDecl:
		if decl.Doc == nil {
			return undocumentedSpecs(decl)
		}
	}
	return nil
}

// visible reports whether other packages see a function: it is exported, and so
// is the type of its receiver.
func visible(fn *ast.FuncDecl) bool {
	if !fn.Name.IsExported() || fn.Recv == nil {
		return fn.Name.IsExported()
	}
	receiver := baseType(fn.Recv.List[0].Type)
	return receiver != nil && receiver.IsExported() && !wellKnown[fn.Name.Name]
}

// baseType is the name in a receiver's type: T of T, *T and *T[P].
func baseType(expr ast.Expr) *ast.Ident {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr
	case *ast.StarExpr:
		return baseType(expr.X)
	case *ast.IndexExpr:
		return baseType(expr.X)
	case *ast.IndexListExpr:
		return baseType(expr.X)
	}
	return nil
}

// undocumentedSpecs looks into a group. Constants that count up (iota) are
// documented by their type.
func undocumentedSpecs(group *ast.GenDecl) []*ast.Ident {
	var names []*ast.Ident
	enumeration := false
	for i, spec := range group.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if spec.Doc == nil && spec.Comment == nil && spec.Name.IsExported() {
				names = append(names, spec.Name)
			}
		case *ast.ValueSpec:
			if i == 0 {
				enumeration = group.Tok == token.CONST && spec.Type != nil
			}
			if enumeration || spec.Doc != nil || spec.Comment != nil {
				continue
			}
			names = append(names, exported(spec.Names)...)
		}
	}
	return names
}

func exported(names []*ast.Ident) []*ast.Ident {
	return slices.DeleteFunc(slices.Clone(names), func(name *ast.Ident) bool { return !name.IsExported() })
}
