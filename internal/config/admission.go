package config

import (
	"strconv"
	"strings"
)

// Fixed gives the number of a limit that is one.
func (l Limit) Fixed() (n int, ok bool) {
	n, err := strconv.Atoi(string(l))
	return n, err == nil
}

// Parts takes a key apart: client and host have no name, header and cookie have
// one. The empty key gives two empty texts.
func (k Key) Parts() (kind, name string) {
	kind, name, _ = strings.Cut(string(k), ":")
	return kind, name
}
