// Package hpack turns the header blocks of HTTP/2 into fields and back, as
// RFC 7541 says.
//
//	fault.go   what is wrong with a block, and the RFC's word on it
//	integer.go integers with a prefix
//	huffman.go strings in the Huffman code
//	static.go  the static table
//	table.go   the dynamic table
//	decode.go  blocks to fields
//	encode.go  fields to blocks
//
// A Decoder belongs to one connection and its peer's encoder: it must see every
// block, in order. The encoder keeps no state: it uses the static table and plain
// literals only.
//
// Whether names and values are fit for HTTP is not looked at here. hpack never
// logs, reads no clock and no socket, and allocates nothing once it is warm.
package hpack
