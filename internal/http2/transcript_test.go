package http2

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	xhpack "golang.org/x/net/http2/hpack"

	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/reactor"
)

// A transcript is played by lines:
//
//	< FRAME   the client sends it: TYPE, stream, flags, then fields (a=x*9 has 9 times x), "text" or xN (N bytes)
//	> FRAME   the server sends it, and has sent nothing else before
//	! 1 DOES  the owner of stream 1 does: respond, write, end, read, close, reset, …; several with ;
//	. WORDS   the owner has seen or done this, and nothing else before
//	* WORDS   the test does: hello (both sides greet; greet where Sluice is the client), wait, drain, end (of the client), close, holds, sips (a wire that holds so much, and takes so much in each second)
//
// Each line that begins with ! is a task of its own, and may wait. Frames are made
// and taken apart by golang.org/x/net.

// scribe makes the bytes of frames.
type scribe struct {
	t       testing.TB
	framer  *xhttp2.Framer
	encoded bytes.Buffer // what framer writes
	block   bytes.Buffer
	encoder *xhpack.Encoder
}

func newScribe(t testing.TB) *scribe {
	p := &scribe{t: t}
	p.framer = xhttp2.NewFramer(&p.encoded, nil)
	p.framer.AllowIllegalWrites = true
	p.encoder = xhpack.NewEncoder(&p.block)
	return p
}

// strand is a stream of either side.
type strand interface {
	reactor.Stream
	End(trailers message.Fields) error
	Trailers() message.Fields
	Reset()
}

// play is a connection under test, a client and an owner.
type play struct {
	*scribe
	m        *sim
	wire     *simWire
	conn     *Conn
	decoder  *xhpack.Decoder
	sections int // that it has seen
	events   []string
	streams  map[uint32]strand
	link     *Link // in the place of conn where Sluice is the client
	core     *conn
	served   string // what the owner does with each request; empty: what ! lines say
	split    int    // bytes that are sent at once; 0: all
	counts   [ClassCount]int
	sent     []byte // all that the server has sent
}

// playConfig has numbers that are easy to reach.
func playConfig(count func(Class)) Config {
	return Config{
		Streams: 10, Head: 4096, Line: 1024, Fields: 64, Window: 65535, ConnWindow: 1 << 20,
		Settled: 10 * time.Second, Partial: 5 * time.Second, Idle: time.Minute, Stall: 30 * time.Second, Parting: time.Second,
		ExtendedConnect: true, Count: count,
	}
}

func newPlay(t *testing.T, asClient bool, adjust func(*Config)) *play {
	p := &play{scribe: newScribe(t), m: newSim(), streams: map[uint32]strand{}}
	p.wire = p.m.newWire()
	p.decoder = xhpack.NewDecoder(4096, nil)
	cfg := playConfig(func(c Class) { p.counts[c]++ })
	adjust(&cfg)
	if asClient {
		p.m.do(func() { p.link = NewClient(p.m, cfg).Connect(p.wire, p) })
		p.core = &p.link.conn
		return p
	}
	p.m.do(func() { p.conn = NewServer(p.m, cfg).Serve(p.wire, nil, p) })
	p.core = &p.conn.conn
	return p
}

// Accept notes a request as method, path, authority, fields.
func (p *play) Accept(s *Stream) {
	p.streams[s.ID()] = s
	if p.served != "" {
		delete(p.streams, s.ID())
		switch p.served {
		case "close":
			s.OnHangup(job(func() { s.Close() }))
		case "answer":
			p.m.Go(job(func() { s.Respond(&message.Response{Status: 200, ContentLength: -1}, true); s.Close() }))
		default:
			p.streams[s.ID()] = s
		}
		return
	}
	var r message.Request
	s.Request(&r)
	line := fmt.Sprintf("%d request %s %s %s", s.ID(), r.MethodName, r.Target, r.Host)
	for _, f := range r.Fields {
		if !f.Drop {
			line += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		}
	}
	switch r.Body {
	case message.Length:
		line += fmt.Sprintf(" (%d)", r.ContentLength)
	case message.UntilClose:
		line += " (…)"
	}
	p.note("%s", line)
	s.OnHangup(job(func() { p.note("%d hangup", s.ID()) }))
}

// Freed implements LinkOwner.
func (p *play) Freed() {}

func (p *play) Ended() { p.note("ended") }

