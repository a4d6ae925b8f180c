// Package testkit lets tests meet real things: processes, sockets and the bytes
// on them. Only tests import it.
//
//	wait.go     a condition that comes true
//	process.go  a program, its output and its end
//	output.go   what a program has written so far
//	proc.go     what /proc knows of processes
//	port.go     a port for a program that must be told one
//	wire.go     messages as bytes, read strictly
//	client.go   the client's end of a connection
//	backend.go  a server that follows a script
//	load.go     many requests at once
//	authority.go  certificates, signed by one that a test makes
//
// Nothing here sleeps. Whoever waits watches for the thing itself, and gives up
// after Patience, which is far longer than anything should take: a slow machine
// makes a test slow and not red.
package testkit
