package hpack

import "errors"

// Fault is what is wrong with a block. It ends the connection, with
// COMPRESSION_ERROR (RFC 9113 4.3): the tables of both sides are no longer known
// to be the same. All faults are fixed values, so that refusing costs nothing.
type Fault struct {
	Rule    string // what would be right
	Section string // where that is written
}

func (f *Fault) Error() string { return f.Rule + " (" + f.Section + ")" }

var (
	errTruncated  = &Fault{"a header block must end with a whole field", "RFC 7541 3.1"}
	errInteger    = &Fault{"an integer must not have more than 4 bytes behind its prefix", "RFC 7541 5.1"}
	errHuffman    = &Fault{"a Huffman-coded string must hold no EOS and end with fewer than 8 one bits", "RFC 7541 5.2"}
	errIndex      = &Fault{"an index must be that of an entry in one of the tables", "RFC 7541 2.3.3"}
	errLateUpdate = &Fault{"a table size update must stand before all fields of a block", "RFC 7541 4.2"}
	errUpdates    = &Fault{"a block must not begin with more than two table size updates", "RFC 7541 4.2"}
	errTableSize  = &Fault{"a table size must not be above the SETTINGS_HEADER_TABLE_SIZE that was announced", "RFC 7541 6.3"}
	errNoUpdate   = &Fault{"after a smaller SETTINGS_HEADER_TABLE_SIZE a block must begin with a table size update", "RFC 7541 4.2"}
)

var (
	// ErrTooLarge means that the list of fields is above Limits.List or
	// Limits.Fields. The block was read to its end and the Decoder is in step: this
	// is about one stream, whose request can be answered with 431 (RFC 6585 5).
	ErrTooLarge = errors.New("the header list must not have more bytes or fields than announced (RFC 9113 10.5.1)")

	// ErrBeyond means that the list is above Limits.Beyond. The rest of the block
	// was not read, so the connection cannot go on: ENHANCE_YOUR_CALM (RFC 9113 7).
	ErrBeyond = errors.New("the header list is so far above what was announced that it is not read to its end (RFC 9113 10.5.1)")
)