type job func()

func (f job) Run() { f() }

func (p *play) note(format string, args ...any) {
	p.events = append(p.events, fmt.Sprintf(format, args...))
}

// settle returns when nothing moves.
func (p *play) settle() { synctest.Wait() }

// send has the client send b.
func (p *play) send(b []byte) {
	for len(b) > 0 {
		n := len(b)
		if p.split > 0 {
			n = min(n, p.split)
		}
		p.m.do(func() { p.wire.in.sent = append(p.wire.in.sent, b[:n]...) })
		b = b[n:]
		p.settle()
	}
}

// take is the next line that the server has sent; empty if there is none.
func (p *play) take() string {
	p.settle()
	p.m.do(func() {
		p.sent = append(p.sent, p.wire.out.sent...)
		p.wire.out.sent = nil
	})
	if rest, is := bytes.CutPrefix(p.sent, []byte(preface)); is {
		p.sent = rest
		return "PREFACE"
	}
	if len(p.sent) < headBytes {
		return ""
	}
	h := parseHead(p.sent)
	if len(p.sent) < headBytes+h.length {
		return "" // the wire holds no more, or was cut here
	}
	payload := p.sent[headBytes : headBytes+h.length]
	p.sent = p.sent[headBytes+h.length:]
	return p.words(h, payload)
}

var frameNames = map[kind]string{
	frameData: "DATA", frameHeaders: "HEADERS", framePriority: "PRIORITY", frameReset: "RST_STREAM", frameSettings: "SETTINGS",
	framePush: "PUSH_PROMISE", framePing: "PING", frameGoAway: "GOAWAY", frameWindowUpdate: "WINDOW_UPDATE",
	frameContinuation: "CONTINUATION", framePriorityUpdate: "PRIORITY_UPDATE",
}

// words writes a frame that the server has sent.
func (p *play) words(h frameHead, payload []byte) string {
	line := []string{frameNames[h.kind]}
	if h.stream != 0 {
		line = append(line, strconv.Itoa(int(h.stream)))
	}
	add := func(format string, args ...any) { line = append(line, fmt.Sprintf(format, args...)) }
	switch h.kind {
	case frameData, frameHeaders:
		if h.has(endStream) {
			add("END_STREAM")
		}
	case frameSettings, framePing:
		if h.has(ack) {
			add("ACK")
		}
	}
	number := func(at int) uint32 {
		return uint32(payload[at])<<24 | uint32(payload[at+1])<<16 | uint32(payload[at+2])<<8 | uint32(payload[at+3])
	}
	switch h.kind {
	case frameData:
		if len(payload) > 40 {
			add("x%d", len(payload))
		} else {
			add("%q", payload)
		}
	case frameHeaders:
		if p.sections++; len(payload) > 0 && (payload[0]&0xe0 == 0x20) != (p.sections == 1) {
			add("(a table size update in section %d)", p.sections)
		}
		fields, err := p.decoder.DecodeFull(payload)
		if err != nil {
			add("(%v)", err)
		}
		for _, f := range fields {
			add("%s=%s", f.Name, f.Value)
		}
	case frameReset:
		add("%v", Code(number(0)))
	case frameSettings:
		for at := 0; at < len(payload); at += settingBytes {
			add("%d=%d", int(payload[at])<<8|int(payload[at+1]), number(at+2))
		}
	case framePing:
		add("%s", bytes.TrimRight(payload, "\x00"))
	case frameGoAway:
		add("%d %v", number(0), Code(number(4)))
	case frameWindowUpdate:
		add("%d", number(0))
	}
	return strings.Join(line, " ")
}

