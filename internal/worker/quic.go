package worker

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/http3"
	"sluice/internal/proxy"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/tlsconn"
	"sluice/internal/tlsterm"
)

// porch is a listener's socket for QUIC on one loop. Loop only.
type porch struct {
	lane   *lane
	as     *entrance
	fd     int          // the socket, as the spec has brought it
	cookie uint64       // by which the kernel tells it from all others (SO_COOKIE, socket(7))
	socket *net.UDPConn // a duplicate of it
	server *http3.Server
}

// porches are those of a worker, for its end.
type porches struct {
	mu   sync.Mutex
	open map[*http3.Server]struct{}
}

func (ps *porches) add(s *http3.Server) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.open[s] = struct{}{}
}

func (ps *porches) remove(s *http3.Server) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.open, s)
}

// close ends all connections at once.
func (ps *porches) close() {
	ps.mu.Lock()
	servers := slices.Collect(maps.Keys(ps.open))
	ps.mu.Unlock()
	for _, s := range servers {
		s.Close()
	}
}

// applyQUIC has the sockets of s served, and no others. Loop only.
func (l *lane) applyQUIC(s *spec.Spec, entrances []*entrance) {
	kept := map[int]bool{}
	for i, ln := range s.Listeners {
		if len(ln.Packets) == 0 || entrances[i].tls == nil {
			continue
		}
		fd, as := ln.Packets[l.index], entrances[i]
		kept[fd] = true
		if p := l.porches[fd]; p != nil {
			p.renew(s, as)
			continue
		}
		p, err := l.revive(s, fd, as)
		if p == nil && err == nil {
			p, err = l.receive(s, ln, fd, as)
		}
		if err != nil {
			slog.Error("a socket for HTTP/3 is not served", "listener", ln.Name, "loop", l.index, "error", err)
			continue
		}
		l.porches[fd] = p
	}
	for fd, p := range l.porches {
		if !kept[fd] {
			delete(l.porches, fd)
			p.retire(time.Duration(s.Config.Timeouts.Drain))
		}
	}
}

// revive serves the socket fd again if that has not ended since a configuration left it
// out: a second server would get some of the packets of its connections. nil: it has.
func (l *lane) revive(s *spec.Spec, fd int, as *entrance) (*porch, error) {
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt SO_COOKIE", err)
	}
	p := l.retiring[cookie]
	if p == nil || !p.server.Revive() {
		return nil, nil
	}
	delete(l.retiring, cookie)
	unix.Close(p.fd)
	p.fd = fd
	p.renew(s, as)
	return p, nil
}

// receive serves the socket fd.
func (l *lane) receive(s *spec.Spec, ln spec.Listener, fd int, as *entrance) (*porch, error) {
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl F_DUPFD_CLOEXEC", err)
	}
	file := os.NewFile(uintptr(duplicate), "quic")
	conn, err := net.FilePacketConn(file) // another duplicate
	file.Close()
	if err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.UDPConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("descriptor %d is a %T, want a UDP socket", fd, conn)
	}
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		conn.Close()
		return nil, os.NewSyscallError("getsockopt SO_COOKIE", err)
	}
	p := &porch{lane: l, as: as, fd: fd, cookie: cookie, socket: socket}
	id := http3.Identity{Place: ln.Place + l.index}
	copy(id.Reset[:], s.QUIC.Reset)
	copy(id.Token[:], s.QUIC.Token)
	if p.server, err = http3.Listen(socket, id, l.quicConfig(s, as), l.loop, p, l.unwelcome); err != nil {
		conn.Close()
		return nil, err
	}
	l.allPorches.add(p.server)
	return p, nil
}

// retire ends the service of a socket that is no longer in the configuration: its
// requests come to their end, within a time.
func (p *porch) retire(within time.Duration) {
	l := p.lane
	l.retiring[p.cookie] = p
	p.server.Retire(within, func() {
		l.allPorches.remove(p.server)
		l.loop.Submit(p.forget)
	})
}

// forget lets go of a socket whose service has ended.
func (p *porch) forget() {
	if p.lane.retiring[p.cookie] == p {
		delete(p.lane.retiring, p.cookie)
	}
	p.socket.Close()
	unix.Close(p.fd)
}

// renew gives handshakes that begin from now on other certificates.
func (p *porch) renew(s *spec.Spec, as *entrance) {
	p.as = as
	p.server.Configure(p.lane.quicConfig(s, as))
}

// Connected implements http3.Doorman.
func (p *porch) Connected(c *http3.Conn) http3.Owner {
	stats, state := p.lane.stats, c.TLS()
	stats.Handshakes[versionIndex(state.Version)].Inc()
	if state.DidResume {
		stats.Resumed.Inc()
	}
	if tlsterm.Hybrid(state.CurveID) {
		stats.Hybrid.Inc()
	}
	stats.HTTP3Connections.Inc()
	return (*visit)(p.lane.proxy.Visit(c, c.Peer(), securedHere(&state), p.as.http))
}

// Failed implements http3.Doorman.
func (p *porch) Failed(peer netip.AddrPort, err error) {
	cause := tlsconn.CauseOf(err)
	p.lane.stats.Accepted.Inc()
	p.lane.doorkeeper.shunned[cause].note(&turnedAway{peer: peer, listener: p.as.http.Name, why: err})
	p.lane.stats.Shunned[cause].Inc()
	slog.Debug("a QUIC handshake failed", "listener", p.as.http.Name, "client", peer, "cause", segment.ShunNames[cause], "error", err)
}

// Happened implements http3.Doorman.
func (p *porch) Happened(e http3.Event, n uint64) { p.lane.stats.HTTP3Events[e].Add(n) }

// Every event has its counter.
var _ = [1]struct{}{}[int(http3.EventCount)-int(segment.HTTP3EventCount)]

// visit is a connection of HTTP/3, as its streams' owner.
type visit proxy.Visit

// Accept implements http3.Owner.
func (v *visit) Accept(s *http3.Stream) { (*proxy.Visit)(v).Serve(s, s.Conn().Peer()) }

// Ended implements http3.Owner.
func (v *visit) Ended() { (*proxy.Visit)(v).End() }

// noDescriptor stands for that of a connection of QUIC, which has none.
const noDescriptor = -1

// unwelcome reports whether new connections are to be refused: for what those of TCP are
// refused for (shed.go). Any goroutine.
func (l *lane) unwelcome() bool {
	_, over := l.shedder.bounds.Load().exceeded(l.sounding.Lag(), noDescriptor)
	return over
}

// quicConfig is what connections of a listener may do.
func (l *lane) quicConfig(s *spec.Spec, as *entrance) *http3.Config {
	limits, timeouts := &s.Config.Limits, &s.Config.Timeouts
	return &http3.Config{
		Streams: limits.Streams, Head: int(limits.Head), Line: int(limits.Line), Fields: limits.Fields,
		Window: proxy.UploadWindow, Widest: proxy.WidestUpload, Spare: proxy.SpareUploads,
		Handshake: as.tls.Handshake(), Handshakes: l.shakingLimit(as),
		Header: time.Duration(timeouts.Header), Idle: time.Duration(timeouts.Idle), Rate: int(timeouts.Rate), Parting: drainGrace,
		TLS: as.tls.Config(),
	}
}
