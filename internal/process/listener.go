package process

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Listener is a listening stream socket of this network name space.
type Listener struct {
	Address netip.AddrPort // of TCP
	Path    string         // of a Unix socket; one that begins with "@" is abstract
	Inode   uint64         // by which the descriptors of its owners are known
}

// TCP lists the sockets that listen on a port of TCP, over IPv4 first. A name
// space of another container is not seen.
func TCP(tree fs.FS, port uint16) ([]Listener, error) {
	all, err := AllTCP(tree)
	return slices.DeleteFunc(all, func(l Listener) bool { return l.Address.Port() != port }), err
}

// AllTCP lists the sockets that listen on any port, likewise.
func AllTCP(tree fs.FS) (all []Listener, err error) {
	for _, name := range [...]string{"proc/net/tcp", "proc/net/tcp6"} {
		some, err := listening(tree, name)
		if err != nil && name == "proc/net/tcp" { // a kernel without IPv6 has no file of it
			return nil, fmt.Errorf("listening sockets: %w", err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// listening reads the listening sockets, which the kernel lists before all others
// (tcp_seq_start in its net/ipv4/tcp_ipv4.c): what follows may be a hundred thousand
// connections, each of which would cost it time.
func listening(tree fs.FS, name string) (all []Listener, err error) {
	file, err := tree.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Scan() // the heading
	for lines.Scan() {
		l, ok := tcpLine(lines.Text())
		if !ok {
			break
		}
		all = append(all, l)
	}
	return all, lines.Err()
}

// listens is the state of a listening socket of TCP (TCP_LISTEN in the kernel's
// include/net/tcp_states.h).
const listens = "0A"

// tcpLine reads a line of /proc/net/tcp (proc_pid_net(5)): slot, local address,
// remote address, state, and the inode as the tenth word.
func tcpLine(line string) (Listener, bool) {
	words := strings.Fields(line)
	if len(words) < 10 || words[3] != listens {
		return Listener{}, false
	}
	address, ok := hexAddress(words[1])
	inode, err := strconv.ParseUint(words[9], 10, 64)
	return Listener{Address: address, Inode: inode}, ok && err == nil
}

// hexAddress reads "0100007F:1F90": an address as words of 32 bits in the order of
// this machine's bytes, which is little-endian wherever Sluice runs, and a port.
func hexAddress(text string) (netip.AddrPort, bool) {
	host, service, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(host)
	port, err2 := strconv.ParseUint(service, 16, 16)
	if cmp.Or(err, err2) != nil {
		return netip.AddrPort{}, false
	}
	for i := 0; i+4 <= len(bytes); i += 4 {
		slices.Reverse(bytes[i : i+4])
	}
	address, ok := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(address, uint16(port)), ok
}

// Unix lists the sockets that listen at a path; "@name" is an abstract one.
func Unix(tree fs.FS, path string) ([]Listener, error) {
	all, err := AllUnix(tree)
	return slices.DeleteFunc(all, func(l Listener) bool { return l.Path != path }), err
}

// AllUnix lists the sockets that listen at any path.
func AllUnix(tree fs.FS) (all []Listener, err error) {
	text, err := fs.ReadFile(tree, "proc/net/unix")
	if err != nil {
		return nil, fmt.Errorf("listening sockets: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if l, ok := unixLine(line); ok {
			all = append(all, l)
		}
	}
	return all, nil
}

// accepts is the flag of a listening Unix socket (__SO_ACCEPTCON in the kernel's
// include/uapi/linux/net.h).
const accepts = 1 << 16

// unixLine reads a line of /proc/net/unix (proc_pid_net(5)): number, references,
// protocol, flags, type, state, inode, path.
func unixLine(line string) (Listener, bool) {
	words := strings.SplitN(strings.Join(strings.Fields(line), " "), " ", 8)
	if len(words) < 8 {
		return Listener{}, false
	}
	flags, err := strconv.ParseUint(words[3], 16, 64)
	inode, err2 := strconv.ParseUint(words[6], 10, 64)
	return Listener{Path: words[7], Inode: inode}, cmp.Or(err, err2) == nil && flags&accepts != 0
}

// Owners lists the processes that have one of the sockets open, ascending: several
// if a socket was inherited, or if each of them has one of its own (SO_REUSEPORT).
// Hidden is how many processes we have no right to look into; an owner may be
// among them.
func Owners(tree fs.FS, listeners []Listener) (owners []Process, hidden int, err error) {
	all, err := All(tree)
	if err != nil {
		return nil, 0, err
	}
	wanted := map[string]bool{}
	for _, l := range listeners {
		wanted[fmt.Sprintf("socket:[%d]", l.Inode)] = true
	}
	for _, p := range all {
		dir := fmt.Sprintf("proc/%d/fd", p.PID)
		entries, err := fs.ReadDir(tree, dir)
		if errors.Is(err, fs.ErrPermission) {
			hidden++
		}
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			target, err := fs.ReadLink(tree, dir+"/"+e.Name())
			return err == nil && wanted[target]
		}) {
			owners = append(owners, p)
		}
	}
	return owners, hidden, nil
}
