package http2

import "sluice/internal/http2/hpack"

// What the connections of one loop lend each other. Loop only.

const (
	inBytes  = 32 << 10 // of a read: a frame of the largest size and its head, and as much again
	outBytes = 32 << 10 // gathered for one write
	keptBufs = 16       // buffers of each kind that are kept
	keptOpen = 256      // streams that are kept
)

type pool struct {
	ins    [][]byte
	outs   [][]byte
	blocks []*block
	opened []*Stream
	calls  []*Call
	heads  []*answerHead
	spare  hpack.Head // for sections that nobody wants
}

func (p *pool) getIn() []byte {
	if n := len(p.ins); n > 0 {
		b := p.ins[n-1]
		p.ins = p.ins[:n-1]
		return b
	}
	return make([]byte, inBytes)
}

func (p *pool) putIn(b []byte) {
	if len(p.ins) < keptBufs {
		p.ins = append(p.ins, b)
	}
}

func (p *pool) getOut() []byte {
	if n := len(p.outs); n > 0 {
		b := p.outs[n-1]
		p.outs = p.outs[:n-1]
		return b
	}
	return make([]byte, 0, outBytes+outBytes/4)
}

// putOut takes a buffer back, unless it has grown out of use.
func (p *pool) putOut(b []byte) {
	if len(p.outs) < keptBufs && cap(b) <= 2*outBytes {
		p.outs = append(p.outs, b[:0])
	}
}

func (p *pool) getBlock() *block {
	if n := len(p.blocks); n > 0 {
		b := p.blocks[n-1]
		p.blocks = p.blocks[:n-1]
		return b
	}
	return new(block)
}

func (p *pool) putBlock(b *block) {
	if b.next = nil; len(p.blocks) < keptBufs*4 {
		p.blocks = append(p.blocks, b)
	}
}

func (p *pool) getStream() *Stream {
	if n := len(p.opened); n > 0 {
		s := p.opened[n-1]
		p.opened = p.opened[:n-1]
		return s
	}
	s := new(Stream)
	s.self = s
	return s
}

// putStream takes back a stream that its owner has closed.
func (p *pool) putStream(s *Stream) {
	s.head.Reset()
	s.tail.Reset()
	s.request.Reset()
	if len(p.opened) < keptOpen {
		p.opened = append(p.opened, s)
	}
}

func (p *pool) getCall() *Call {
	if n := len(p.calls); n > 0 {
		k := p.calls[n-1]
		p.calls = p.calls[:n-1]
		return k
	}
	k := new(Call)
	k.self = k
	return k
}

// putCall takes back a call that its owner has closed.
func (p *pool) putCall(k *Call) {
	k.tail.Reset()
	if len(p.calls) < keptOpen {
		p.calls = append(p.calls, k)
	}
}

func (p *pool) getHead() *answerHead {
	if n := len(p.heads); n > 0 {
		a := p.heads[n-1]
		p.heads = p.heads[:n-1]
		return a
	}
	return new(answerHead)
}

func (p *pool) putHead(a *answerHead) {
	a.next = nil
	a.head.Reset()
	a.resp.Reset()
	if len(p.heads) < keptOpen {
		p.heads = append(p.heads, a)
	}
}
