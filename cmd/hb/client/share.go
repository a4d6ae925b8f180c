package client

import (
	"errors"
	"sync"
	"time"
)

// session is a connection that carries many requests at once.
type session interface {
	// exchange sends a request and reads its answer. It is unprocessed if the
	// request may go by another connection.
	exchange(r *Request, jar *hostJar, a *Answer) error
	// usable reports whether the connection takes requests.
	usable() bool
	// endedCalmly reports whether it ended, or is ending, without harm to a request.
	endedCalmly() bool
	// end closes the connection; what is under way on it fails.
	end(err error)
}

// shared is a client's connections of protocols with streams, one for each remote.
type shared struct {
	running sync.WaitGroup // goroutines of sessions

	mu     sync.Mutex // guards what follows
	places []*place   // few, so searched in order
}

// place is where the connection to one remote stands.
type place struct {
	remote  string
	session session  // nil: there was none yet
	opening *opening // nil: nobody connects
}

// opening is a connection that is being made, by one for all who wait for it.
type opening struct {
	done chan struct{} // closed at its end
	err  error         // set before that
}

// share is an exchange over the connection that the client's requests share. One
// that is to be expected again may meet the next connection's end as well, for as
// long as an answer may take; but if a connection that was made for it took none at
// all, that is a failure.
func (c *Client) share(r *Request, a *Answer) error {
	if !c.opts.KeepAlive {
		return c.once(r, a)
	}
	for {
		s, fresh, err := c.session(r, a)
		if err != nil {
			return err
		}
		err = s.exchange(r, c.remember(r), a)
		var again unprocessed
		if !errors.As(err, &again) || fresh && !again.useful || time.Since(a.Begin) > c.opts.Timeout {
			return err
		}
		a.Reopened = true
	}
}

// once is an exchange over a connection of its own.
func (c *Client) once(r *Request, a *Answer) error {
	s, err := c.openSession(r, a)
	if err != nil {
		return err
	}
	defer s.end(errDone)
	return s.exchange(r, c.remember(r), a)
}

// session finds the connection for a request, and makes one if there is none that
// takes requests. Fresh says that this call made it.
func (c *Client) session(r *Request, a *Answer) (s session, fresh bool, err error) {
	sh := &c.shared
	sh.mu.Lock()
	p := sh.placeOf(r.remote)
	for {
		if p.session != nil && p.session.usable() {
			defer sh.mu.Unlock()
			return p.session, false, nil
		}
		o := p.opening
		if o == nil {
			break
		}
		sh.mu.Unlock()
		<-o.done
		if o.err != nil {
			return nil, false, o.err
		}
		sh.mu.Lock()
	}
	o := &opening{done: make(chan struct{})}
	p.opening = o
	a.Reopened = a.Reopened || p.session != nil && p.session.endedCalmly()
	sh.mu.Unlock()
	s, o.err = c.openSession(r, a)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if p.opening = nil; o.err == nil {
		p.session = s
	}
	close(o.done)
	return s, true, o.err
}

// placeOf finds the place of a remote. The caller holds mu.
func (sh *shared) placeOf(remote string) *place {
	for _, p := range sh.places {
		if p.remote == remote {
			return p
		}
	}
	p := &place{remote: remote}
	sh.places = append(sh.places, p)
	return p
}

// openSession connects, and begins the protocol.
func (c *Client) openSession(r *Request, a *Answer) (session, error) {
	if c.opts.Protocol == HTTP3 {
		return c.openH3(r, a)
	}
	conn, err := c.connect(r, a)
	if err != nil {
		return nil, err
	}
	return newH2(c, conn), nil
}
