package http2

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	xhpack "golang.org/x/net/http2/hpack"

	"sluice/internal/message"
	"sluice/internal/reactor"
)

// still is an executor without threads: tasks must not wait, and run when told.
type still struct {
	jobs []reactor.Job
	now  int64
}

func (e *still) Go(job reactor.Job)        { e.jobs = append(e.jobs, job) }
func (e *still) Now() int64                { return e.now }
func (e *still) NewSignal() reactor.Signal { return new(stillSignal) }
func (e *still) Submit(f func())           { panic("nothing is submitted") }

func (e *still) run() {
	for i := 0; i < len(e.jobs); i++ {
		e.jobs[i].Run()
	}
	e.jobs = e.jobs[:0]
}

type stillSignal bool

func (s *stillSignal) Set() { *s = true }

func (s *stillSignal) Wait(time.Duration) bool {
	if !*s {
		panic("a task waits that must not")
	}
	*s = false
	return true
}

// tape is a wire that plays what it was given, and counts what is written.
type tape struct {
	reactor.Stream // nil: nothing else may be called
	e              *still
	in             []byte
	idle           reactor.Job
	out            int
	last           []byte
}

func (w *tape) Ready() bool { return len(w.in) > 0 }
func (w *tape) Read(p []byte) (int, error) {
	if len(w.in) == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, w.in)
	w.in = w.in[n:]
	return n, nil
}
func (w *tape) Write(p []byte) (int, error) {
	w.out += len(p)
	w.last = append(w.last[:0], p...)
	return len(p), nil
}
func (w *tape) Idle(job reactor.Job) bool     { w.idle = job; return true }
func (w *tape) SetReadTimeout(time.Duration)  {}
func (w *tape) SetWriteTimeout(time.Duration) {}
func (w *tape) SetStall(time.Duration)        {}
func (w *tape) Close() error                  { return nil }
func (w *tape) Linger(time.Duration)          {}
func (w *tape) RemoteAddr() net.Addr          { return nil }

// play has the connection read b and run until it is idle.
func (w *tape) play(b []byte) {
	w.in = b
	w.e.Go(w.idle)
	w.idle = nil
	w.e.run()
}

// clerk answers each request from memory, one at a time.
type clerk struct {
	e       *still
	s       *Stream
	req     message.Request
	resp    message.Response
	content []byte
	buf     [4096]byte
}

func (k *clerk) Ended() {}

func (k *clerk) Accept(s *Stream) {
	k.s = s
	k.e.Go(k)
}

func (k *clerk) Run() {
	s := k.s
	s.Request(&k.req)
	if k.req.Body == message.Length {
		for {
			if _, err := s.Read(k.buf[:]); err == io.EOF {
				break
			}
		}
	}
	s.Respond(&k.resp, false)
	s.Write(k.content)
	s.End(nil)
	s.Close()
}

