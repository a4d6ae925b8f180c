package supervisor

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/tlsterm/keyring"
)

// group3 is a listener with sockets for QUIC, one or two for each of three workers.
func group3(t *testing.T, address string) (*listening, []placement.Worker) {
	t.Helper()
	workers := []placement.Worker{on(0, 5000), on(1, 5001, 5002), on(2, 5003)} // CPUs from 5000 on nobody has
	wish := config.Listener{Name: "web", Address: address, Backlog: 1}
	tcp, err := openListening(wish, workers, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tcp.close)
	l, err := openPackets(wish, tcp, workers, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l, workers
}

// receivedBy sends a packet from a port of its own, and tells by place who gets it.
// The loopback device has delivered it when the call has returned.
func receivedBy(t *testing.T, l *listening, packet []byte) (place int) {
	t.Helper()
	c, err := net.Dial("udp", l.bound)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2000)
	for place, fd := range slices.Concat(l.sockets...) {
		if n, _, err := unix.Recvfrom(fd, buffer, unix.MSG_DONTWAIT); err == nil && n == len(packet) {
			return place
		}
	}
	t.Fatalf("nobody got a packet of %d bytes", len(packet))
	return -1
}

// short is a packet with a short header, to a connection of the socket at a place.
func short(place uint16) []byte {
	b := append([]byte{0x40}, make([]byte, packetIDLen+20)...)
	binary.BigEndian.PutUint16(b[1:], place)
	return b
}

// long is a packet with a long header to this connection ID.
func long(id []byte) []byte {
	b := append([]byte{0xc0, 0, 0, 0, 1, byte(len(id))}, id...)
	return append(b, make([]byte, 1200)...)
}

// ourID is a connection ID of the socket at a place.
func ourID(place uint16) []byte {
	return binary.BigEndian.AppendUint16(nil, place)[:2:2]
}

// The kernel gives the packets of connections of ours to the socket that stands in
// their ID, also where its worker is away, from whichever port they come; those of new
// ones to a socket that depends on nothing but the client's ID, and to no worker that
// is away.
func TestKernelSteersPackets(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, workers := group3(t, address)
		for _, absent := range [][]bool{{false, false, false}, {false, true, false}} {
			l.steer(config.Listener{Name: "web", Steering: config.SteerHash}, workers, absent)
			for place := range uint16(4) {
				for range 3 {
					if got := receivedBy(t, l, short(place)); got != int(place) {
						t.Errorf("%s, away %v: a short header of socket %d goes to %d", address, absent, place, got)
					}
					if got := receivedBy(t, l, long(append(ourID(place), "12345678"...))); got != int(place) {
						t.Errorf("%s, away %v: a long header of socket %d goes to %d", address, absent, place, got)
					}
				}
			}
			random := rand.New(rand.NewPCG(1, 2))
			seen := map[int]bool{}
			for n := range 64 {
				id := make([]byte, 8+n%13) // also as long as ours are
				for i := range id {
					id[i] = byte(random.Uint32())
				}
				id[0] |= 1 // no place of ours
				first := receivedBy(t, l, long(id))
				if again := receivedBy(t, l, long(id)); again != first {
					t.Errorf("%s: ID %x goes to %d, then to %d", address, id, first, again)
				}
				seen[first] = true
			}
			want := map[bool]string{false: "[0 1 2 3]", true: "[0 3]"}[absent[1]]
			if got := fmt.Sprint(sorted(seen)); got != want {
				t.Errorf("%s, away %v: new connections go to %s, want %s", address, absent, got, want)
			}
		}
		for _, odd := range [][]byte{{0x40}, {0xc0, 0, 0}, short(4), short(60000)} {
			receivedBy(t, l, odd) // somebody has it, and will throw it away
		}
	}
}

