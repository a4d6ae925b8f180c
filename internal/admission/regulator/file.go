package regulator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sluice/internal/admission/limit"
)

const (
	// fileVersion is of the meaning of the state file. Another one is not read.
	fileVersion = 1

	// keepUnused: what was learned of a server that no configuration names is kept so
	// long, as it may come back.
	keepUnused = 30 * 24 * time.Hour

	// keepEntries bounds the file to some 400 KiB, and maxFileBytes what is read.
	keepEntries  = 1000
	maxFileBytes = 4 << 20

	// closeLimit is how long the end waits for a slow file system.
	closeLimit = 2 * time.Second
)

// contents is the state file, as JSON.
type contents struct {
	Version int     `json:"version"`
	Servers []entry `json:"servers"`
}

// entry is what was learned of one server.
type entry struct {
	Farm  string      `json:"farm"`
	URL   string      `json:"url"`
	Saved time.Time   `json:"saved"`
	Kind  limit.Kind  `json:"kind"`
	State limit.State `json:"state"`
}

// identity is the name of a server over restarts.
type identity struct{ farm, url string }

func (e entry) identity() identity { return identity{e.Farm, e.URL} }

// file is the state file. A nil file keeps nothing. Reading at the start is the
// only time that it makes anybody wait: a goroutine of its own writes.
type file struct {
	path string       // immutable
	log  *slog.Logger // immutable

	known map[identity]entry // guarded by the regulator's lock: what was read, and what came since
	fresh map[identity]entry // guarded by the regulator's lock: what came since

	pending chan []entry  // all of fresh; room for one, the newest
	written chan struct{} // closed when the goroutine has ended; nil before it began
	warned  bool          // the writer's: of a fault that lasts
}

// newFile reads the file, if there is a path. What is wrong with it is reported,
// and then there is nothing to be had from it.
func newFile(path string, now time.Time, log *slog.Logger) *file {
	if path == "" {
		return nil
	}
	f := &file{
		path: path, log: log, known: map[identity]entry{}, fresh: map[identity]entry{}, pending: make(chan []entry, 1),
	}
	entries, err := readEntries(path)
	if err != nil {
		log.Warn("what limits had learned cannot be read; they begin anew, and the file is replaced", "error", err)
	}
	for _, e := range entries {
		if now.Sub(e.Saved) < keepUnused {
			f.known[e.identity()] = e
		}
	}
	return f
}

// errIrregular: a pipe would keep its reader waiting, and a device as /dev/null must
// not be replaced by a file.
var errIrregular = errors.New("not a regular file")

// readEntries reads a state file. One that does not exist is empty.
func readEntries(path string) ([]entry, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, errIrregular)
	}
	if err == nil && info.Size() > maxFileBytes {
		err = fmt.Errorf("%s: %d bytes, more than the %d of any state file", path, info.Size(), maxFileBytes)
	}
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c contents
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.Version != fileVersion {
		return nil, fmt.Errorf("%s: version %d, this program knows version %d", path, c.Version, fileVersion)
	}
	return c.Servers, nil
}

// get is what is known of a server; the zero State if nothing is.
func (f *file) get(farm, url string) limit.State {
	if f == nil {
		return limit.State{}
	}
	return f.known[identity{farm, url}].State
}

// put notes what was learned of a server.
func (f *file) put(e entry) {
	if f != nil {
		f.known[e.identity()], f.fresh[e.identity()] = e, e
	}
}

// flush hands all that is new since the start to the writer. It never waits: the
// writer always takes the newest.
func (f *file) flush() {
	if f == nil {
		return
	}
	select {
	case <-f.pending:
	default:
	}
	f.pending <- slices.Collect(maps.Values(f.fresh))
}

// open starts the writer.
func (f *file) open() {
	if f == nil {
		return
	}
	f.written = make(chan struct{})
	go f.write()
}

// close lets the writer end with the last that was flushed, and waits for it, but
// not for a file system that hangs. Nothing may be flushed afterwards.
func (f *file) close() {
	if f == nil {
		return
	}
	close(f.pending)
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-f.written:
	case <-limit.C:
		f.log.Warn("the state file could not be written in time", "path", f.path)
	}
}

// write is the writer's life.
func (f *file) write() {
	defer close(f.written)
	for fresh := range f.pending {
		f.save(fresh)
	}
}

// save writes the file. A fault that lasts is reported once.
func (f *file) save(fresh []entry) {
	err := f.replace(fresh)
	if err != nil && !f.warned {
		f.log.Warn("what limits learn cannot be kept over a restart; make the directory writable, or write state: off", "error", err)
	}
	f.warned = err != nil
}

// replace writes a whole new file beside the old one, and puts it in its place. The
// old one is read first, since another Sluice may keep its servers there too.
func (f *file) replace(fresh []entry) error {
	old, err := readEntries(f.path)
	if errors.Is(err, errIrregular) {
		return err
	}
	if err != nil {
		f.log.Debug("the state file is replaced", "error", err)
	}
	text, err := json.MarshalIndent(contents{fileVersion, merge(old, fresh)}, "", " ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, ".limits-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(append(text, '\n'))
	if err == nil {
		err = temporary.Sync()
	}
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), f.path)
	}
	if err != nil {
		os.Remove(temporary.Name())
	}
	return err
}

// merge joins entries, the newest of each server, and gives up what is too old, or
// too much. The newest come first.
func merge(old, fresh []entry) []entry {
	newest := map[identity]entry{}
	latest := time.Time{}
	for _, e := range slices.Concat(old, fresh) {
		if other, found := newest[e.identity()]; !found || !other.Saved.After(e.Saved) {
			newest[e.identity()] = e
		}
	}
	for _, e := range fresh {
		if e.Saved.After(latest) {
			latest = e.Saved
		}
	}
	all := slices.SortedFunc(maps.Values(newest), func(a, b entry) int {
		return cmp.Or(b.Saved.Compare(a.Saved), cmp.Compare(a.Farm, b.Farm), cmp.Compare(a.URL, b.URL))
	})
	all = slices.DeleteFunc(all, func(e entry) bool { return latest.Sub(e.Saved) >= keepUnused })
	return all[:min(len(all), keepEntries)]
}
