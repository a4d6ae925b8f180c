package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// module is the import path of the repository's root.
const module = "sluice"

// tree is a repository, or a part of one: its text files in order of their paths.
type tree struct {
	fset  *token.FileSet
	files []*file
}

// file is one text file.
type file struct {
	path   string // below the root, with slashes
	text   string
	syntax *ast.File // nil if it is not Go
}

// unread are directories that hold no source of ours: history, build results,
// and what tests feed to programs.
var unread = map[string]bool{".git": true, "bin": true, "testdata": true}

// loadTree reads the repository that the test runs in.
func loadTree(t *testing.T) *tree {
	t.Helper()
	root := filepath.Join("..", "..") // a test runs in its package's directory
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if unread[entry.Name()] {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil // .git is a file in a linked work tree
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil || !utf8.Valid(text) {
			return err
		}
		relative, err := filepath.Rel(root, name)
		texts[filepath.ToSlash(relative)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return parseTree(t, texts)
}

// parseTree makes a tree of texts by path.
func parseTree(t *testing.T, texts map[string]string) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		f := &file{path: name, text: texts[name]}
		if path.Ext(name) == ".go" {
			syntax, err := parser.ParseFile(tr.fset, name, f.text, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			f.syntax = syntax
		}
		tr.files = append(tr.files, f)
	}
	return tr
}

// goFiles lists the Go files below one of the directories; below all if none is
// named.
func (tr *tree) goFiles(dirs ...string) []*file {
	var found []*file
	for _, f := range tr.files {
		in := func(dir string) bool { return strings.HasPrefix(f.path, dir+"/") }
		if f.syntax != nil && (len(dirs) == 0 || slices.ContainsFunc(dirs, in)) {
			found = append(found, f)
		}
	}
	return found
}

// packages groups the Go files that are no tests by directory.
func (tr *tree) packages() map[string][]*file {
	found := map[string][]*file{}
	for _, f := range tr.goFiles() {
		if !f.isTest() {
			found[f.dir()] = append(found[f.dir()], f)
		}
	}
	return found
}

func (f *file) dir() string  { return path.Dir(f.path) }
func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// importPath is a path without its quotes.
func importPath(spec *ast.ImportSpec) string { return strings.Trim(spec.Path.Value, `"`) }

// fault says what is wrong at a place of the tree.
func (tr *tree) fault(at token.Pos, format string, args ...any) string {
	p := tr.fset.Position(at)
	return fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...))
}