func sorted(set map[int]bool) (all []int) {
	for k := range set {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// By node, a new connection goes to the node whose CPU received it, whatever its ID.
func TestKernelSteersPacketsByNode(t *testing.T) {
	for _, cpu := range ourCPUs(t) {
		workers := []placement.Worker{on(0, 5000), on(1, cpu, 5001), on(2, 5002)}
		wish := config.Listener{Name: "web", Address: "127.0.0.1:0", Backlog: 1, Steering: config.SteerNode}
		tcp, err := openListening(wish, workers, false)
		if err != nil {
			t.Fatal(err)
		}
		defer tcp.close()
		l, err := openPackets(wish, tcp, workers, false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		l.steer(wish, workers, make([]bool, 3))
		seen := map[int]bool{}
		onCPU(t, cpu, func() {
			for i := range 32 {
				seen[receivedBy(t, l, long(fmt.Appendf(nil, "abc%c client", i)))] = true
			}
			if got := receivedBy(t, l, short(3)); got != 3 {
				t.Errorf("a connection of socket 3 goes to %d", got)
			}
		})
		if got := fmt.Sprint(sorted(seen)); got != "[1 2]" {
			t.Errorf("CPU %d: new connections go to %s, want both of worker 1", cpu, got)
		}
	}
}

// One socket makes no group, and needs no program; a taken port is told as UDP's.
func TestPacketSockets(t *testing.T) {
	workers := []placement.Worker{on(0, 5000)}
	wish := config.Listener{Name: "web", Address: "127.0.0.1:0", Backlog: 1}
	tcp, err := openListening(wish, workers, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.close()
	l, err := openPackets(wish, tcp, workers, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.steer(config.Listener{Name: "web", Steering: config.SteerHash}, workers, []bool{false})
	if l.steered != nil {
		t.Error("a group of one has a program")
	}
	receivedBy(t, l, short(0))
	if _, err := openPackets(wish, tcp, workers, false); err == nil || !strings.Contains(err.Error(), "by UDP, for HTTP/3: another process uses that port") ||
		!strings.Contains(err.Error(), "ss -uanp") {
		t.Errorf("a port that is taken: %v", err)
	}
}

// A reload keeps the sockets for QUIC of a listener that stays, opens them where
// HTTP/3 is new, and keeps them for a while where it is no longer spoken: for whoever
// speaks it again. The keys stay.
func TestEditionsShareSocketsForPackets(t *testing.T) {
	with, without := []string{config.HTTP1, config.HTTP3}, []string{config.HTTP1}
	listener := func(protocols []string) *config.Config {
		cfg := config.Default()
		cfg.Listeners[0].Address, cfg.Listeners[0].Protocols = "127.0.0.1:0", protocols
		return cfg
	}
	workers := crew(2, 1)
	shared := newSegment(t, 8)
	var last *edition
	var sockets []*listening
	now := time.Now()
	for i, protocols := range [][]string{with, with, without, with, without, without, with} {
		e, err := newEdition(listener(protocols), &keyring.Ring{}, uint64(i+1), last, workers, shared)
		if err != nil {
			t.Fatal(err)
		}
		if last != nil {
			last.closeBut(e)
		}
		if i < 5 {
			now = now.Add(20 * time.Second)
		}
		e.rest(now)
		if last != nil && fmt.Sprint(e.quic) != fmt.Sprint(last.quic) {
			t.Error("the keys are others after a reload")
		}
		if i == 5 { // they rest since the edition before
			by := now.Add(time.Duration(e.config.Timeouts.Drain) + restSlack)
			early, late := &alarm{now: by.Add(-1), next: by.Add(time.Hour)}, &alarm{now: by}
			if e.relieve(early); len(e.resting) != 1 || early.acted || !early.next.Equal(by) {
				t.Errorf("%d groups are kept, until %v, want 1 until %v", len(e.resting), early.next, by)
			}
			if e.relieve(late); len(e.resting) != 0 || !late.acted {
				t.Errorf("%d groups are kept for too long", len(e.resting))
			}
		}
		sockets = append(sockets, e.packets[0])
		last = e
	}
	defer last.closeBut(nil)
	if sockets[0] != sockets[1] || sockets[2] != nil || sockets[3] != sockets[0] {
		t.Errorf("sockets over four editions: %v", sockets)
	}
	if sockets[6] == nil || sockets[6] == sockets[0] || sockets[0].sockets != nil {
		t.Errorf("sockets of an edition that comes too late: %v", sockets)
	}
	if sockets[6].bound != last.listening[0].bound {
		t.Errorf("UDP on %s, TCP on %s", sockets[6].bound, last.listening[0].bound)
	}
}
