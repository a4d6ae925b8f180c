package http2

import (
	"net"
	"strconv"
	"time"

	"sluice/internal/http1"
	"sluice/internal/http2/hpack"
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// mostInterims heads of a call wait to be asked for, the final one aside.
const mostInterims = 8

// Call is one request to a server and its answer. It is good until Close: then it
// is used for another. Loop only.
type Call struct {
	stream
	method   message.Method
	tunnel   bool // CONNECT: what follows a final head below 300 is no content
	reserved bool // it has not been sent, or not yet

	first, last *answerHead // heads that have come and were not asked for
	present     *answerHead // the last that was
	tail        hpack.Head
	digits      [20]byte // of a number in a field
}

// answerHead is a head that has come.
type answerHead struct {
	next *answerHead
	head hpack.Head
	resp message.Response
}

var (
	nameTE          = []byte("te")
	valueTrailers   = []byte("trailers")
	nameExpect      = []byte("expect")
	valueContinue   = []byte("100-continue")
	nameMaxForwards = []byte("max-forwards")
)

// Link is the connection that it belongs to.
func (k *Call) Link() *Link { return k.c.side.(*Link) }

// Tunnels reports whether the server takes extended CONNECT (RFC 8441). It waits for the
// server's SETTINGS, which say so.
func (k *Call) Tunnels() (bool, error) {
	l := k.Link()
	slowBy := int64(0)
	for !l.settled {
		if err := k.unwritable(); err != nil {
			return false, err
		}
		if l.over {
			return false, ErrUnprocessed
		}
		l.out.crowd = append(l.out.crowd, &k.stream) // woken by what is sent, as the word that they have come
		k.AwaitRoom(0, &slowBy)
	}
	return l.peer.connect, nil
}

// Send sends the request's head: scheme, Host as :authority, the fields that are
// not dropped, and those that HTTP/2 needs instead of HTTP/1's. last says that no
// content follows. It waits while too much else is gathered.
func (k *Call) Send(r *message.Request, last bool) error {
	if err := k.awaitRoom(); err != nil {
		return err
	}
	l := k.Link()
	if !k.reserved || l.over || l.parting != staying {
		return ErrUnprocessed
	}
	k.reserved = false
	l.reserved--
	k.id = l.last + 2
	if l.last == 0 {
		k.id = 1
	}
	l.begin(k.id)
	l.idleBy = 0
	k.sendWindow = l.peer.window
	k.method, k.tunnel = r.Method, r.Method == message.CONNECT
	l.add(&k.stream)
	o := &l.out
	from := o.open()
	o.b = k.appendRequest(o.b, r)
	f := flags(0)
	if last {
		f = endStream
	}
	o.close(&k.stream, from, f)
	k.done = last
	return nil
}

func (k *Call) appendRequest(b []byte, r *message.Request) []byte {
	b = hpack.AppendMethod(b, r.Method, r.MethodName)
	if !k.tunnel || r.Protocol != nil {
		b = hpack.AppendScheme(b, r.Scheme)
		b = hpack.AppendPath(b, r.Target)
	}
	b = hpack.AppendAuthority(b, r.Host)
	if r.Protocol != nil {
		b = hpack.AppendProtocol(b, r.Protocol)
	}
	b = appendFields(b, r.Fields)
	if r.Body == message.Length {
		b = hpack.AppendField(b, message.ContentLength, contentLength, strconv.AppendInt(k.digits[:0], r.ContentLength, 10))
	}
	if r.ExpectContinue {
		b = hpack.AppendField(b, message.Expect, nameExpect, valueContinue)
	}
	if r.Trailers {
		b = hpack.AppendField(b, message.TE, nameTE, valueTrailers)
	}
	if r.MaxForwards >= 0 {
		b = hpack.AppendField(b, message.MaxForwards, nameMaxForwards, strconv.AppendInt(k.digits[:0], int64(r.MaxForwards), 10))
	}
	return b
}

// arrived takes a head.
func (k *Call) arrived(h frameHead, block []byte) *Fault {
	a := k.c.pool.getHead()
	long, f := k.c.decode(block, &a.head)
	switch {
	case f != nil:
	case k.stream.ended:
		f = errClosed
	case long:
		f = errLongHead
	default:
		f = answer(a.head.Fields, h.has(endStream), k.method, &a.resp)
	}
	interim := a.resp.Status < 200
	if f == nil && interim && k.heads >= mostInterims {
		f = errInterims
	}
	if f != nil {
		k.c.pool.putHead(a)
		return f
	}
	if k.last == nil {
		k.first = a
	} else {
		k.last.next = a
	}
	k.last = a
	k.heads++
	if !interim {
		k.headless = false
		k.declared = a.declares(k.tunnel)
	}
	if h.has(endStream) {
		return k.end()
	}
	k.Rouse(false)
	return nil
}

// declares is how much content must follow; -1: it is not known.
func (a *answerHead) declares(tunnel bool) int64 {
	switch r := &a.resp; {
	case tunnel && r.Status < 300, r.Body == message.UntilClose:
		return -1
	case r.Body == message.Length:
		return r.ContentLength
	}
	return 0
}

// answer makes a response of a field section, as http1 makes one of a head. end
// says that no content follows; to is the request's method.
func answer(fs message.Fields, end bool, to message.Method, r *message.Response) *Fault {
	fields := r.Fields[:0]
	r.Reset()
	r.Version, r.KeepAlive = message.HTTP2, true
	if len(fs) == 0 || string(fs[0].Name) != ":status" {
		return errStatus
	}
	status, ok := http1.Decimal(fs[0].Value)
	if !ok || len(fs[0].Value) != 3 || status < 100 || status > 599 {
		return errStatus
	}
	r.Status = int(status)
	for i := range fs[1:] {
		f := &fs[1+i]
		if fault := checkField(f); fault != nil {
			return fault
		}
		if fault := readAnswer(f, r); fault != nil {
			return fault
		}
		fields = append(fields, *f)
	}
	r.Fields = fields
	return frameAnswer(r, end, to)
}

// readAnswer takes what a field means.
func readAnswer(f *message.Field, r *message.Response) *Fault {
	switch f.ID {
	case message.Connection, message.KeepAlive, message.ProxyConnection, message.TransferEncoding, message.Upgrade, message.TE:
		return errOfConnection
	case message.ContentLength:
		n, ok := http1.Decimal(f.Value)
		if !ok || r.ContentLength >= 0 && n != r.ContentLength {
			return errLengths
		}
		r.ContentLength = n
		f.Drop = true
	case message.Date:
		r.HasDate = true
	default:
		f.Drop = f.Drop || f.ID.OfConnection()
	}
	return nil
}

// frameAnswer decides how the content ends (RFC 9113 8.1, RFC 9110 6.4.1).
func frameAnswer(r *message.Response, end bool, to message.Method) *Fault {
	switch {
	case r.Status == 101:
		return errSwitching
	case r.Status < 200 && end:
		return errLastHead
	case r.Status < 200 || r.Status == 204:
		r.ContentLength = -1
	case to == message.CONNECT && r.Status < 300:
		r.Body, r.ContentLength = message.UntilClose, -1
	case to == message.HEAD || r.Status == 304:
	case r.ContentLength >= 0:
		r.Body = message.Length
	case end:
		r.Body, r.ContentLength = message.Length, 0
	default:
		r.Body = message.UntilClose
	}
	return nil
}

// Answer fills in the next head that has come; false: none has. Slices are good
// until the next Answer, or Close.
func (k *Call) Answer(r *message.Response) (ok bool, err error) {
	if k.heads == 0 {
		if err := k.Meets(); err != nil && err != reactor.ErrNothing {
			return false, err
		}
		return false, nil
	}
	if err := k.GivenUp(); err != nil {
		return false, err
	}
	a := k.first
	if k.first = a.next; k.first == nil {
		k.last = nil
	}
	k.heads--
	if k.present != nil {
		k.c.pool.putHead(k.present)
	}
	k.present = a
	fields := append(r.Fields[:0], a.resp.Fields...)
	*r = a.resp
	r.Fields = fields
	return true, nil
}

// Trailers are those of the answer, once Read has returned io.EOF.
func (k *Call) Trailers() message.Fields { return k.tail.Fields }

// Close implements net.Conn: it gives up what is not at its end.
func (k *Call) Close() error {
	if k.Closed() {
		return net.ErrClosed
	}
	l := k.Link()
	waited := k.reserved
	if waited {
		k.reserved = false
		l.reserved--
	}
	err := k.close(Cancel)
	if waited {
		l.left()
	}
	return err
}

// CloseWrite ends what is sent; the server may still send.
func (k *Call) CloseWrite() error { return k.End(nil) }

// Linger does what Close does.
func (k *Call) Linger(time.Duration) { k.Close() }

// Reset tells the server that its answer is of no use any more.
func (k *Call) Reset() { k.Close() }

// lost lets go of heads that were not asked for.
func (k *Call) lost() {
	for k.first != nil {
		a := k.first
		k.first = a.next
		k.c.pool.putHead(a)
	}
	k.last, k.heads = nil, 0
}

func (k *Call) giveBack() {
	if k.present != nil {
		k.c.pool.putHead(k.present)
		k.present = nil
	}
	k.c.pool.putCall(k)
}
