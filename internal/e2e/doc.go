// Package e2e tries the whole of Sluice as its users meet it: the binary, real
// clients before it and real servers behind it. It has no code but tests.
//
//	main_test.go      builds the binary that all tests run
//	race_*_test.go    with the race detector inside, if the tests have it
//	sluice_test.go    a running Sluice, and what an operator asks it
//	nginx_test.go     nginx as a server
//	caddy_test.go     Caddy as a server
//	forward_test.go   what passes: methods, bodies, fields, addresses
//	stream_test.go    what passes before a message is complete
//	request_test.go   requests that must be refused
//	response_test.go  responses that must be refused
//	client_test.go    clients that are slow, leave, or wait
//	backend_test.go   servers that close, stall, answer early
//	balance_test.go   several servers, and those that fail
//	log_test.go       the access log
//	reload_test.go    configurations come and go under load
//	process_test.go   processes die, drain and run out of descriptors
//	frames_test.go    a server of HTTP/2, frame by frame
//	http2_*_test.go   servers of HTTP/2, and what they may do wrong
//	grpc_test.go      gRPC's own client and server, of testdata/interop
//	h2spec_test.go    HTTP/2 as h2spec has it
//	abuse_test.go     HTTP/2 that is meant to do harm
//	interop_test.go   clients over GnuTLS, NSS, OpenSSL and Java's own TLS
//	browser_test.go   Chromium and Firefox with the page of testdata/browser.html
//	mixed_*test.go    clients of all protocols on one port
//	downgrade_test.go requests of HTTP/2 that would be others as HTTP/1.1
//	websocket_*.go    WebSockets: their bytes, and how long they live
//	crowd_test.go     thousands of slow clients
//	chaos_test.go     everything at once, and what is left of it
//	storm_*test.go    the same of all protocols on one port, while all changes that can
//	admin_test.go     the admin interface and the commands
//	guest_*_test.go   several workers, on a real kernel with NUMA nodes
//
// TestSlowCrowd brings as many clients as SLUICE_E2E_CROWD in the environment says;
// 10000 is what Sluice must bear. The limit of open files must be above it.
// TestStormOnOnePort begins from SLUICE_E2E_SEED, or from 1.
package e2e
