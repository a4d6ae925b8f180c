package segment

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Errors of Open, wrapped with what was found and what was wanted.
var (
	ErrNotSegment = errors.New("not a segment")
	ErrVersion    = errors.New("segment of another version")
	ErrLayout     = errors.New("segment of another layout")
)

// The size never changes, so that no process meets SIGBUS beyond a new end.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Segment is the mapping of one process. Its methods may be called from any
// goroutine; who may write what they point to is said at the types.
type Segment struct {
	file  *os.File // immutable
	mem   []byte   // immutable until Close
	shape Shape    // immutable
	at    offsets  // immutable

	mu sync.Mutex // guards the server directory within this process
}

// Create makes a new segment of the given shape and maps it. All figures are 0.
// It fails if the shape is out of range or the kernel refuses a memfd.
func Create(shape Shape) (*Segment, error) {
	if err := shape.check(); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("sluice", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("segment: memfd_create: %w", err)
	}
	file := os.NewFile(uintptr(fd), "memfd:sluice")
	size := shape.offsets().size
	if err := seal(fd, size); err != nil {
		file.Close()
		return nil, err
	}
	s, err := mapped(file, shape)
	if err != nil {
		file.Close()
		return nil, err
	}
	*s.header() = header{
		Magic: Magic, Version: Version, Layout: layoutHash(),
		Workers: uint64(shape.Workers), Loops: uint64(shape.Loops), Servers: uint64(shape.Servers),
		Size: uint64(size),
	}
	return s, nil
}

// seal gives the memfd its size for good.
func seal(fd, size int) error {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return fmt.Errorf("segment: size %d: %w", size, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("segment: seal: %w", err)
	}
	return nil
}

// Open maps the segment behind fd, which another process made and passed on. On
// success the Segment owns fd and Close closes it; on an error fd is left as it
// was. The error wraps ErrNotSegment, ErrVersion or ErrLayout if the segment
// cannot be shared with this program.
func Open(fd int) (*Segment, error) {
	h, err := readHeader(fd)
	if err != nil {
		return nil, fmt.Errorf("segment: descriptor %d: %w", fd, err)
	}
	shape, err := h.verify()
	if err != nil {
		return nil, fmt.Errorf("segment: descriptor %d: %w", fd, err)
	}
	unix.CloseOnExec(fd)
	return mapped(os.NewFile(uintptr(fd), "memfd:sluice"), shape)
}

// readHeader reads the header by pread, before anything is known of the size.
func readHeader(fd int) (*header, error) {
	got, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: it has no seals (%w)", ErrNotSegment, err)
	}
	if got&seals != seals {
		return nil, fmt.Errorf("%w: its size is not sealed", ErrNotSegment)
	}
	var h header
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))
	n, err := unix.Pread(fd, raw, 0)
	if err != nil {
		return nil, err
	}
	if n < len(raw) || h.Magic != Magic {
		return nil, fmt.Errorf("%w: it does not begin with the magic number", ErrNotSegment)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if uint64(st.Size) != h.Size {
		return nil, fmt.Errorf("%w: %d bytes long, its header says %d", ErrNotSegment, st.Size, h.Size)
	}
	return &h, nil
}

// verify compares the header with this program and gives the shape.
func (h *header) verify() (Shape, error) {
	if h.Version != Version {
		return Shape{}, fmt.Errorf("%w: %d, this program needs %d", ErrVersion, h.Version, Version)
	}
	if want := layoutHash(); h.Layout != want {
		return Shape{}, fmt.Errorf("%w: %016x, this program needs %016x", ErrLayout, h.Layout, want)
	}
	shape := Shape{Workers: int(h.Workers), Loops: int(h.Loops), Servers: int(h.Servers)}
	if err := shape.check(); err != nil {
		return Shape{}, fmt.Errorf("%w: %w", ErrLayout, err)
	}
	if want := shape.offsets().size; h.Size != uint64(want) {
		return Shape{}, fmt.Errorf("%w: %d bytes, its shape needs %d", ErrLayout, h.Size, want)
	}
	return shape, nil
}

