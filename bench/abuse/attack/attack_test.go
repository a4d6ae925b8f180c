package attack

import (
	"context"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

const patience = time.Minute

func TestTally(t *testing.T) {
	var sum Tally
	sum.Add(Tally{Seconds: 1, Connections: 2, Refused: 3, Strikes: 4, Ends: map[string]int64{"RST": 1, "closed": 2}})
	sum.Add(Tally{Seconds: 1, Connections: 2, Refused: 3, Strikes: 4, Ends: map[string]int64{"RST": 7}})
	if sum.Seconds != 2 || sum.Connections != 4 || sum.Refused != 6 || sum.Strikes != 8 || !slices.Equal(sum.Codes(), []string{"RST", "closed"}) {
		t.Errorf("got %+v, %v", sum, sum.Codes())
	}
}

func TestClasses(t *testing.T) {
	names := Names()
	if slices.Sort(names); len(slices.Compact(names)) != len(Classes) {
		t.Error("two classes have one name")
	}
	for _, c := range Classes {
		if found, is := Find(c.Name); !is || found.Does != c.Does || c.Does == "" || c.Hands < 1 {
			t.Errorf("%+v", c)
		}
	}
	if _, is := Find("other"); is {
		t.Error("found what is not there")
	}
}

// silent takes connections, and says nothing on them.
func silent(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// TestEnds: every attack ends with its context, on a proxy that takes all and says nothing.
func TestEnds(t *testing.T) {
	at := silent(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	for _, c := range Classes {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer stop()
			c.Hands = 2
			over := make(chan Tally, 1)
			go func() { over <- Run(ctx, c, Target{Plain: at, Secure: at}) }()
			select {
			case tally := <-over:
				if len(tally.Ends) > 0 {
					t.Errorf("the proxy is said to have ended connections: %v", tally.Ends)
				}
			case <-time.After(patience):
				t.Fatal("it does not end")
			}
		})
	}
}

// TestComesAgain: an attacker whose connection is ended notes by which code, and opens
// another.
func TestComesAgain(t *testing.T) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	connections := make(chan struct{}, 100)
	at := silent(t, func(conn net.Conn) {
		f := http2.NewFramer(conn, conn)
		io.ReadFull(conn, make([]byte, len(http2.ClientPreface)))
		for pings := 0; pings < 10; {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FramePing {
				pings++
			}
		}
		f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, nil)
		if connections <- struct{}{}; len(connections) > 3 {
			stop()
		}
		io.Copy(io.Discard, conn)
	})
	c, _ := Find("ping")
	c.Hands = 1
	tally := Run(ctx, c, Target{Plain: at})
	if n := tally.Ends["ENHANCE_YOUR_CALM"]; n < 3 || tally.Connections < n || tally.Strikes < 10*n || len(tally.Ends) != 1 {
		t.Errorf("got %+v", tally)
	}
}

// TestHello: what is sent to begin a handshake is one record with a ClientHello (RFC 8446
// 4.1.2, 5.1).
func TestHello(t *testing.T) {
	b := hello()
	if len(b) < 100 || b[0] != 22 || b[5] != 1 || len(b) != 5+int(b[3])<<8+int(b[4]) {
		t.Errorf("% x", b)
	}
}
