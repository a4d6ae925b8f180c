// Package upstream holds the servers and the connections to them.
//
//	farm.go     farms and servers as configured; what is known of a server: addresses, failure
//	resolve.go  names to addresses, on a goroutine of its own
//	rotate.go   which server is next (weighted round robin)
//	pool.go     the connections of one loop: borrow and give back
//	sibling.go  connections between the loops of one worker
//
// A connection is borrowed for one request and given back when the response has
// been read to its end; whoever borrowed it gives it back, on every path, once.
// Idle connections belong to the node: a loop that has none takes one over from
// a sibling before it opens another, so that the server sees about as many
// connections as requests in flight.
package upstream
