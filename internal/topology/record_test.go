package topology

import (
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sluice/internal/topology/shape"
)

// record is how testdata/recorded-*.txt were made: go test -run TestRecord
// -record FILE on the machine, or the test's binary in a guest. What says more
// than the machine's shape (the path of a control group) was then taken out.
var record = flag.String("record", "", "write what Read asks of this machine to a file")

// recorder is a file system that remembers what was read from it.
type recorder struct {
	under fs.FS
	tree  shape.Tree
}

// Open reads the whole file first, so that it is remembered.
func (r *recorder) Open(name string) (fs.File, error) {
	if _, err := r.ReadFile(name); err != nil {
		return nil, err
	}
	return r.under.Open(name)
}

// ReadFile remembers the parts that matter of files that say more.
func (r *recorder) ReadFile(name string) ([]byte, error) {
	data, err := fs.ReadFile(r.under, name)
	if err != nil {
		return nil, err
	}
	content := strings.TrimSuffix(string(data), "\n")
	switch name {
	case "proc/cpuinfo":
		content, _, _ = strings.Cut(content, "\n\n")
	case "proc/self/status":
		content = content[max(0, strings.Index(content, "Cpus_allowed")):]
	}
	r.tree[r.resolve(name)] = content
	return data, nil
}

// ReadDir remembers the names that nobody may open.
func (r *recorder) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(r.under, name)
	for _, entry := range entries {
		file := path.Join(r.resolve(name), entry.Name())
		if _, known := r.tree[file]; !known && entry.Type()&fs.ModeSymlink == 0 {
			r.tree[file] = ""
		}
	}
	return entries, err
}

// Stat remembers that something is there.
func (r *recorder) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(r.under, name)
	if at := r.resolve(name); err == nil && r.tree[at] == "" {
		r.tree[at] = ""
	}
	return info, err
}

// ReadLink remembers where a link leads.
func (r *recorder) ReadLink(name string) (string, error) {
	target, err := fs.ReadLink(r.under, name)
	if err == nil {
		r.tree[r.resolve(path.Dir(name))+"/"+path.Base(name)] = shape.Link(target)
	}
	return target, err
}

// Lstat is part of fs.ReadLinkFS.
func (r *recorder) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(r.under, name) }

// resolve follows the links in a path, and remembers them.
func (r *recorder) resolve(name string) string {
	at := "."
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		if at == "proc/self" {
			continue // a link to a number that means nothing later
		}
		if target, err := fs.ReadLink(r.under, at); err == nil && !path.IsAbs(target) {
			r.tree[at] = shape.Link(target)
			at = path.Join(path.Dir(at), target)
		}
	}
	return at
}

// finished is the tree without the directories that stand in it as files.
func (r *recorder) finished() shape.Tree {
	done := shape.Tree{}
	for name, content := range r.tree {
		isParent := false
		for other := range r.tree {
			isParent = isParent || strings.HasPrefix(other, name+"/")
		}
		if !isParent {
			done[name] = content
		}
	}
	return done
}

// TestRecord: what Read asks of this machine is all that it needs to see the same
// machine again, in memory, as text, and in files.
func TestRecord(t *testing.T) {
	r := &recorder{under: os.DirFS("/"), tree: shape.Tree{}}
	m := ReadFS(r)
	checkMachine(t, m)
	tree := r.finished()
	_, again, err := shape.Parse(tree.Format())
	if err != nil || !reflect.DeepEqual(again, tree) {
		t.Fatalf("a tree reads differently from its text: %v\n%v\n%v", err, again, tree)
	}
	if got := ReadFS(tree.FS()); !reflect.DeepEqual(got, m) {
		t.Errorf("recorded\n%vread again\n%v", m, got)
	}
	root := t.TempDir()
	if err := tree.Write(root); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(root); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("recorded\n%vread from files\n%v, %v", m, got, err)
	}
	if *record != "" {
		if err := os.WriteFile(*record, []byte("Recorded.\n"+m.String()+tree.Format()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReadsNoMore: reading the machine opens nothing outside of the places that
// an operator would expect it to look at.
func TestReadsNoMore(t *testing.T) {
	r := &recorder{under: os.DirFS("/"), tree: shape.Tree{}}
	ReadFS(r)
	for name := range r.finished() {
		switch first, _, _ := strings.Cut(filepath.ToSlash(name), "/"); first {
		case "sys", "proc", "run", "var", ".dockerenv":
		default:
			t.Errorf("reads /%s", name)
		}
	}
}
