package supervisor

import (
	"crypto/rand"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/spec"
)

// The sockets for QUIC stand beside those for TCP: one for each loop of each worker,
// in a group of their own with places in the same order. A packet of a connection
// that there is already carries a connection ID of ours, in which the place of its
// socket stands (http3.Identity), and so comes to its worker from wherever the client
// sends it. All other packets begin connections, and are steered as connections of TCP
// are; but by no lot, since the packets of one attempt must meet: where a part of the
// CPUs has several sockets the client's first connection ID chooses, which is random
// and stays the same until we have answered (RFC 9000 7.2).

// What stands where in a packet (RFC 8999 5), bytes.
const (
	longHeader  = 0x80 // bit of the first byte
	atShortID   = 1    // in a packet with a short header
	atIDLength  = 5    // in one with a long header
	atLongID    = 6
	packetIDLen = 10 // of IDs that are ours: http3.IDBytes
)

// compileForPackets makes the program for a group of so many sockets for QUIC; parts
// are for packets that are of no connection of ours.
func compileForPackets(parts []part, sockets int) ([]unix.SockFilter, error) {
	const next = 10 // where what follows begins
	jump := func(code uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | code | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	byteAt := func(at uint32) unix.SockFilter { return op(unix.BPF_LD|unix.BPF_B|unix.BPF_ABS, at) }
	placeAt := func(at uint32) unix.SockFilter { return op(unix.BPF_LD|unix.BPF_H|unix.BPF_ABS, at) }
	prefix := []unix.SockFilter{
		byteAt(0),
		jump(unix.BPF_JSET, longHeader, 3, 0),
		placeAt(atShortID),
		jump(unix.BPF_JGE, uint32(sockets), next-4, 0),
		op(unix.BPF_RET|unix.BPF_A, 0),
		byteAt(atIDLength),
		jump(unix.BPF_JEQ, packetIDLen, 0, next-7),
		placeAt(atLongID),
		jump(unix.BPF_JGE, uint32(sockets), next-9, 0), // somebody else's ID of that length
		op(unix.BPF_RET|unix.BPF_A, 0),
	}
	return assembleProgram(prefix, op(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, atLongID), parts)
}

// openPackets opens the sockets for QUIC of a listener, on the address that its
// sockets for TCP are bound to. shared is as for openListening.
func openPackets(l config.Listener, beside *listening, workers []placement.Worker, shared bool) (*listening, error) {
	address, dual, err := parseAddress(beside.bound)
	if err != nil {
		return nil, bindFault(l, "udp", err)
	}
	group := &listening{address: l.Address, bound: beside.bound, sockets: make([][]int, len(workers)), packets: true}
	exclusive := !shared
	for i, w := range workers {
		for range w.Loops {
			fd, err := openPacketSocket(address, dual, exclusive)
			if err != nil {
				group.close()
				return nil, bindFault(l, "udp", err)
			}
			group.sockets[i] = append(group.sockets[i], fd)
			exclusive = false
		}
	}
	return group, nil
}

// openPacketSocket opens one socket: non-blocking, close-on-exec. Nobody may bind the
// address beside us by SO_REUSEADDR, which for UDP would mean to take our packets
// (socket(7)).
func openPacketSocket(address netip.AddrPort, dual, exclusive bool) (int, error) {
	family, sockaddr, err := sockaddrOf(address)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := bindShared(fd, family, sockaddr, dual, exclusive); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// placeOf is the place in the group of the first socket of a worker.
func (l *listening) placeOf(worker int) (place int) {
	for _, sockets := range l.sockets[:worker] {
		place += len(sockets)
	}
	return place
}

// newQUIC draws the keys that all workers share.
func newQUIC() spec.QUIC {
	q := spec.QUIC{Reset: make([]byte, quicKeyBytes), Token: make([]byte, quicKeyBytes)}
	rand.Read(q.Reset) // never fails
	rand.Read(q.Token)
	return q
}

// quicKeyBytes is how long such a key is: as what HMAC-SHA256 makes of it.
const quicKeyBytes = 32
