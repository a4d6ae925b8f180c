package spec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxBody bounds one message, in bytes. A route is some 100 bytes of JSON: this
	// is a hundred thousand of them.
	maxBody = 16 << 20

	// maxDescriptors bounds the sockets and bells of one message: 64 listeners on 256
	// loops, for TCP and for QUIC, and a bell for each of 64 workers.
	maxDescriptors = 2*64*256 + 64

	// chunkDescriptors are passed by one sendmsg. The kernel allows 253
	// (SCM_MAX_FD, include/net/scm.h).
	chunkDescriptors = 250

	// headerBytes: "SLC", the version, length of the body, number of descriptors.
	headerBytes = 3 + 1 + 4 + 4
)

// Conn carries messages between the supervisor and one worker, over a stream
// socket of the Unix domain. On the wire a message is
//
//	header | body (JSON) | one byte per chunk of descriptors, which carries them by SCM_RIGHTS
//
// Descriptors come last and on bytes of their own, because the kernel ends a
// read at the border of such a message (unix(7)): so the reader always knows
// which bytes may bring descriptors.
type Conn struct {
	socket *net.UnixConn

	sending sync.Mutex // one message at a time; the socket's reader needs no lock: there is one
}

// Pair makes the two ends of a connection: ours to use, theirs to be inherited by
// a worker, which opens it with Open. The caller closes both.
func Pair() (ours *Conn, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("spec: socketpair: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "control")
	if ours, err = Open(fds[0]); err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// Open takes over descriptor fd, one end of a connection. The descriptor belongs
// to the Conn, or is closed if there is an error.
func Open(fd int) (*Conn, error) {
	file := os.NewFile(uintptr(fd), "control")
	if file == nil {
		return nil, fmt.Errorf("spec: control socket: descriptor %d is not valid", fd)
	}
	defer file.Close()
	conn, err := net.FileConn(file) // a duplicate, close-on-exec and non-blocking
	if err != nil {
		return nil, fmt.Errorf("spec: control socket: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("spec: control socket: descriptor %d is a %T, want a Unix socket", fd, conn)
	}
	return &Conn{socket: socket}, nil
}

// Send sends m whole. Descriptors named in m.Spec must stay open until it returns;
// they remain the caller's. Several goroutines may call it.
func (c *Conn) Send(m *Message) error {
	body, descriptors, err := encode(m)
	if err != nil {
		return err
	}
	frame := make([]byte, 0, headerBytes+len(body))
	frame = append(frame, 'S', 'L', 'C', Version)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(descriptors)))
	frame = append(frame, body...)

	c.sending.Lock()
	defer c.sending.Unlock()
	if _, err := c.socket.Write(frame); err != nil {
		return fmt.Errorf("spec: send %s: %w", m.Kind, err)
	}
	return c.sendDescriptors(m.Kind, descriptors)
}

func (c *Conn) sendDescriptors(kind Kind, descriptors []int) error {
	for len(descriptors) > 0 {
		n := min(len(descriptors), chunkDescriptors)
		// One byte: it goes whole or not at all, so the rights are never sent twice.
		if _, _, err := c.socket.WriteMsgUnix([]byte{0}, unix.UnixRights(descriptors[:n]...), nil); err != nil {
			return fmt.Errorf("spec: send %s: descriptors: %w", kind, err)
		}
		descriptors = descriptors[n:]
	}
	return nil
}

// Receive waits for the next message. Its descriptors belong to the caller and
// are close-on-exec. io.EOF says that the other side is gone; after any error the
// connection is of no more use. One goroutine calls it.
func (c *Conn) Receive() (*Message, error) {
	var header [headerBytes]byte
	if _, err := io.ReadFull(c.socket, header[:]); err != nil {
		return nil, received("header", err)
	}
	length, count, err := parseHeader(header[:])
	if err != nil {
		return nil, err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(c.socket, body); err != nil {
		return nil, received("body", cutShort(err))
	}
	descriptors, err := c.receiveDescriptors(count)
	if err != nil {
		return nil, received("descriptors", cutShort(err))
	}
	m, err := decode(body, descriptors)
	if err != nil {
		closeAll(descriptors)
		return nil, err
	}
	return m, nil
}

func parseHeader(h []byte) (length, descriptors int, err error) {
	if string(h[:3]) != "SLC" {
		return 0, 0, fmt.Errorf("spec: message begins with %q: this is not a control socket of Sluice", h[:3])
	}
	if h[3] != Version {
		return 0, 0, fmt.Errorf("spec: the other side speaks version %d of the protocol, this one version %d", h[3], Version)
	}
	length, descriptors = int(binary.BigEndian.Uint32(h[4:])), int(binary.BigEndian.Uint32(h[8:]))
	if length > maxBody || descriptors > maxDescriptors {
		return 0, 0, fmt.Errorf("spec: message of %d bytes and %d descriptors, limits are %d and %d",
			length, descriptors, maxBody, maxDescriptors)
	}
	return length, descriptors, nil
}

// receiveDescriptors reads count descriptors. On an error it has closed what came.
func (c *Conn) receiveDescriptors(count int) (descriptors []int, err error) {
	control := make([]byte, unix.CmsgSpace(4*chunkDescriptors))
	var data [1]byte
	for len(descriptors) < count && err == nil {
		var got []int
		_, controlBytes, flags, _, readErr := c.socket.ReadMsgUnix(data[:], control)
		if got, err = rights(control[:controlBytes]); err == nil {
			err = chunkFault(len(got), flags, readErr)
		}
		descriptors = append(descriptors, got...)
	}
	if err == nil && len(descriptors) > count {
		err = fmt.Errorf("%d came, %d were announced", len(descriptors), count)
	}
	if err != nil {
		closeAll(descriptors)
		return nil, err
	}
	return descriptors, nil
}

// chunkFault says what is wrong with one read of descriptors.
func chunkFault(descriptors, flags int, err error) error {
	switch {
	case err != nil:
		return err
	case flags&unix.MSG_CTRUNC != 0:
		// The kernel drops descriptors that find no free number here: the limit on open files.
		return errors.New("some were lost: too many open files in this process (RLIMIT_NOFILE)")
	case descriptors == 0:
		return errors.New("a chunk brought none")
	}
	return nil
}

// rights returns the descriptors in control messages.
func rights(control []byte) ([]int, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return all, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

// received gives an error of Receive its context. An end between two messages is
// plain io.EOF; so is a reset, which says that the other side went without having
// read all that was sent to it.
func received(part string, err error) error {
	if part == "header" && (err == io.EOF || errors.Is(err, unix.ECONNRESET)) {
		return io.EOF
	}
	return fmt.Errorf("spec: receive %s: %w", part, err)
}

// cutShort: an end inside a message is not the end of the conversation.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// SetSendLimit makes a Send fail that is not through at time t. The zero time
// takes the limit away.
func (c *Conn) SetSendLimit(t time.Time) error { return c.socket.SetWriteDeadline(t) }

// Close ends the connection, and a Send or Receive that waits.
func (c *Conn) Close() error { return c.socket.Close() }

func closeAll(descriptors []int) {
	for _, fd := range descriptors {
		unix.Close(fd)
	}
}
