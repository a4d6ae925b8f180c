package shape

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing/fstest"
)

// Tree is a directory tree as text: file paths below its root, and what the
// files hold without their last newline. Link makes a symbolic link's.
type Tree map[string]string

// linkMark begins what stands for a symbolic link. No file of the kernel's
// begins so.
const linkMark = "-> "

// Link is the content of a symbolic link to target.
func Link(target string) string { return linkMark + target }

// With is the tree with further files, or others in their place: path, content,
// path, content.
func (t Tree) With(pairs ...string) Tree {
	changed := maps.Clone(t)
	for i := 0; i+1 < len(pairs); i += 2 {
		changed[pairs[i]] = pairs[i+1]
	}
	return changed
}

// Without is the tree without some files, or directories with all below.
func (t Tree) Without(paths ...string) Tree {
	changed := maps.Clone(t)
	maps.DeleteFunc(changed, func(file, _ string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return file == path || strings.HasPrefix(file, path+"/") })
	})
	return changed
}

// FS is the tree as a file system in memory.
func (t Tree) FS() fs.FS {
	files := fstest.MapFS{}
	for path, content := range t {
		file := &fstest.MapFile{Data: []byte(content + "\n"), Mode: 0o444}
		if target, isLink := strings.CutPrefix(content, linkMark); isLink {
			file = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		}
		files[path] = file
	}
	return files
}

// Write makes the tree below a directory.
func (t Tree) Write(root string) error {
	for path, content := range t {
		name := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := write(name, content); err != nil {
			return err
		}
	}
	return nil
}

func write(name, content string) error {
	if target, isLink := strings.CutPrefix(content, linkMark); isLink {
		return os.Symlink(target, name)
	}
	return os.WriteFile(name, []byte(content+"\n"), 0o644)
}

// Parse reads a tree as Format writes it: each file after a line "-- path --".
// What stands before the first is returned too.
func Parse(text string) (head string, t Tree, err error) {
	parts := strings.Split("\n"+text, "\n-- ")
	t = Tree{}
	for _, part := range parts[1:] {
		name, content, found := strings.Cut(part, " --")
		if !found {
			return "", nil, fmt.Errorf("no file name in %q", part)
		}
		t[name] = strings.TrimSuffix(strings.TrimPrefix(content, "\n"), "\n")
	}
	return strings.TrimPrefix(parts[0], "\n"), t, nil
}

// Format writes a tree, its files in order.
func (t Tree) Format() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		fmt.Fprintf(&b, "-- %s --\n%s\n", name, t[name])
	}
	return b.String()
}
