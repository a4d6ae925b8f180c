// Package tlsconn is a reactor.Stream over crypto/tls (TLS 1.2, RFC 5246; TLS 1.3,
// RFC 8446), for clients and for servers.
//
//	stream.go     the Stream: what of it reads, writes and ends
//	idle.go       how it lets go of task and buffers
//	record.go     where a record ends; the net.Conn that crypto/tls sees
//	handshake.go  the handshake; why one failed
//	socket.go     what is below: a loop's connection, or any Stream in tests
//	trim.go       what crypto/tls holds of memory while it waits
//
// crypto/tls holds a mutex while it writes and another while it reads, and would
// read ahead as much as it can. So it never meets the socket: it writes into a
// buffer, which is flushed when it holds nothing, and reads from one, out of which
// it gets one record at a time, and once the handshake is over only whole ones. It
// never waits then, and it is known what it has not delivered yet.
//
// A connection that is idle holds no buffer: what has come of a record that is not
// whole is put aside in as many bytes as it has.
package tlsconn
