package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Tree is root and all its descendants, in ascending order: a proxy's master,
// supervisor and workers.
func Tree(root int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		pid, parent, err := parseParent(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		children[parent] = append(children[parent], pid)
	}
	return descend(root, children), nil
}

// descend is root and all that is below it.
func descend(root int, children map[int][]int) []int {
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	slices.Sort(all)
	return all
}

// parseParent reads process and parent from /proc/PID/stat. The name between them
// may hold spaces and parentheses, so the last ")" ends it (proc(5)).
func parseParent(text string) (pid, parent int, err error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return 0, 0, fmt.Errorf("no name in %q", text)
	}
	rest := strings.Fields(text[end+1:])
	if len(rest) < 2 {
		return 0, 0, fmt.Errorf("no parent in %q", text)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(text[:open])); err != nil {
		return 0, 0, err
	}
	parent, err = strconv.Atoi(rest[1])
	return pid, parent, err
}
