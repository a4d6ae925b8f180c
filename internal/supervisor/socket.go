package supervisor

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
)

// listening is one address with its sockets. They stay open while a configuration
// names the address, whatever happens to the workers: a connection that waits in
// a socket's queue when its worker dies is taken by the next worker.
//
// They were put into the kernel's group one after the other, as they stand here,
// and its programs know each by its place in that order.
type listening struct {
	address string  // as configured; the identity over reloads, see sameAddress
	bound   string  // address; with the port that the kernel chose for port 0
	sockets [][]int // by worker, by loop; nil once closed
	packets bool    // they are for QUIC, not for TCP

	restBy  time.Time         // until when they are kept that no configuration names; zero: one does. Event loop only
	steered []unix.SockFilter // the program that the kernel was given last; nil: none. Event loop only
}

// openListening opens a socket for each loop of each worker on one address. They
// share it by SO_REUSEPORT (socket(7)), and the kernel spreads connections over
// them. The errors say which listener, why, and what to do.
//
// Any process of the same user that sets SO_REUSEPORT too would be let in by the
// kernel, and two programs would each get half of the connections. So the first
// socket is bound without the option, which fails if anybody listens there, and
// gets it afterwards, so that its siblings can join. shared skips this, for an
// address that overlaps one of our own.
func openListening(l config.Listener, workers []placement.Worker, shared bool) (*listening, error) {
	address, dual, err := parseAddress(l.Address)
	if err != nil {
		return nil, bindFault(l, "tcp", err)
	}
	group := &listening{address: l.Address, bound: l.Address, sockets: make([][]int, len(workers))}
	exclusive := !shared
	for i, w := range workers {
		for range w.Loops {
			fd, err := openSocket(address, dual, exclusive, l.Backlog)
			if dual && errors.Is(err, unix.EAFNOSUPPORT) { // a kernel without IPv6
				address, dual = netip.AddrPortFrom(netip.IPv4Unspecified(), address.Port()), false
				fd, err = openSocket(address, dual, exclusive, l.Backlog)
			}
			if err != nil {
				group.close()
				return nil, bindFault(l, "tcp", err)
			}
			group.sockets[i] = append(group.sockets[i], fd)
			exclusive = false
			if address.Port() == 0 {
				address = netip.AddrPortFrom(address.Addr(), boundPort(fd))
				group.bound = address.String()
			}
		}
	}
	return group, nil
}

// parseAddress reads [host]:port. Without a host it is every address of both
// families (dual). Names other than localhost were refused by package config: what
// they mean may change between two starts.
func parseAddress(text string) (address netip.AddrPort, dual bool, err error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return address, false, err
	}
	switch host {
	case "":
		host, dual = "::", true
	case "localhost":
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return address, false, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return address, false, fmt.Errorf("port %q is no number from 0 to 65535", port)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), dual, nil
}

// sameAddress tells whether two addresses mean the same sockets: "localhost:80" is
// "127.0.0.1:80". Opened anew beside the old ones they would join their group, and
// change places in it when those are closed. Port 0 is a new port each time.
func sameAddress(a, b string) bool {
	if a == b {
		return true
	}
	first, dual, err := parseAddress(a)
	second, alsoDual, alsoErr := parseAddress(b)
	return err == nil && alsoErr == nil && first.Port() != 0 && first == second && dual == alsoDual
}

// openSocket opens one listening socket: non-blocking, close-on-exec.
func openSocket(address netip.AddrPort, dual, exclusive bool, backlog int) (int, error) {
	family, sockaddr, err := sockaddrOf(address)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := bindAndListen(fd, family, sockaddr, dual, exclusive, backlog); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func bindAndListen(fd, family int, sockaddr unix.Sockaddr, dual, exclusive bool, backlog int) error {
	// A port may be taken again while connections of the last run are in TIME_WAIT.
	unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err := bindShared(fd, family, sockaddr, dual, exclusive); err != nil {
		return err
	}
	return os.NewSyscallError("listen", unix.Listen(fd, backlog))
}

// bindShared binds a socket so that others of the group can have the same address.
func bindShared(fd, family int, sockaddr unix.Sockaddr, dual, exclusive bool) error {
	if family == unix.AF_INET6 {
		v6only := 1
		if dual {
			v6only = 0
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, v6only); err != nil {
			return os.NewSyscallError("setsockopt IPV6_V6ONLY", err)
		}
	}
	sharePort := func() error {
		return os.NewSyscallError("setsockopt SO_REUSEPORT", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
	}
	if !exclusive {
		if err := sharePort(); err != nil {
			return err
		}
	}
	if err := unix.Bind(fd, sockaddr); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if exclusive {
		return sharePort()
	}
	return nil
}

func sockaddrOf(address netip.AddrPort) (family int, sockaddr unix.Sockaddr, err error) {
	ip := address.Addr()
	if ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(address.Port()), Addr: ip.As4()}, nil
	}
	s := &unix.SockaddrInet6{Port: int(address.Port()), Addr: ip.As16()}
	if zone := ip.Zone(); zone != "" {
		device, err := net.InterfaceByName(zone)
		if err != nil {
			return 0, nil, fmt.Errorf("zone %s: %w", zone, err)
		}
		s.ZoneId = uint32(device.Index)
	}
	return unix.AF_INET6, s, nil
}

// boundPort asks which port the kernel chose; 0 if it does not tell.
func boundPort(fd int) uint16 {
	sockaddr, err := unix.Getsockname(fd)
	if err != nil {
		return 0
	}
	switch s := sockaddr.(type) {
	case *unix.SockaddrInet4:
		return uint16(s.Port)
	case *unix.SockaddrInet6:
		return uint16(s.Port)
	}
	return 0
}

// setBacklog changes the length of the queues, which listen(2) allows at any time.
func (l *listening) setBacklog(backlog int) {
	for _, sockets := range l.sockets {
		for _, fd := range sockets {
			unix.Listen(fd, backlog)
		}
	}
}

// close closes our descriptors. The sockets go when the workers have closed theirs.
func (l *listening) close() {
	for _, sockets := range l.sockets {
		for _, fd := range sockets {
			unix.Close(fd)
		}
	}
	l.sockets = nil
}

// bindFault says which listener cannot be opened, why, and what to do about it.
func bindFault(l config.Listener, network string, err error) error {
	text, cure := err.Error(), ""
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		// Somebody listens there, or has a connection from that very port.
		text = "another process uses that port"
		cure = "; stop it, or choose another port (ss -" + network[:1] + "anp names the process)"
	case errors.Is(err, unix.EACCES):
		text = "permission denied"
		cure = fmt.Sprintf("; ports below %d are for root: give the binary the right (setcap cap_net_bind_service=+ep sluice; "+
			"AmbientCapabilities=CAP_NET_BIND_SERVICE in the systemd unit), or choose another port", firstFreePort())
	case errors.Is(err, unix.EADDRNOTAVAIL):
		text = "this machine has no such address"
		cure = `; write ":PORT" for all of its addresses (ip address lists them)`
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		cure = "; each loop has a socket of its own: raise the limit on open files (ulimit -n, LimitNOFILE)"
	}
	where := l.Address
	if network == "udp" {
		where += " by UDP, for HTTP/3"
	}
	if l.Name == l.Address { // it was given none
		return fmt.Errorf("cannot listen on %s: %s%s", where, text, cure)
	}
	return fmt.Errorf("listener %q: cannot listen on %s: %s%s", l.Name, where, text, cure)
}

// firstFreePort is the lowest port that everybody may bind (ip(7),
// ip_unprivileged_port_start).
func firstFreePort() int {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return 1024
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 1024
	}
	return port
}
