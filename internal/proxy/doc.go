// Package proxy takes a request from its first byte to its last.
//
// The life of a request, with the numbers that stand in the code:
//
//	 1 limits and framing checks      session.go, http1
//	 2 route: host, path → farm       exchange.go
//	 3 rewrite                        exchange.go, request.go
//	 4 gate: hold until a permit      collect.go, hold.go, wishes.go, admission
//	 5 balance: which server          hold.go, cross.go, upstream
//	 6 borrow a connection            exchange.go, upstream
//	 7 write head, move the body      request.go, upload.go
//	 8 read the response head, retry  answer.go
//	 9 move the response body         answer.go, download.go; tunnel.go
//	10 give back, count, log          finish.go
//
// The steps know messages. What of a message is said how in which protocol, stands in
// forms.go: over HTTP/1.1 both ends are connections, over HTTP/2 and HTTP/3 streams
// (stream.go), which come in by streams.go and http2.go. What gRPC asks for beyond
// HTTP is in grpc.go, and web.go for browsers.
//
// A session is a client connection, or a stream of one that carries many; while it is
// idle it is one small struct. An
// exchange is one request and its answer; it holds all that is needed meanwhile
// and is used again for the next, also while its own request is paused. Both belong
// to one loop.
//
// What a client of HTTP/2 can have us hold on one connection: SpareUploads of content that
// was not read, and for each of limits.streams UploadWindow of that, its head, and a buffer
// of 64 KiB while its content is awaited; while it is at a server, two of these, and of an
// answer that the client does not take callWindow besides, or up to widestCall if it had
// taken the answer fast until then: of that all clients together spareCalls on each
// connection to a server. A stream that is reset keeps that until its
// task has ended, so up to twice as many may be there.
//
// Whatever goes wrong is a Failure: who, in which phase, may it be sent again.
// One table (failure.go) turns it into a status.
package proxy
