package proxy

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
)

// TestDawdler: who often keeps servers waiting has less time for it, for a while.
func TestDawdler(t *testing.T) {
	const s = int64(time.Second)
	var d dawdler
	now := 100 * s
	for _, c := range []struct {
		notes int
		after int64 // since the step before
		want  time.Duration
	}{
		{0, 0, 250 * time.Millisecond},
		{8, 0, 250 * time.Millisecond},
		{8, 0, 125 * time.Millisecond},
		{1984, 0, time.Millisecond},
		{0, s - 1, time.Millisecond},
		{0, 1, 2 * time.Millisecond},
		{0, 3 * s, 16 * time.Millisecond},
		{0, 3 * s, 2 * time.Second / 15},
		{0, s, 250 * time.Millisecond},
		{20, 100 * s, 100 * time.Millisecond},
		{0, 1 << 50, 250 * time.Millisecond},
	} {
		now += c.after
		for range c.notes {
			d.note(now)
		}
		if got := d.patience(now); got != c.want {
			t.Errorf("%d more, %v later: %v, want %v", c.notes, time.Duration(c.after), got, c.want)
		}
	}
}

// TestDawdlersAre: a network of IPv6 is one client, an address of IPv4 too, however it is
// written.
func TestDawdlersAre(t *testing.T) {
	var all dawdlers
	of := func(a string) *dawdler { return all.of(netip.MustParseAddr(a)) }
	if of("192.0.2.1") != of("::ffff:192.0.2.1") || of("2001:db8::1") != of("2001:db8::ffff:2") {
		t.Error("one client has two entries")
	}
	found := map[*dawdler]bool{}
	for a := netip.MustParseAddr("192.0.2.0"); len(found) < 8; a = a.Next() {
		if a == netip.MustParseAddr("192.0.3.0") {
			t.Fatal("256 addresses have hardly any entries")
		}
		found[all.of(a)] = true
	}
}

// Addresses of IPv6 are of a network by their first half.
func TestNetworks(t *testing.T) {
	for a, want := range map[string]string{
		"192.0.2.1": "192.0.2.1/32", "::ffff:192.0.2.1": "192.0.2.1/32", "2001:db8:1:2:3::4": "2001:db8:1:2::/64", "fe80::1%lo": "fe80::/64",
	} {
		if got := NetworkOf(netip.MustParseAddr(a)); got.String() != want {
			t.Errorf("%s is of %s, want %s", a, got, want)
		}
	}
}

// TestDawdlersGiveWay: a client that takes nothing of many answers holds the permits of
// the server for less than half of the time that each of them could.
func TestDawdlersGiveWay(t *testing.T) {
	const stalled, limit, long = 96, 4, 300_000
	synctest.Test(t, func(t *testing.T) {
		g := newGround("", nil)
		g.http1 = func(c *simConn) { // its answers' heads come with content
			for in := make([]byte, 4096); ; {
				n, err := c.Read(in)
				if err != nil {
					return
				}
				content := "short"
				if bytes.HasPrefix(in[:n], []byte("GET /long ")) {
					content = strings.Repeat("a", long)
				}
				c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(content)) + "\r\n\r\n" + content))
			}
		}
		s := newStage(t, g, &script{servers: 1, farm: []string{"admission: {limit: 4, timeout: 30s}"}})
		defer g.finish()
		defer s.close()
		well := g.visit(s)
		g.peer.Window = 2
		ill := g.visit(s)
		for range stalled {
			g.Submit(func() {
				call, err := ill.Call()
				if err != nil {
					t.Fatal(err)
				}
				call.Send(request(message.GET, "/long"), true)
			})
		}
		g.wait(10 * time.Millisecond)
		took := time.Duration(0)
		g.Submit(func() {
			since := g.Now()
			if got := well.get("/short"); got.content == "short" {
				took = time.Duration(g.Now() - since)
			}
		})
		g.wait(10 * time.Second)
		g.on(func() {
			if most := stalled / limit * slowAfter / 2; took == 0 || took > most {
				t.Errorf("another client waits for %v, want %v at most", took, most)
			}
			ill.Close()
			well.Close()
		})
		synctest.Wait()
		s.end()
	})
}
