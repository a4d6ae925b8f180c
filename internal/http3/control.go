package http3

import (
	"errors"
	"io"

	"github.com/quic-go/quic-go"
)

// Types of streams that go one way (RFC 9114 6.2, RFC 9204 4.2).
const (
	streamControl = 0x0
	streamPush    = 0x1
	streamEncoder = 0x2
	streamDecoder = 0x3
)

// Settings (RFC 9114 7.2.4.1, RFC 9204 5, RFC 9220 3).
const (
	settingTable   = 0x1
	settingHead    = 0x6
	settingBlocked = 0x7
	settingConnect = 0x8
)

const (
	// maxSettings is how many bytes SETTINGS may have: a hundred settings.
	maxSettings = 1 << 10

	// maxControl is how many bytes a frame may have on the control stream whose
	// content counts.
	maxControl = 64
)

// appendGreeting writes what our control stream begins with.
func appendGreeting(dst []byte, cfg *Config) []byte {
	dst = appendVarint(dst, streamControl)
	var s []byte
	for _, one := range [...][2]uint64{{settingTable, 0}, {settingHead, uint64(cfg.Head)}, {settingBlocked, 0}, {settingConnect, 1}} {
		s = appendVarint(appendVarint(s, one[0]), one[1])
	}
	return append(appendFrame(dst, frameSettings, len(s)), s...)
}

// critical reads a stream that carries no request. It is a goroutine, and ends with
// the stream.
func (c *Conn) critical(q *quic.ReceiveStream) {
	defer c.requests.Done()
	defer q.ReleaseStreamCredit()
	defer c.contain()
	from := newSource(q)
	kind, err := from.varint()
	if err != nil {
		return
	}
	switch kind {
	case streamControl, streamEncoder, streamDecoder:
		if c.once(kind) {
			err = c.readCritical(kind, from)
		} else {
			err = errSecondStream
		}
	case streamPush:
		err = errPushStream
	default:
		q.CancelRead(quic.StreamErrorCode(StreamCreationError)) // RFC 9114 6.2
		if c.bear(strangeStream) {
			return
		}
		err = errLoad
	}
	var f *Fault
	if errors.As(err, &f) {
		c.lose(f.Code, f.Rule)
	}
}

// once notes that there is a stream of this kind; false: there was one.
func (c *Conn) once(kind uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.kinds
	c.kinds |= 1 << kind
	return before != c.kinds
}

// readCritical reads a stream whose end would be the connection's.
func (c *Conn) readCritical(kind uint64, from *source) (err error) {
	switch kind {
	case streamControl:
		err = c.readControl(from)
	case streamEncoder:
		err = c.readEncoder(from)
	case streamDecoder:
		err = c.readDecoder(from)
	}
	var reset *quic.StreamError
	if err == io.EOF || errors.As(err, &reset) {
		return errCritical
	}
	return err
}

// readControl reads the frames that are about the connection.
func (c *Conn) readControl(from *source) error {
	h, err := from.frame()
	switch {
	case err != nil:
		return err
	case h.kind != frameSettings:
		return errNoSettings
	case h.length > maxSettings:
		return errLoad
	}
	b, err := from.whole(int(h.length))
	if err != nil {
		return err
	}
	if f := checkSettings(b); f != nil {
		return f
	}
	ids := pushIDs{away: maxVarint}
	for {
		if h, err = from.frame(); err != nil {
			return err
		}
		switch h.kind {
		case frameMaxPushID, frameGoAway, frameCancelPush:
			if !c.bear(1) {
				return errLoad
			}
			err = ids.read(from, h)
		case framePriority:
			err = c.readPriority(from, h)
		case framePushPriority:
			err = errPushID
		default:
			if known(h.kind) {
				return errUnexpected
			}
			err = c.pass(from, h)
		}
		if err != nil {
			return err
		}
	}
}

// pushIDs are the last that frames have named.
type pushIDs struct {
	most uint64 // by MAX_PUSH_ID
	away uint64 // by GOAWAY
}

// read reads a frame that holds the number of a push: there is none that could be
// cancelled, and none is refused by GOAWAY.
func (p *pushIDs) read(from *source, h frameHead) error {
	if h.length > maxControl {
		return errFrame
	}
	b, err := from.whole(int(h.length))
	if err != nil {
		return err
	}
	id, n := readVarint(b)
	switch {
	case n == 0 || n != len(b):
		return errFrame
	case h.kind == frameCancelPush, h.kind == frameMaxPushID && id < p.most, h.kind == frameGoAway && id > p.away:
		return errPushID
	case h.kind == frameMaxPushID:
		p.most = id
	case h.kind == frameGoAway:
		p.away = id
	}
	return nil
}

// checkSettings looks for faults in SETTINGS. None of them changes what we do: we
// use no dynamic table, and answers are not shortened to a limit (RFC 9114 4.2.2).
func checkSettings(b []byte) *Fault {
	seen := map[uint64]bool{}
	for len(b) > 0 {
		id, n := readVarint(b)
		value, m := readVarint(b[n:])
		switch {
		case n == 0 || m == 0:
			return errFrame
		case seen[id], 2 <= id && id <= 5, id == settingConnect && value > 1:
			return errSettings
		}
		seen[id] = true
		b = b[n+m:]
	}
	return nil
}

// readEncoder reads what the client would put into a dynamic table: nothing but its
// room, which is none (RFC 9204 4.3).
func (c *Conn) readEncoder(from *source) error {
	const roomZero = 0x20
	for from.have(1) {
		if from.b[from.r] != roomZero {
			return errEncoder
		}
		from.r++
		if !c.bear(1) {
			return errLoad
		}
	}
	return from.err
}

// mostOfNumber is how many bytes a number may have that stands on QPACK's streams: of
// 62 bits, and its first.
const mostOfNumber = 10

// readDecoder reads what the client says of field sections: it may only have given up
// streams (RFC 9204 4.4.2).
func (c *Conn) readDecoder(from *source) error {
	for from.have(1) {
		first := from.b[from.r]
		from.r++
		if first&0xc0 != 0x40 {
			return errDecoder
		}
		n := 1
		for more := first&0x3f == 0x3f; more; n++ {
			if !from.have(1) {
				return from.err
			}
			more = from.b[from.r]&0x80 != 0
			from.r++
			if n == mostOfNumber {
				return errDecoder
			}
		}
		if !c.bear(1) {
			return errLoad
		}
	}
	return from.err
}
