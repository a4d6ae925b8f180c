package proxy

import (
	"errors"
	"time"

	"sluice/internal/admission"
	"sluice/internal/http1"
	"sluice/internal/http2"
	"sluice/internal/message"
	"sluice/internal/reactor"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// exchange is one request and its answer. It is used again for the next. Loop
// only, shared by the task that runs it and the task of its upload.
type exchange struct {
	p    *Proxy
	s    *session
	snap *Snapshot

	// The request, whose slices point into in until the exchange has ended.
	req       message.Request
	in        *buffer
	headBytes int
	body      http1.Body
	spent     int64         // waiting for it before a permit was asked for, ns
	told      bool          // and before that the client was told to send it
	begun     bool          // body has been started: what is left of it is known
	id        [idBytes]byte // X-Request-Id, if it is ours
	reqID     []byte        // that, or a trusted client's
	call      call
	web       web
	trusted   bool     // what the client says about others is believed
	from      *dawdler // its client; nil: not looked for yet

	// The way to a server.
	way        *way   // what the route says
	house      *house // how the farm holds its requests
	permit     admission.Permit
	retryAfter time.Duration // told to a client that is refused for now; 0: it is not

	turns   []*upstream.Rotation // this loop's, by farm
	farm    *upstream.Farm
	server  *upstream.Server
	conn    *upstream.Conn
	how     upstream.How
	tried   upstream.Tried
	tries   int             // sendings beyond the first
	retries int             // of these, to another server
	fresh   bool            // the next try needs a connection of its own
	last    Failure         // of the try before
	out     message.Request // what the server sees of the request; its head alone is of use
	words   []byte          // values of fields that are written anew
	head    []byte          // a head for HTTP/1.1 under construction: of the request, of interim responses, of the answer
	first   []byte          // content that came with the head: held for another try
	upload  upload
	scratch []byte // for a value that does not stand in the request as it is

	// The answer.
	resp      message.Response
	own       message.Response // one that Sluice makes itself
	back      *buffer          // what was read from the server
	answer    http1.Body
	framing   message.Framing // of the answer to the client
	proceeded bool            // the client has been told to send its body
	interims  int             // bytes of the interim heads that came
	status    int             // sent to the client; 0: none yet
	location  string          // where a redirect of our own leads
	close     bool            // the client connection ends with this answer
	linger    bool            // and what the client still sends is read
	cut       bool            // the answer ends with the connection, and is not whole

	failure Failure
	at      times
	sent    int64 // content bytes to the client

	accepts  string // Sec-WebSocket-Accept: a server of HTTP/1.1 must give it, where the key is ours; a client gets it, where the server speaks HTTP/2
	tunneled int64  // bytes from client to server, once the connection is a tunnel
}

// times of an exchange, executor time in ns; 0: it did not come to that. Of
// several tries they tell the last.
type times struct {
	began     int64 // first byte of the head
	head      int64 // its last
	ready     int64 // a permit can be asked for: that, or so much content that is awaited
	joined    int64 // it begins to wait for a permit
	called    int64 // the end of that
	connect   int64 // a connection is asked for
	connected int64 // there it is, or there is none
	requested int64 // the server has the request's last byte
	answered  int64 // first byte of the latest response head
	ended     int64
}

func newExchange(p *Proxy) *exchange {
	x := &exchange{p: p, head: make([]byte, 0, 2048)}
	x.upload.x = x
	x.upload.done = p.exec.NewSignal()
	return x
}

// begin takes a session's next request: n bytes of in are its head (0 if it was
// refused).
func (x *exchange) begin(s *session, in *buffer, n int) {
	p := x.p
	x.s, x.in, x.snap, x.turns = s, in, p.snapshot, p.rotations
	in.r += n
	now := p.exec.Now()
	x.at = times{began: s.began, head: now, ready: now}
	if was := s.paused(); was != nil { // it goes on as it began
		x.snap, x.turns, x.at.head, x.at.ready = was.snap, was.turns, was.head, was.ready
		x.spent, x.told = was.spent, was.told
		x.req.ExpectContinue = x.req.ExpectContinue && !was.told
	} else {
		s.requests++
		p.stats.Requests.Inc()
		p.stats.Active.Inc()
	}
	x.headBytes, x.from = n, nil
	x.body.Start(message.NoBody, 0, 0, nil)
	x.close = !x.req.KeepAlive || p.draining || x.snap.requests > 0 && s.requests >= x.snap.requests
	if x.req.Method == message.CONNECT && s.stream == nil {
		x.close = true // who does not wait for the tunnel sends what another has written: it must not pass for requests (RFC 9931)
	}
}

// run is the life of a request; the numbers are those of the package comment. It
// reports whether the client connection goes on. If the session has paused it then,
// it has only come to step 4.
func (x *exchange) run() (keep bool) {
	if x.wanted() && x.accept() && x.route() && x.admits() && x.collect() && x.hold() && x.prepareBody() && x.forward() {
		switch { // 9
		case x.switched():
			x.tunnel()
		case x.mistakable():
			x.fail(ofServer(errNotSwitched, ReadingResponse))
		default:
			x.deliver()
		}
	}
	if x.s.paused() != nil {
		return true
	}
	if x.failure.failed() {
		x.refuse()
	}
	x.finish() // 10
	return !x.close
}

// wanted reports whether the client still waits. Who has reset its request before its
// turn came would cost a server a connection, and others a permit. One that has been
// paused may have a permit by now, and hears of its client where it waits.
func (x *exchange) wanted() bool {
	if x.s.stream == nil || x.s.paused() != nil || x.s.stream.Fault() == nil {
		return true
	}
	return x.fail(ofClient(x.s.stream.Fault(), Routing))
}

// accept is what is left of step 1 once the codec has approved of the head.
func (x *exchange) accept() bool {
	r := &x.req
	x.identify()
	x.call = readCall(r)
	x.web.begin(r)
	switch {
	case len(x.p.proofs) > 0 && !x.s.secure() && x.prove():
		return false
	case x.s.listener.Redirect != "" && !x.s.secure():
		x.redirect()
		return false
	case r.MaxForwards == 0: // only OPTIONS and TRACE have it
		x.answerHere()
		return false
	case r.MaxForwards > 0:
		r.MaxForwards--
	}
	return true
}

// route is step 2: host and path say which farm.
func (x *exchange) route() bool {
	path := x.req.Target
	for i, c := range path {
		if c == '?' {
			path = path[:i]
			break
		}
	}
	i, route, ok := x.snap.routes.Match(x.req.Host, path)
	if !ok {
		return x.fail(Failure{Party: Client, Phase: Routing, Reason: segment.NoRoute})
	}
	x.farm, x.house, x.way = x.snap.farms[i], &x.snap.houses[i], &x.snap.ways[route]
	// 3 rewrite: fields are written anew in request.go; the target passes as it is.
	return x.startBody()
}

// forward is steps 6 to 8, and step 5 before each other try, as often as the
// request may be sent.
func (x *exchange) forward() bool {
	for {
		if x.borrow() && x.send() && x.await() {
			return true
		}
		if !x.again() || !x.choose() {
			return false
		}
	}
}

// borrow is step 6: a connection to the server.
func (x *exchange) borrow() bool {
	x.at.connect = x.p.exec.Now()
	var err error
	if x.farm.Announces() {
		err = x.borrowOwn()
	} else {
		x.conn, x.how, err = x.p.pool.Borrow(x.server, x.fresh)
	}
	x.at.connected = x.p.exec.Now()
	if err == nil {
		return true
	}
	x.conn = nil
	f := ofConnect(err)
	if f.Party == Backend {
		x.server.Fail(x.p.exec.Now(), time.Duration(x.farm.FailFor))
	}
	return x.fail(f)
}

// send is step 7: the head, and with it the content that has come already; the
// rest follows in a task of its own while the answer is awaited.
func (x *exchange) send() bool {
	stats := x.p.pool.Stats(x.server.State)
	stats.Requests.Inc()
	stats.InFlight.Inc()
	x.cross(&stats.Crossings)
	x.composeRequest()
	x.conn.SetStall(time.Duration(x.farm.Timeouts.Idle))
	n, err := 0, error(nil)
	if stream := x.serverStream(); stream != nil {
		n, err = x.sendOn(stream)
	} else {
		n, err = x.conn.Write(x.encodeRequest())
	}
	stats.BytesOut.Add(uint64(n))
	if cap(x.head) > smallBytes { // a long one is not held for as long as the answer takes
		x.head = nil
	}
	if err != nil {
		return x.fail(ofServer(err, SendingRequest))
	}
	x.at.requested = x.p.exec.Now()
	if !x.body.Done() && !x.req.ExpectContinue { // else when there is leave to (proceed)
		x.upload.start()
	}
	return true
}

// again decides about another try after a failure, and readies it. Whether there
// is a server for it, choose finds out.
func (x *exchange) again() bool {
	f := x.failure
	if !x.resendable(f) {
		return false // finish closes the connection: an upload may be at work on it
	}
	how := x.outcome()
	if x.conn != nil {
		x.dropConn()
	}
	turnedDown := errors.Is(f.Err, http2.ErrUnprocessed)
	if (turnedDown || !f.Again && x.how != upstream.New) && !x.fresh {
		// A kept connection that the server was just closing, or one of HTTP/2 that has
		// carried as many requests as the server likes: not the server's failure.
		x.fresh = true
	} else {
		x.fresh = false
		x.release(how)
		x.tried = x.tried.With(x.server)
		if x.retries++; x.retries > x.farm.Retries {
			return false
		}
	}
	x.last, x.failure = f, none
	return true
}

// resendable reports whether the request may be sent once more (DESIGN 8.4): the
// server cannot have acted on it, or the method is idempotent; and all of it is
// still held.
func (x *exchange) resendable(f Failure) bool {
	switch {
	case f.Party == Client || f.Phase == Routing || f.Phase == Holding:
		return false
	case x.status != 0 || x.upload.started || x.heard():
		return false
	case f.Again:
		return true
	}
	return f.Reason == segment.ServerClosed && x.req.Method.Idempotent()
}

// heard reports whether the server has begun to answer.
func (x *exchange) heard() bool { return x.back != nil && x.back.w > headroom }

// fail notes the first failure; it returns false for the caller to return.
func (x *exchange) fail(f Failure) bool {
	if !x.failure.failed() {
		x.failure = f
	}
	return false
}

// hangup is told when the client resets its connection while its answer is
// awaited: the server need not go on.
type hangup exchange

func (h *hangup) Run() {
	if h.conn != nil {
		h.conn.Abort(errClientGone)
	}
}

var _ reactor.Job = (*hangup)(nil)