func mapped(file *os.File, shape Shape) (*Segment, error) {
	at := shape.offsets()
	mem, err := unix.Mmap(int(file.Fd()), 0, at.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("segment: mmap %d bytes: %w", at.size, err)
	}
	// Huge pages would make the sparse memory dense. A kernel without them refuses
	// the advice, which is as good.
	_ = unix.Madvise(mem, unix.MADV_NOHUGEPAGE)
	return &Segment{file: file, mem: mem, shape: shape, at: at}, nil
}

// File is the memfd, to be passed to a worker. The Segment keeps owning it.
func (s *Segment) File() *os.File { return s.file }

// FD is the number of the memfd in this process.
func (s *Segment) FD() int { return int(s.file.Fd()) }

// Shape is what the segment was made for.
func (s *Segment) Shape() Shape { return s.shape }

// Close unmaps the segment and closes the memfd. What the accessors returned must
// not be used afterwards.
func (s *Segment) Close() error {
	mem := s.mem
	s.mem = nil
	return errors.Join(unix.Munmap(mem), s.file.Close())
}

// Worker is the description of worker i. An index beyond the shape panics, here
// and below.
func (s *Segment) Worker(i int) *WorkerStats {
	inRange("worker", i, s.shape.Workers)
	return place[WorkerStats](s, s.at.workers+i*workerStride)
}

// Loop is the figures of one loop. The loop should touch them first, on its own
// thread: the kernel takes each page from the node of the first touch.
func (s *Segment) Loop(worker, loop int) *LoopStats {
	return place[LoopStats](s, s.loopAt(worker, loop))
}

// Server is one loop's figures of the server in the given slot.
func (s *Segment) Server(worker, loop, slot int) *ServerStats {
	inRange("server slot", slot, s.shape.Servers)
	return place[ServerStats](s, s.loopAt(worker, loop)+loopStride+slot*serverStride)
}

// Gate is the gate of the server in the given slot.
func (s *Segment) Gate(slot int) *Gate {
	inRange("server slot", slot, s.shape.Servers)
	return place[Gate](s, s.at.gates+slot*gateStride)
}

// Home is where the server in the given slot runs.
func (s *Segment) Home(slot int) *Home {
	inRange("server slot", slot, s.shape.Servers)
	return place[Home](s, s.at.homes+slot*homeStride)
}

// Learned is what was learned of the server in the given slot.
func (s *Segment) Learned(slot int) *Learned {
	inRange("server slot", slot, s.shape.Servers)
	return place[Learned](s, s.at.learned+slot*learnStride)
}

// Line is a worker's figures of the requests that it holds for the server in the
// given slot.
func (s *Segment) Line(worker, slot int) *LineStats {
	inRange("worker", worker, s.shape.Workers)
	inRange("server slot", slot, s.shape.Servers)
	return place[LineStats](s, s.at.lines+worker*s.at.line+slot*lineStride)
}

func (s *Segment) header() *header { return place[header](s, 0) }

func (s *Segment) entry(slot int) *serverEntry {
	return place[serverEntry](s, s.at.directory+slot*entryStride)
}

func (s *Segment) loopAt(worker, loop int) int {
	inRange("worker", worker, s.shape.Workers)
	inRange("loop", loop, s.shape.Loops)
	return s.at.loops + (worker*s.shape.Loops+loop)*s.at.loop
}

// place is the one spot where bytes of the mapping become a struct. The offset is
// a multiple of a cache line, so every field is aligned.
func place[T any](s *Segment, offset int) *T {
	return (*T)(unsafe.Pointer(&s.mem[offset]))
}

func inRange(what string, i, n int) {
	if i < 0 || i >= n {
		panic(fmt.Sprintf("segment: %s %d of %d", what, i, n))
	}
}
