// Package tcp serves raw TCP: a client's connection goes to a server as it is.
//
// The life of a connection, with the numbers that stand in the code:
//
//	1 route: the name in its ClientHello, or none → farm   link.go, routes.go, sni
//	2 balance: which server                                connect.go, upstream
//	3 connect, and try others                              connect.go, upstream
//	4 bytes both ways                                      tunnel
//	5 count, log                                           finish.go
//
// A link is a client connection. While its ClientHello is incomplete, and while
// nothing moves, it holds neither task nor buffer. All belongs to one loop.
package tcp
