// Package guest boots a real Linux kernel with NUMA nodes of a shape that the test
// chooses, on any machine: QEMU emulates the CPUs (no KVM), and what is believed
// there is what the kernel's own files say. Only tests import it.
//
//	boot.go      a machine's shape, and its start
//	qemu.go      the shape as QEMU's arguments
//	cpio.go      the file system that the kernel starts with
//	guest.go     a running guest: files, control groups
//	process.go   programs in it
//	numa.go      where the kernel says that threads and pages are, and what CPU time they used
//	sockets.go   which process has which connection, as the kernel says
//	epoll.go     which thread waits for which connection
//	agent/       the program in the guest that does all that
//	order/       what is said to it, over a serial port
//
// Time inside runs several times slower than outside, and unevenly: a guest shows
// behaviour, never speed. It boots in seconds, so tests share one.
package guest