// browserFields are those of a request as Chrome sends them.
var browserFields = [][2]string{
	{":method", "GET"}, {":authority", "shop.example.com"}, {":scheme", "https"}, {":path", "/catalogue/shoes?size=42&colour=red"},
	{"sec-ch-ua", `"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"`}, {"sec-ch-ua-mobile", "?0"},
	{"sec-ch-ua-platform", `"Linux"`}, {"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"},
	{"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"},
	{"sec-fetch-site", "same-origin"}, {"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "document"}, {"referer", "https://shop.example.com/"},
	{"accept-encoding", "gzip, deflate, br, zstd"}, {"accept-language", "en-GB,en;q=0.9"}, {"cookie", "session=0123456789abcdef0123456789abcdef"},
	{"cookie", "basket=17"}, {"priority", "u=0, i"},
}

// desk is a connection that a clerk answers.
type desk struct {
	wire  *tape
	conn  *Conn
	clerk clerk
	block bytes.Buffer
	enc   *xhpack.Encoder
	next  uint32
	ask   bytes.Buffer
}

func newDesk() *desk {
	e := &still{now: 1}
	d := &desk{wire: &tape{e: e}, next: 1}
	d.clerk.e = e
	d.enc = xhpack.NewEncoder(&d.block)
	d.clerk.content = []byte("an answer of fifty-three bytes, such as benches ask.\n")
	d.clerk.resp = message.Response{Status: 200, ContentLength: int64(len(d.clerk.content)), Fields: message.Fields{
		{Name: []byte("Content-Type"), Value: []byte("text/plain"), ID: message.ContentType},
		{Name: []byte("Server"), Value: []byte("sluice"), ID: message.Server},
		{Name: []byte("Date"), Value: []byte("Sat, 21 Nov 2026 09:00:00 GMT"), ID: message.Date},
	}}
	server := NewServer(e, playConfig(nil))
	d.conn = server.Serve(d.wire, nil, &d.clerk)
	e.run()
	framer := xhttp2.NewFramer(&d.ask, nil)
	d.ask.WriteString(preface)
	framer.WriteSettings()
	framer.WriteSettingsAck()
	framer.WriteWindowUpdate(0, 1<<30)
	d.wire.play(d.ask.Bytes())
	return d
}

// question is the bytes of a request; the stream's number is put in by next.
func (d *desk) question(content []byte) []byte {
	d.ask.Reset()
	d.block.Reset()
	for _, f := range browserFields {
		d.enc.WriteField(xhpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if content != nil {
		d.enc.WriteField(xhpack.HeaderField{Name: "content-length", Value: "1000"})
	}
	framer := xhttp2.NewFramer(&d.ask, nil)
	framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: d.block.Bytes(), EndHeaders: true, EndStream: content == nil})
	if content != nil {
		framer.WriteData(1, true, content)
	}
	return bytes.Clone(d.ask.Bytes())
}

// number has all frames of b belong to the next stream.
func (d *desk) number(b []byte) []byte {
	for rest := b; len(rest) > 0; {
		h := parseHead(rest)
		binary.BigEndian.PutUint32(rest[5:], d.next)
		rest = rest[headBytes+h.length:]
	}
	if d.next += 2; d.next > 1<<30 {
		panic("a connection has no more streams")
	}
	return b
}

// TestNoAllocation: a warm connection takes and answers a request without any.
func TestNoAllocation(t *testing.T) {
	for name, content := range map[string][]byte{"GET": nil, "POST": make([]byte, 1000)} {
		d := newDesk()
		d.wire.play(d.number(d.question(content))) // its fields are in the table from now on
		d.wire.play(d.number(d.question(content)))
		ask := d.question(content)
		out := d.wire.out
		if n := testing.AllocsPerRun(200, func() { d.wire.play(d.number(ask)) }); n != 0 {
			t.Errorf("%s: %v allocations for a request", name, n)
		}
		if d.wire.out-out < 201*len(d.clerk.content) {
			t.Errorf("%s: %d bytes were answered to 201 requests", name, d.wire.out-out)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	d := newDesk()
	d.wire.play(d.number(d.question(nil)))
	ask := d.question(nil)
	b.ReportAllocs()
	for b.Loop() {
		d.wire.play(d.number(ask))
		d.wire.e.now += 1e5
	}
}

// BenchmarkDownload is of 28 KiB of content in one write.
func BenchmarkDownload(b *testing.B) {
	d := newDesk()
	d.clerk.content = make([]byte, 28<<10)
	d.clerk.resp.ContentLength = 28 << 10
	b.SetBytes(28 << 10)
	d.wire.play(d.number(d.question(nil)))
	ask := d.question(nil)
	for b.Loop() {
		d.conn.out.window = 1 << 30
		d.wire.play(d.number(ask))
	}
}

// TestNoAllocationOfCalls: neither does a warm connection to a server for a call
// and its answer.
func TestNoAllocationOfCalls(t *testing.T) {
	e := &still{now: 1}
	d := &desk{wire: &tape{e: e}, next: 1}
	d.enc = xhpack.NewEncoder(&d.block)
	link := NewClient(e, playConfig(nil)).Connect(d.wire, new(mirror))
	e.run()
	framer := xhttp2.NewFramer(&d.ask, nil)
	framer.WriteSettings()
	framer.WriteSettingsAck()
	framer.WriteWindowUpdate(0, 1<<30)
	d.wire.play(d.ask.Bytes())
	reply := func() []byte {
		d.ask.Reset()
		d.block.Reset()
		for _, f := range [][2]string{{":status", "200"}, {"content-type", "text/html"}, {"server", "x"}, {"content-length", "500"}} {
			d.enc.WriteField(xhpack.HeaderField{Name: f[0], Value: f[1]})
		}
		framer.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: d.block.Bytes(), EndHeaders: true})
		framer.WriteData(1, true, make([]byte, 500))
		return bytes.Clone(d.ask.Bytes())
	}
	r := message.Request{Method: message.POST, MethodName: []byte("POST"), Scheme: []byte("https"), Host: []byte("a"), Target: []byte("/"), MaxForwards: -1, Body: message.Length, ContentLength: 100}
	var resp message.Response
	var buf [1000]byte
	read := 0
	call := func(answer []byte) {
		k, err := link.Call()
		if err != nil {
			t.Fatal(err)
		}
		k.Send(&r, false)
		k.Write(buf[:100])
		k.End(nil)
		e.run()
		d.wire.play(d.number(answer))
		k.Answer(&resp)
		n, _ := k.Read(buf[:])
		if _, err := k.Read(buf[:]); err == io.EOF {
			read += n
		}
		k.Close()
	}
	call(reply())
	call(reply())
	answer := reply()
	if n := testing.AllocsPerRun(200, func() { call(answer) }); n != 0 || read != 203*500 {
		t.Errorf("%v allocations for a call; %d bytes were read of 203 answers of 500", n, read)
	}
}
