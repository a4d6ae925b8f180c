package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"sluice/internal/topology"
)

// Change is a file that has another value than it should.
type Change struct {
	File     string // below the root
	Old, New string
}

// Compare finds the files that have other values than they should. Files that
// cannot be read are named in notes: a driver need not have all.
func Compare(tree fs.FS, settings []Setting) (changes []Change, notes []string) {
	for _, s := range settings {
		text, err := fs.ReadFile(tree, s.File)
		if err != nil {
			notes = append(notes, fmt.Sprintf("/%s cannot be read, and stays: %v", s.File, cause(err)))
			continue
		}
		if old := strings.TrimSpace(string(text)); !s.Form.same(old, s.Value) {
			changes = append(changes, Change{File: s.File, Old: old, New: s.Value})
		}
	}
	return changes, notes
}

// same reports whether two values mean the same, however they are written.
func (f Form) same(old, value string) bool {
	var a, b []int
	var err, err2 error
	switch f {
	case List:
		a, err = topology.ParseCPUs(old)
		b, err2 = topology.ParseCPUs(value)
	case Mask:
		a, err = topology.ParseMask(old)
		b, err2 = topology.ParseMask(value)
	default:
		has, err := strconv.Atoi(old)
		wants, err2 := strconv.Atoi(value)
		return err == nil && err2 == nil && (has == wants || f == Floor && has > wants)
	}
	return err == nil && err2 == nil && slices.Equal(a, b)
}

// Store is where old values are kept until they are taken back.
type Store struct {
	Root string // of /proc and /sys
	Path string // of the file that keeps them
}

// state is what that file holds.
type state struct {
	Boot string            `json:"boot"` // since when they are true: after a start of the machine all is as the kernel likes
	Old  map[string]string `json:"old"`  // value by file
}

// Default is the usual place of the file below a root: $STATE_DIRECTORY, which
// systemd sets, or /var/lib/sluice.
func Default(root string, getenv func(string) string) string {
	const name = "tune.json"
	if given, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":"); given != "" {
		return filepath.Join(given, name)
	}
	return filepath.Join(root, "var/lib/sluice", name)
}

// Failure is a file that could not be written, and why.
type Failure struct {
	File string
	Err  error
}

// String says what would help.
func (f Failure) String() string {
	hint := ""
	switch {
	case errors.Is(f.Err, syscall.EIO):
		hint = "; the kernel keeps this interrupt where it is"
	case errors.Is(f.Err, fs.ErrPermission), errors.Is(f.Err, syscall.EROFS):
		hint = "; be root, outside of a container"
	}
	return fmt.Sprintf("/%s: %v%s", f.File, cause(f.Err), hint)
}

// Apply writes the new values. Old ones are kept first; those that an earlier Apply
// has kept stay as they are, so that Undo leads to before both. The error is that
// nothing was done, since the old values could not be kept.
func (s Store) Apply(changes []Change) ([]Failure, error) {
	kept, err := s.load()
	if err != nil {
		return nil, err
	}
	added := map[string]bool{}
	for _, c := range changes {
		if _, known := kept.Old[c.File]; !known {
			kept.Old[c.File] = c.Old
			added[c.File] = true
		}
	}
	if err := s.save(kept); err != nil {
		return nil, fmt.Errorf("the old values cannot be kept, so nothing is changed: %w", err)
	}
	var failures []Failure
	for _, c := range changes {
		if err := s.write(c.File, c.New); err != nil {
			failures = append(failures, Failure{c.File, err})
			if added[c.File] {
				delete(kept.Old, c.File)
			}
		}
	}
	if len(failures) > 0 {
		return failures, s.save(kept)
	}
	return nil, nil
}

// Undo writes the old values back, and returns what it changed. Those that it cannot
// write stay kept. A card that is gone has nothing to take back.
func (s Store) Undo() ([]Change, []Failure, error) {
	kept, err := s.load()
	if err != nil {
		return nil, nil, err
	}
	var changes []Change
	var failures []Failure
	for _, file := range slices.Sorted(maps.Keys(kept.Old)) {
		now, _ := os.ReadFile(filepath.Join(s.Root, file))
		switch err := s.write(file, kept.Old[file]); {
		case err == nil:
			changes = append(changes, Change{File: file, Old: strings.TrimSpace(string(now)), New: kept.Old[file]})
		case !errors.Is(err, fs.ErrNotExist):
			failures = append(failures, Failure{file, err})
			continue
		}
		delete(kept.Old, file)
	}
	return changes, failures, s.save(kept)
}

// ours are the files that a plan writes. A state file that names others was not
// written here, and is not followed: root may read it where a service writes.
var ours = regexp.MustCompile(`^(proc/irq/\d+/smp_affinity_list|proc/sys/net/core/rps_sock_flow_entries|` +
	`sys/class/net/[^/]*[^/.][^/]*/(queues/(rx-\d+/(rps_cpus|rps_flow_cnt)|tx-\d+/xps_cpus)|device/channels/\d+/cpu))$`)

// load reads what is kept; nothing, if that is from before the machine was started.
func (s Store) load() (state, error) {
	kept := state{Boot: s.boot(), Old: map[string]string{}}
	text, err := os.ReadFile(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return kept, nil
	}
	if err != nil {
		return kept, fmt.Errorf("old values: %w", err)
	}
	var found state
	if err := json.Unmarshal(text, &found); err != nil {
		return kept, fmt.Errorf("old values: %s is not as sluice tune writes it: %v; take it away if nothing is to be undone", s.Path, err)
	}
	for file := range found.Old {
		if !ours.MatchString(file) {
			return kept, fmt.Errorf("old values: %s names %q, which sluice tune does not write; take it away if nothing is to be undone", s.Path, file)
		}
	}
	if found.Boot == kept.Boot && found.Old != nil {
		kept.Old = found.Old
	}
	return kept, nil
}

// boot names the time since the machine was started; empty if the kernel does not.
func (s Store) boot() string {
	text, _ := os.ReadFile(filepath.Join(s.Root, "proc/sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(text))
}

// save writes what is kept, as a whole; nothing kept is no file.
func (s Store) save(kept state) error {
	if len(kept.Old) == 0 {
		if err := os.Remove(s.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.MarshalIndent(kept, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.Path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.Path), ".tune-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // once it has its name there is nothing to remove
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), s.Path)
}

// write gives a file of the kernel a value, in one call. It makes none.
func (s Store) write(file, value string) error {
	f, err := os.OpenFile(filepath.Join(s.Root, file), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value + "\n")
	return errors.Join(err, f.Close())
}

// cause is an error without the name of its file, which stands beside it.
func cause(err error) error {
	if in := (*fs.PathError)(nil); errors.As(err, &in) {
		return in.Err
	}
	return err
}
