// Package http2 carries many requests over one connection, as RFC 9113 says.
//
//	fault.go     what is wrong with what the peer sends, and the RFC's word on it
//	frame.go     frames: bytes and back
//	calm.go      what a peer may do that leads to nothing, and for how long
//	conn.go      a connection: its life, its deadlines
//	read.go      frames that come, in the order of their types
//	settings.go  SETTINGS, both ways
//	streams.go   which streams there are, and which there were
//	stream.go    one stream as a reactor.Stream
//	queue.go     content that has come and was not read yet
//	window.go    how much may come: windows, that grow where the way is long
//	send.go      content that goes out: windows, turns, the one flush per turn
//	priority.go  whose turn it is (RFC 9218)
//	section.go   field sections: unpacked, late ones, trailers
//	server.go    connections from clients: streams begin, drain
//	request.go   fields to a request, and what is refused
//	respond.go   answers to frames
//	client.go    connections to servers: calls, room, GOAWAY
//	call.go      a request to frames, fields to an answer
//	pool.go      what connections of a loop lend each other
//
// A connection belongs to one loop, and nothing in it has a lock. One task reads
// frames and never waits for anything but bytes; one writes what was gathered in
// its turn, so that the answers of many streams share one write; each stream's
// owner reads and writes in tasks of its own, as if the stream were a socket.
// While nothing comes a connection has neither task nor buffer.
//
// What a peer may have us hold or do is bounded: content by windows that open
// only as it is read, fields by limits, everything that leads to nothing by a
// budget. What http1 would refuse in a request is refused here as well, so that
// translation lets nothing through.
package http2
