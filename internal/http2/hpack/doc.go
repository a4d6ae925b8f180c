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
// literals only. For an answer of 8 fields (BenchmarkEncode) that takes 0.11 µs and
// 152 bytes; in the Huffman code 0.35 µs and 120 bytes; by x/net, with a table, 0.5 µs
// and, once warm, 8 bytes. That saves a byte for 3 to 7 ns; to encrypt one takes less
// than 1.
//
// Whether names and values are fit for HTTP is not looked at here. hpack never
// logs, reads no clock and no socket, and allocates nothing once it is warm.
package hpack