// frame makes the bytes of a frame that the client sends.
func (p *scribe) frame(line string) []byte {
	w := words(line)
	p.encoded.Reset()
	p.block.Reset()
	var id uint32
	if len(w) > 1 {
		if n, err := strconv.ParseUint(w[1], 10, 32); err == nil && !slices.Contains([]string{"SETTINGS", "PING", "GOAWAY", "RAW"}, w[0]) {
			id = uint32(n)
		}
	}
	f := p.framer
	switch w[0] {
	case "RAW":
		text := strings.Join(w[1:], "")
		text, zeros, _ := strings.Cut(text, "*")
		b, err := hex.DecodeString(text)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		n, _ := strconv.Atoi(zeros)
		return append(b, make([]byte, n)...)
	case "PREFACE":
		return []byte(preface)
	case "DATA":
		flags, pad, content := p.parts(w[2:])
		if pad >= 0 {
			f.WriteDataPadded(id, flags&xhttp2.FlagDataEndStream != 0, content, make([]byte, pad))
		} else {
			f.WriteData(id, flags&xhttp2.FlagDataEndStream != 0, content)
		}
	case "HEADERS", "CONTINUATION":
		p.section(w[0], id, w[2:])
	case "SETTINGS":
		if len(w) > 1 && w[1] == "ACK" {
			f.WriteSettingsAck()
			break
		}
		var settings []xhttp2.Setting
		for _, s := range w[1:] {
			var at, value uint32
			fmt.Sscanf(s, "%d=%d", &at, &value)
			settings = append(settings, xhttp2.Setting{ID: xhttp2.SettingID(at), Val: value})
		}
		f.WriteSettings(settings...)
	case "PING":
		var data [8]byte
		copy(data[:], w[len(w)-1])
		f.WritePing(w[1] == "ACK", data)
	case "RST_STREAM":
		f.WriteRSTStream(id, xhttp2.ErrCode(slices.Index(codeNames[:], w[2])))
	case "GOAWAY":
		n, _ := strconv.Atoi(w[1])
		f.WriteGoAway(uint32(n), xhttp2.ErrCode(slices.Index(codeNames[:], w[2])), nil)
	case "WINDOW_UPDATE":
		n, _ := strconv.Atoi(w[2])
		f.WriteWindowUpdate(id, uint32(n))
	case "PRIORITY":
		n, _ := strconv.Atoi(w[2])
		f.WritePriority(id, xhttp2.PriorityParam{StreamDep: uint32(n)})
	case "PRIORITY_UPDATE":
		f.WriteRawFrame(xhttp2.FrameType(framePriorityUpdate), 0, 0, append([]byte{byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}, w[2]...))
	default:
		p.t.Fatalf("no such frame: %s", line)
	}
	return bytes.Clone(p.encoded.Bytes())
}

// parts reads flags and content of DATA.
func (p *scribe) parts(w []string) (flags xhttp2.Flags, pad int, content []byte) {
	pad = -1
	for _, s := range w {
		switch {
		case s == "END_STREAM":
			flags |= xhttp2.FlagDataEndStream
		case strings.HasPrefix(s, "PAD="):
			pad, _ = strconv.Atoi(s[4:])
		case s[0] == 'x':
			n, _ := strconv.Atoi(s[1:])
			content = bytes.Repeat([]byte("x"), n)
		default:
			text, err := strconv.Unquote(s)
			if err != nil {
				p.t.Fatalf("%s: %v", s, err)
			}
			content = []byte(text)
		}
	}
	return flags, pad, content
}

// section writes HEADERS or CONTINUATION.
func (p *scribe) section(kind string, id uint32, w []string) {
	param := xhttp2.HeadersFrameParam{StreamID: id, EndHeaders: true}
	for _, s := range w {
		switch {
		case s == "END_STREAM":
			param.EndStream = true
		case s == "MORE":
			param.EndHeaders = false
		case strings.HasPrefix(s, "PAD="):
			n, _ := strconv.Atoi(s[4:])
			param.PadLength = uint8(n)
		case strings.HasPrefix(s, "DEP="):
			n, _ := strconv.Atoi(s[4:])
			param.Priority = xhttp2.PriorityParam{StreamDep: uint32(n), Weight: 1}
		default:
			name, value, _ := strings.Cut(strings.TrimPrefix(s, ":"), "=")
			if s[0] == ':' {
				name = ":" + name
			}
			if unquoted, err := strconv.Unquote(value); err == nil {
				value = unquoted
			}
			if len(value) > 2 && value[1] == '*' {
				count, _ := strconv.Atoi(value[2:])
				value = strings.Repeat(value[:1], count)
			}
			p.encoder.WriteField(xhpack.HeaderField{Name: name, Value: value})
		}
	}
	if param.BlockFragment = p.block.Bytes(); kind == "HEADERS" {
		p.framer.WriteHeaders(param)
		return
	}
	p.framer.WriteContinuation(id, param.EndHeaders, param.BlockFragment)
}

