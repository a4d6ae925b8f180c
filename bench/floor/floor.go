// Package floor has the program text of the backend that all benches share, and of
// the relay that is the physical limit of a proxy (floor.c).
package floor

import _ "embed"

// Source is the text, in C.
//
//go:embed floor.c
var Source []byte
