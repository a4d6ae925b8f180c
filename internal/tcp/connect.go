package tcp

import (
	"time"

	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// reach is steps 2 and 3: a connection to a server of the farm, each of which is tried
// once, as often as farm.retries says. False: the link is over.
func (l *link) reach() bool {
	s := l.s
	var tried upstream.Tried
	var last error
	preface := l.farm.Announce(nil, l.conn, l.peer, l.name)
	for {
		now := s.exec.Now()
		server, _ := s.rotation(l.farm).Next(now, tried, nil)
		if server == nil {
			l.fail(last)
			return false
		}
		l.server = server
		backend, err := s.pool.Open(server, preface)
		l.connect = time.Duration(s.exec.Now() - now)
		if err == nil {
			server.Succeed()
			l.backend = backend
			return true
		}
		last = err
		if _, ours := upstream.Blame(err); !ours {
			server.Fail(s.exec.Now(), time.Duration(l.farm.FailFor))
		}
		tried = tried.With(server)
		if l.retries++; l.retries > l.farm.Retries {
			l.retries--
			l.fail(last)
			return false
		}
		s.pool.Stats(server.State).Retries.Inc()
	}
}

// fail refuses the link because no server could be reached. nil: there is none.
func (l *link) fail(err error) {
	if err == nil {
		l.refuse(partySluice, "route", segment.NoServer, nil)
		return
	}
	why, ours := upstream.Blame(err)
	party := partyServer
	if ours {
		party = partySluice
	}
	l.refuse(party, "connect", why, err)
}