// words splits a line at spaces outside quotes.
func words(line string) []string {
	var w []string
	quoted, start := false, -1
	for i := 0; i <= len(line); i++ {
		switch {
		case i == len(line) || line[i] == ' ' && !quoted:
			if start >= 0 {
				w = append(w, line[start:i])
			}
			start = -1
			continue
		case line[i] == '"':
			quoted = !quoted
		}
		if start < 0 {
			start = i
		}
	}
	return w
}

// does has the owner of a stream do something, in a task; a semicolon stands
// between several.
func (p *play) does(line string) error {
	first, rest, _ := strings.Cut(line, " ")
	id, err := strconv.Atoi(first)
	s := p.streams[uint32(id)]
	if kind, text, _ := strings.Cut(rest, " "); kind == "call" {
		p.m.Go(job(func() { p.call(uint32(id), text) }))
		return nil
	}
	if err != nil || s == nil {
		return fmt.Errorf("no stream %s", first)
	}
	p.m.Go(job(func() {
		for one := range strings.SplitSeq(rest, " ; ") {
			p.perform(s, id, words(one))
		}
	}))
	return nil
}

// call sends a request: method, path, then fields, "last", or "as N" of content.
func (p *play) call(id uint32, text string) {
	k, err := p.link.Call()
	if err != nil {
		p.note("%d call: %s", id, short(err))
		return
	}
	p.streams[id] = k
	w := words(text)
	r := message.Request{MethodName: []byte(w[0]), Scheme: []byte("https"), Host: []byte("a"), Target: []byte(w[1]), MaxForwards: -1, Body: message.UntilClose}
	r.Method = http1.MethodOf(r.MethodName)
	last := false
	for _, f := range w[2:] {
		name, value, _ := strings.Cut(f, "=")
		switch name {
		case "last":
			last, r.Body = true, message.NoBody
		case "length":
			r.Body = message.Length
			r.ContentLength, _ = strconv.ParseInt(value, 10, 64)
		case "protocol":
			r.Protocol = []byte(value)
		case "expects":
			r.ExpectContinue = true
		case "trailers":
			r.Trailers = true
		case "hops":
			r.MaxForwards, _ = strconv.Atoi(value)
		default:
			r.Fields = append(r.Fields, message.Field{Name: []byte(name), Value: []byte(value), ID: message.Lookup([]byte(name))})
		}
	}
	if err := k.Send(&r, last); err != nil {
		p.note("%d send: %s", id, short(err))
		return
	}
	k.OnHangup(job(func() { p.note("%d hangup", id) }))
}

// answer asks for a head: status, fields, how long.
func (p *play) answer(k *Call, id int) {
	var r message.Response
	err := k.Await()
	ok := false
	if err == nil {
		ok, err = k.Answer(&r)
	}
	if !ok {
		p.note("%d no answer%s", id, short(err))
		return
	}
	line := fmt.Sprintf("%d answer %d", id, r.Status)
	for _, f := range r.Fields {
		if !f.Drop {
			line += fmt.Sprintf(" %s=%s", f.Name, f.Value)
		}
	}
	switch r.Body {
	case message.Length:
		line += fmt.Sprintf(" (%d)", r.ContentLength)
	case message.UntilClose:
		line += " (…)"
	default:
		if r.ContentLength >= 0 {
			line += fmt.Sprintf(" (none of %d)", r.ContentLength)
		}
	}
	p.note("%s", line)
}

