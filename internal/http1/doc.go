// Package http1 turns bytes into messages and back, as RFC 9110 and RFC 9112 say.
//
//	fault.go     what is wrong with a message, and the RFC's word on it
//	chars.go     which bytes may stand where
//	fields.go    field lines
//	framing.go   what they say about the body and the connection; which end here
//	request.go   request line and target
//	host.go      hosts and ports
//	semantics.go what a request's fields mean to a proxy
//	response.go  status line, framing of responses
//	body.go      where a body ends; chunked decoding; trailers
//	chunkext.go  chunk extensions
//	write.go     messages to bytes
//
// What is ambiguous is refused, never repaired: whoever parses the same bytes
// behind us must come to the same messages (request smuggling, RFC 9112 11.2).
// http1 never logs, reads no clock and no socket, and allocates nothing: heads
// and bodies are slices into the caller's buffer.
package http1
