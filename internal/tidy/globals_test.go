package tidy

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
)

// noChangingGlobals finds package variables of map, slice or pointer type that
// are written after their declaration: state that every test, loop and reload
// would share. It goes by syntax alone, and does not see writes through a copy.
func noChangingGlobals(tr *tree) []string {
	var faults []string
	packages := tr.packages()
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		globals := map[string]*ast.ValueSpec{}
		for _, f := range packages[dir] {
			collectGlobals(f, globals)
		}
		for _, f := range packages[dir] {
			for _, name := range writes(f) {
				if spec := globals[name.Name]; spec != nil && denotes(name, spec) {
					faults = append(faults, tr.fault(name.Pos(), "changes the package variable %s; give the state an owner", name.Name))
				}
			}
		}
	}
	return faults
}

// collectGlobals notes a file's package variables that share what they hold.
func collectGlobals(f *file, into map[string]*ast.ValueSpec) {
	for _, decl := range f.syntax.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			for i, name := range value.Names {
				if isShared(value.Type) || i < len(value.Values) && isSharedValue(value.Values[i]) {
					into[name.Name] = value
				}
			}
		}
	}
}

// isShared reports whether a type is a map, a slice or a pointer.
func isShared(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.MapType, *ast.StarExpr:
		return true
	case *ast.ArrayType:
		return expr.Len == nil
	}
	return false
}

// isSharedValue reports whether a value is a map, a slice or a pointer, as far
// as it shows. A call may return one (make, new, a constructor), and counts.
func isSharedValue(expr ast.Expr) bool {
	switch expr := expr.(type) {
	case *ast.CompositeLit:
		return isShared(expr.Type)
	case *ast.UnaryExpr:
		return expr.Op == token.AND
	case *ast.CallExpr:
		return true
	}
	return false
}

// writes lists the variables that a file's functions change: assigned to, wholly
// or in a part, counted up or down, deleted from or cleared.
func writes(f *file) []*ast.Ident {
	var names []*ast.Ident
	note := func(expr ast.Expr) {
		if name := root(expr); name != nil {
			names = append(names, name)
		}
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, left := range n.Lhs {
					note(left)
				}
			}
		case *ast.IncDecStmt:
			note(n.X)
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") && len(n.Args) > 0 {
				note(n.Args[0])
			}
		}
		return true
	})
	return names
}

// root is the variable that an expression reaches into: x of x[i].f, *x and (x).
func root(expr ast.Expr) *ast.Ident {
	switch expr := expr.(type) {
	case *ast.Ident:
		return expr
	case *ast.IndexExpr:
		return root(expr.X)
	case *ast.SelectorExpr:
		return root(expr.X)
	case *ast.StarExpr:
		return root(expr.X)
	case *ast.ParenExpr:
		return root(expr.X)
	}
	return nil
}

// denotes reports whether a name means the package variable, and not something
// local of the same name. The parser resolves names within a file; one that it
// could not resolve belongs to another file of the package.
func denotes(name *ast.Ident, global *ast.ValueSpec) bool {
	return name.Obj == nil || name.Obj.Decl == global
}