// perform is one thing that the owner does.
func (p *play) perform(s strand, id int, w []string) {
	n := 0
	if len(w) > 1 {
		n, _ = strconv.Atoi(w[1])
	}
	switch w[0] {
	case "respond":
		r := message.Response{Status: n, ContentLength: -1}
		last := false
		for _, f := range w[2:] {
			if f == "last" {
				last = true
			} else if name, value, _ := strings.Cut(f, "="); name == "content-length" {
				r.ContentLength, _ = strconv.ParseInt(value, 10, 64)
			} else {
				r.Fields = append(r.Fields, message.Field{Name: []byte(name), Value: []byte(value), ID: message.Lookup([]byte(name))})
			}
		}
		if err := s.(*Stream).Respond(&r, last); err != nil {
			p.note("%d respond: %s", id, short(err))
		}
	case "write":
		m, err := s.Write(bytes.Repeat([]byte("y"), n))
		p.note("%d wrote %d%s", id, m, short(err))
	case "answer":
		p.answer(s.(*Call), id)
	case "get": // so much content, however it comes
		b := make([]byte, n)
		m, err := io.ReadFull(s, b)
		p.note("%d read %q%s", id, b[:m], short(err))
	case "read":
		b := make([]byte, max(n, 1<<20))
		if n > 0 {
			b = b[:n]
		}
		m, err := s.Read(b)
		if m > 40 {
			p.note("%d read x%d%s", id, m, short(err))
		} else {
			p.note("%d read %q%s", id, b[:m], short(err))
		}
	case "end":
		var trailers message.Fields
		for _, f := range w[1:] {
			name, value, _ := strings.Cut(f, "=")
			trailers = append(trailers, message.Field{Name: []byte(name), Value: []byte(value)})
		}
		if err := s.End(trailers); err != nil {
			p.note("%d end: %s", id, short(err))
		}
	case "trailers":
		line := fmt.Sprintf("%d trailers", id)
		for _, f := range s.Trailers() {
			if !f.Drop {
				line += fmt.Sprintf(" %s=%s", f.Name, f.Value)
			}
		}
		p.note("%s", line)
	case "close":
		s.Close()
	case "reset":
		s.Reset()
	case "abort":
		s.Abort(errAborted)
	case "idle":
		s.Idle(job(func() { p.note("%d roused", id) }))
	case "watch":
		s.Watch(job(func() { p.note("%d watched", id) }))
	case "slow":
		d, _ := time.ParseDuration(w[1])
		s.OnSlow(d, job(func() { p.note("%d slow", id) }))
	case "timeout":
		d, _ := time.ParseDuration(w[1])
		s.SetReadTimeout(d)
		s.SetWriteTimeout(d)
	case "stall":
		d, _ := time.ParseDuration(w[1])
		s.SetStall(d)
	default:
		p.note("%d cannot %s", id, w[0])
	}
}

var errAborted = errors.New("aborted")

// short is an error in few words.
func short(err error) string {
	var reset ResetError
	var fault *Fault
	switch {
	case err == nil:
		return ""
	case err == io.EOF:
		return " EOF"
	case errors.Is(err, ErrUnprocessed):
		return " unprocessed"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return " timeout"
	case errors.As(err, &reset):
		return " reset " + Code(reset).String()
	case errors.As(err, &fault):
		return " fault " + fault.Code.String()
	}
	return " " + err.Error()
}

// directs is what the test itself does.
func (p *play) directs(line string) error {
	w := words(line)
	switch w[0] {
	case "client":
	case "leave":
		p.m.do(p.link.Leave)
	case "room":
		if got := p.link.Room(); strconv.Itoa(got) != w[1] {
			return fmt.Errorf("there is room for %d", got)
		}
	case "greet":
		if got := p.take(); got != "PREFACE" {
			return fmt.Errorf("the client begins with %q", got)
		}
		p.send(p.frame("SETTINGS"))
		p.send(p.frame("SETTINGS ACK"))
		for _, want := range []string{"SETTINGS 2=0 4=65535 6=4096 9=1", "WINDOW_UPDATE 983041", "SETTINGS ACK"} {
			if got := p.take(); got != want {
				return fmt.Errorf("the client greets with %q, want %q", got, want)
			}
		}
	case "hello":
		p.send(p.frame("PREFACE"))
		p.send(p.frame("SETTINGS"))
		p.send(p.frame("SETTINGS ACK"))
		for _, want := range []string{fmt.Sprintf("SETTINGS 3=%d 4=65535 6=4096 9=1 8=1", p.core.cfg.Streams), "WINDOW_UPDATE 983041", "SETTINGS ACK"} {
			if got := p.take(); got != want {
				return fmt.Errorf("the server greets with %q, want %q", got, want)
			}
		}
	case "config":
	case "wait":
		d, err := time.ParseDuration(w[1])
		<-time.After(d)
		return err
	case "drain":
		p.m.do(p.conn.Drain)
	case "close":
		p.m.do(p.close)
	case "end":
		p.m.do(func() { p.wire.in.ended = true })
	case "holds":
		n, err := strconv.Atoi(w[1])
		p.m.do(func() { p.wire.out.holds = n })
		return err
	case "sips": // so many bytes in each second, from now on
		n, err := strconv.Atoi(w[1])
		p.m.Submit(func() {
			for !p.wire.closed {
				p.wire.out.holds += n
				p.m.changed.Broadcast()
				for at := p.m.Now() + int64(time.Second); p.m.Now() < at; {
					p.m.wait(at)
				}
			}
		})
		return err
	case "repeat": // N times: a frame in which # is a new odd number
		n, _ := strconv.Atoi(w[1])
		_, line, _ := strings.Cut(line, w[1]+" ")
		var all []byte
		for i := range n {
			for one := range strings.SplitSeq(strings.ReplaceAll(line, "#", strconv.Itoa(2*i+1)), " ; ") {
				all = append(all, p.frame(one)...)
			}
		}
		p.send(all)
	case "served", "quiet": // the owner closes what the client resets, answers all, or does nothing; no word of it
		p.served = w[len(w)-1]
	case "skip": // what the server has sent by now
		for p.take() != "" {
		}
	case "count":
		var counts [ClassCount]int
		p.m.do(func() { counts = p.counts })
		for c, n := range counts {
			if n > 0 && !strings.Contains(line, fmt.Sprintf("%s %d", Class(c), n)) {
				return fmt.Errorf("counted %d of %s", n, Class(c))
			}
			if n == 0 && strings.Contains(line, Class(c).String()) {
				return fmt.Errorf("nothing was counted of %s", Class(c))
			}
		}
	case "idle":
		held := ""
		p.m.do(func() {
			if p.wire.idle == nil || p.core.out.b != nil || p.core.partial != nil {
				held = "the connection holds a task or a buffer"
			}
		})
		if held != "" {
			return errors.New(held)
		}
	default:
		return fmt.Errorf("no such direction")
	}
	return nil
}

