// Package place moves running processes to a node: the CPUs of all their threads,
// then their memory. It is what cgclassify(1) did, without a group to prepare.
//
//	aim.go    which CPUs and which memory a node gives: pure
//	find.go   which processes: by number, or by the port that they listen on
//	mover.go  moves a family of processes, and keeps those there that join it
//	group.go  the control group that binds memory
//
// The kernel lets nobody set the memory policy of another process
// (set_mempolicy(2) is for the calling thread). It need not: a thread without a
// policy takes new pages from the node that it runs on, and from others when that
// is full. So a family whose threads and pages were moved prefers the node. To
// bind it there takes a control group with cpuset.mems.
package place
