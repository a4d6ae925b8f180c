package keyring

import (
	"maps"
	"os"
	"syscall"
	"time"
)

// stamp tells two states of a file apart without its content. The zero stamp is that of
// no file. The inode is in it since renewed certificates often come by a rename, or by a
// link that points elsewhere.
type stamp struct {
	modified time.Time
	size     int64
	inode    uint64
}

func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}
	}
	s := stamp{modified: info.ModTime(), size: info.Size()}
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = system.Ino
	}
	return s
}

// note remembers a file's stamp before it is read, so that a change meanwhile is seen.
func (r *reader) note(file string) {
	if _, known := r.ring.files[file]; !known {
		r.ring.files[file] = stampOf(file)
	}
}

// look gives the files' stamps as they are now.
func (r *Ring) look() map[string]stamp {
	now := make(map[string]stamp, len(r.files))
	for file := range r.files {
		now[file] = stampOf(file)
	}
	return now
}

// Watcher tells when the files of a ring should be read again. It looks whenever it is
// asked. One goroutine owns it.
type Watcher struct {
	of    *Ring
	last  map[string]stamp // at the last look
	tried map[string]stamp // when they were last found changed
}

// Changed says whether the files of ring are others than when it was read, and have been
// so since the last look: a certificate and its key are written one after the other. What
// cannot be read is told once, until it changes again.
func (w *Watcher) Changed(ring *Ring) bool {
	now := ring.look()
	settled := w.of == ring && maps.Equal(now, w.last)
	if w.of != ring {
		w.tried = nil // what was tried was for another, which may have been given up since
	}
	w.of, w.last = ring, now
	if maps.Equal(now, ring.files) || !settled || maps.Equal(now, w.tried) {
		return false
	}
	w.tried = now
	return true
}
