package http2

import (
	"net"

	"sluice/internal/http2/hpack"
	"sluice/internal/reactor"
)

// Client opens connections of one loop to servers. Loop only.
type Client struct {
	exec   reactor.Executor
	cfg    Config
	limits hpack.Limits
	pool   pool
}

// NewClient makes a Client, whose connections all have the same configuration.
func NewClient(exec reactor.Executor, cfg Config) *Client {
	return &Client{exec: exec, cfg: cfg.whole(), limits: cfg.sections()}
}

// LinkOwner is who has opened a connection to a server. Its methods must not park.
type LinkOwner interface {
	// Freed says that there may be more room than before.
	Freed()
	// Ended says that the connection is gone. Its calls are failed; they still want
	// to be closed.
	Ended()
}

// Link is a connection to a server. Loop only.
type Link struct {
	conn
	owner    LinkOwner
	reserved int // calls that have not been sent
}

// Connect begins HTTP/2 on a connection: by ALPN, or by prior knowledge.
func (cl *Client) Connect(wire reactor.Stream, owner LinkOwner) *Link {
	l := &Link{owner: owner, conn: conn{exec: cl.exec, wire: wire, pool: &cl.pool, cfg: &cl.cfg, decoder: hpack.NewDecoder(&cl.limits)}}
	l.side = l
	l.begun, l.asks = true, true
	l.start(nil)
	l.out.b = append(l.out.make(), preface...)
	l.out.b = appendSettings(l.out.b,
		setting{settingPush, 0}, setting{settingWindow, uint32(l.cfg.Window)}, setting{settingHead, uint32(l.cfg.Head)}, setting{settingOldPriority, 1})
	l.credit(0)
	l.out.soon()
	return l
}

// Settled reports whether the server's SETTINGS have come.
func (l *Link) Settled() bool { return l.settled }

// Leaving reports whether no more calls may be made, for ever.
func (l *Link) Leaving() bool { return l.over || l.parting != staying || l.last > streamBits-2 }

// Room is how many more calls may be made.
func (l *Link) Room() int {
	if l.Leaving() {
		return 0
	}
	theirs := int(min(l.peer.streams, streamBits))
	return max(0, min(l.cfg.Streams-l.housed, theirs-l.open)-l.reserved)
}

// Open is how many calls there are.
func (l *Link) Open() int { return l.open + l.reserved }

// Tunnels reports whether the server takes extended CONNECT (RFC 8441). That is
// known once its SETTINGS have come.
func (l *Link) Tunnels() bool { return l.peer.connect }

// Leave ends the connection once its calls have come to their end; no more may be
// made.
func (l *Link) Leave() {
	if l.parting == leaving || l.over {
		return
	}
	l.parting = leaving
	l.left()
}

// Close ends the connection at once.
func (l *Link) Close() { l.lose(net.ErrClosed) }

// prefaced is for servers: what a server sends begins with SETTINGS.
func (l *Link) prefaced([]byte) (int, *Fault) { return 0, errPreface }

// settingOf takes what a server may say.
func (l *Link) settingOf(s setting) *Fault {
	switch {
	case s.id == settingPush && s.value != 0:
		return errPushOn
	case s.id == settingConnect && (s.value > 1 || l.peer.connect && s.value == 0):
		return errConnectOn
	case s.id == settingConnect:
		l.peer.connect = s.value == 1
	}
	return nil
}

// leaving: calls above the last are not looked at; the others are answered.
func (l *Link) leaving(last uint32) {
	l.parting = leaving
	for again := true; again; {
		again = false
		for s := range l.all {
			if s.id > last {
				s.fail(ErrUnprocessed)
				again = true
				break // whoever was told of it may have closed others
			}
		}
	}
	l.left()
}

// left tells the owner of room, or ends the connection with its last call.
func (l *Link) left() {
	if l.over {
		return
	}
	if l.parting != leaving {
		l.owner.Freed()
	} else if l.open+l.reserved == 0 {
		l.leave()
	}
}

func (l *Link) ended() { l.owner.Ended() }

// isReset: a server that has answered may say so that it wants no more of the
// request (RFC 9113 8.1).
func (l *Link) isReset(s *stream, code Code) *Fault {
	if s.ended && code == NoError {
		s.unwanted = true
		s.leave()
		s.Resume()
		return nil
	}
	s.fail(ResetError(code))
	return nil
}

// section takes the head of an answer, or its trailers.
func (l *Link) section(h frameHead, block []byte) *Fault {
	if h.stream%2 == 0 || h.stream > l.last {
		return errServerID
	}
	s := l.find(h.stream)
	if s == nil {
		return l.late(h, block)
	}
	call := s.self.(*Call)
	if !s.headless {
		return l.trailers(s, &call.tail, h, block)
	}
	return call.arrived(h, block)
}

// Call makes a call, to be sent by Send. It fails if there is no room.
func (l *Link) Call() (*Call, error) {
	if l.Room() == 0 {
		return nil, ErrUnprocessed
	}
	l.reserved++
	call := l.pool.getCall()
	call.stream.reset(&l.conn, 0)
	call.headless, call.reserved = true, true
	return call, nil
}
