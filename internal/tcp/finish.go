package tcp

import (
	"time"

	"sluice/internal/accesslog"
	"sluice/internal/segment"
	"sluice/internal/tunnel"
)

// Who is to blame, in the log.
const (
	partyClient = "client"
	partyServer = "server"
	partySluice = "sluice"
)

// statuses are what the log says of connections that came to nothing: the status that a
// request would have got. One that became a tunnel has 200, however it ended.
var statuses = map[segment.Reason]int{
	segment.BadRequest: 400, segment.NoRoute: 404, segment.ClientTimeout: 408, segment.ClientGone: 499,
	segment.ConnectFailed: 502, segment.TLSFailed: 502, segment.NoServer: 503, segment.ConnectTimeout: 504,
}

// farewell is how long what a client still sends is thrown away, so that it can read why
// it is refused.
const farewell = time.Second

// refuse ends a link that came to no tunnel.
func (l *link) refuse(party, phase string, why segment.Reason, err error) {
	l.s.stats.TunnelEnds[segment.TunnelRefused].Inc()
	if l.said {
		l.conn.Linger(farewell)
	} else {
		l.conn.Close()
	}
	l.over(&accesslog.Entry{Status: statuses[why], Party: party, Phase: phase, Reason: segment.ReasonNames[why], Err: err})
}

// Moved counts bytes that have gone through the tunnel.
func (l *link) Moved(up bool, n int) {
	stats := l.s.pool.Stats(l.server.State)
	if up {
		l.s.stats.BytesIn.Add(uint64(n))
		stats.BytesOut.Add(uint64(n))
	} else {
		l.s.stats.BytesOut.Add(uint64(n))
		stats.BytesIn.Add(uint64(n))
	}
}

// blamed says whose connection ended a tunnel before its time.
var blamed = map[segment.TunnelEnd]string{
	segment.TunnelClientFailed: partyClient, segment.TunnelServerFailed: partyServer,
	segment.TunnelIdle: partyClient, segment.TunnelStalled: partyClient, segment.TunnelStopped: partySluice,
}

// Ended is step 5.
func (l *link) Ended(t *tunnel.Tunnel, e tunnel.Ending) {
	t.Close(e)
	l.s.pool.Discard(l.backend)
	line := &accesslog.Entry{Status: 200, BytesIn: e.Up, BytesOut: e.Down}
	if party := blamed[e.Why]; party != "" {
		line.Party, line.Phase, line.Reason = party, "tunnel", segment.TunnelEndNames[e.Why]
		line.Err = e.Err
	}
	l.over(line)
}

// over is the end of a link, whose connection is closed.
func (l *link) over(line *accesslog.Entry) {
	s := l.s
	s.stats.Connections.Dec()
	if l.entered {
		l.as.open.Add(-1)
	}
	if s.log == nil {
		return
	}
	e := &s.entry
	*e = *line
	lasted := time.Duration(s.exec.Now() - l.began)
	e.Wall, e.TotalTime = time.Now().Add(-lasted).UnixNano(), lasted
	e.Client, e.Listener, e.Host = l.peer, l.as.name, l.name
	e.Proto, e.Scheme = accesslog.ProtoTCP, schemeTCP
	e.Node, e.Worker, e.Loop = s.place.Node, s.place.Worker, s.place.Loop
	e.ConnectTime, e.Retries = l.connect, l.retries
	if l.secured != nil {
		e.Scheme, e.TLS = schemeTLS, l.secured
	}
	if l.farm != nil {
		e.Farm = l.farm.Name
	}
	if l.server != nil {
		e.Server = l.server.URL
	}
	s.log.Write(e)
}

var schemeTCP, schemeTLS = []byte("tcp"), []byte("tls")

// Abandon closes the connections of a link whose task has panicked.
func (l *link) Abandon() {
	delete(l.s.waiting, l)
	l.conn.Close()
	if l.backend != nil {
		l.s.pool.Discard(l.backend)
	}
	l.over(&accesslog.Entry{Status: 500, Party: partySluice, Phase: "tunnel", Reason: segment.ReasonNames[segment.Internal]})
}
