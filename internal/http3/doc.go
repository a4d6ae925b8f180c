// Package http3 carries many requests over one QUIC connection, as RFC 9114 says.
//
//	fault.go    what is wrong with what a client sends, and the RFC's word on it
//	frame.go    frames: bytes and back
//	qpack.go    field sections: QPACK without a dynamic table (RFC 9204)
//	section.go  and back
//	server.go   a UDP socket: which connections begin, and under which ID
//	conn.go     a connection: its life, idle and parting
//	control.go  the streams that carry no request
//	priority.go whose turn it is to send (RFC 9218)
//	request.go  a request as it comes: a goroutine reads it
//	inbox.go    its content on the way from that goroutine to the loop
//	stream.go   a request as its owner on the loop sees it: a reactor.Stream
//	outbox.go   its answer on the way from the loop to a goroutine
//
// quic-go runs on ordinary goroutines, and everything that serves requests on a
// loop. They meet in a Stream, and nowhere else: the goroutine that reads a request
// fills its inbox and waits while that is full; the loop takes from it and never
// waits but in a task. The answer goes the other way: a short one is given to
// quic-go by the loop itself, in a call that does not wait; of a longer one the loop
// fills an outbox, and a goroutine that lives as long as the answer empties it. Who
// has something for the loop says so by Submit; who has something for a goroutine
// puts a token into a channel that has room for one.
//
// The frames are our own, not those of quic-go's package http3: that makes of each
// request an http.Request, whose header has lost what the rules of requests are
// about (order, spelling, a second authority), and parses it again by rules that are
// not ours.
package http3