// step is one line.
func (p *play) step(line string) error {
	p.settle()
	text := strings.TrimSpace(line[1:])
	switch line[0] {
	case '<':
		p.send(p.frame(text))
	case '>':
		if got := p.take(); got != text {
			return fmt.Errorf("the server sends %q", got)
		}
	case '!':
		return p.does(text)
	case '.':
		if len(p.events) == 0 {
			return fmt.Errorf("nothing happened")
		}
		got := p.events[0]
		if p.events = p.events[1:]; got != text {
			return fmt.Errorf("what happened was %q", got)
		}
	case '*':
		return p.directs(text)
	default:
		return fmt.Errorf("no such line")
	}
	return nil
}

// run plays a transcript; bytes of the client come in pieces of split.
func run(t *testing.T, text string, split int) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlay(t, strings.Contains(text, "* client"), func(cfg *Config) { configure(t, cfg, text) })
		p.split = split
		defer p.finish()
		for i, line := range strings.Split(text, "\n") {
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			if err := p.step(line); err != nil {
				t.Errorf("line %d: %s\n%v", i+1, line, err)
				return
			}
		}
		if left := p.take(); left != "" {
			t.Errorf("the server has sent more: %s", left)
		}
		if len(p.events) > 0 {
			t.Errorf("more has happened: %q", p.events)
		}
	})
}

// configure takes "* config NAME=NUMBER".
func configure(t *testing.T, cfg *Config, text string) {
	_, line, _ := strings.Cut(text, "* config ")
	line, _, _ = strings.Cut(line, "\n")
	for _, w := range strings.Fields(line) {
		name, value, _ := strings.Cut(w, "=")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatal(err)
		}
		reflect.ValueOf(cfg).Elem().FieldByName(name).SetInt(int64(n))
	}
}

func (p *play) close() { p.core.lose(net.ErrClosed) }

// finish ends what still runs.
func (p *play) finish() {
	p.m.do(func() {
		p.close()
		for _, s := range p.streams {
			s.Close()
		}
	})
	p.m.tasks.Wait()
}

// transcripts are the files of testdata: "== name" begins one.
func transcripts(t *testing.T) map[string]string {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no transcripts in testdata")
	}
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for part := range strings.SplitSeq("\n"+string(text), "\n== ") {
			if name, body, ok := strings.Cut(part, "\n"); ok && name != "" {
				all[filepath.Base(file)+"/"+name] = body
			}
		}
	}
	return all
}

func TestTranscripts(t *testing.T) {
	for name, text := range transcripts(t) {
		t.Run(name, func(t *testing.T) { run(t, text, 0) })
	}
}

var _ reactor.Stream = (*Stream)(nil)
