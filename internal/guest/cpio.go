package guest

import (
	"fmt"
	"io"
)

// Modes of archive entries: file type (inode(7)) and permissions.
const (
	modeProgram   = 0o100755
	modeDirectory = 0o040755
)

// archive writes the kernel's form of cpio, "newc" (initramfs buffer format,
// Documentation/driver-api/early-userspace/buffer-format.rst). The first error
// stays, and is told by close.
type archive struct {
	to      io.Writer
	written int
	entries int
	err     error
}

// add appends an entry. Its directory must be in the archive already.
func (a *archive) add(name string, mode int, content []byte) {
	a.entries++
	links := 1
	if mode == modeDirectory {
		links = 2
	}
	header := [13]int{a.entries, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0}
	text := "070701"
	for _, field := range header {
		text += fmt.Sprintf("%08x", field)
	}
	a.write([]byte(text + name + "\x00"))
	a.pad()
	a.write(content)
	a.pad()
}

// close appends the entry that ends the archive.
func (a *archive) close() error {
	a.add("TRAILER!!!", 0, nil)
	return a.err
}

// pad fills up to a multiple of four bytes.
func (a *archive) pad() {
	a.write(make([]byte, -a.written&3))
}

func (a *archive) write(p []byte) {
	if a.err != nil {
		return
	}
	n, err := a.to.Write(p)
	a.written += n
	a.err = err
}
