package tlsconn

import (
	"net"

	"sluice/internal/reactor"
)

// socket is what lies below TLS. *reactor.Buffered on a loop.
type socket interface {
	reactor.Stream
	TryRead(p []byte) (int, error) // reactor.ErrWait: nothing has come
	Late() bool                    // the read deadline has passed
	Ended() bool                   // the peer sends no more
	Start(job reactor.Job)
	Pending() int // bytes written and not yet sent
	Flush() error // sends them; may wait
	Push()        // sends what goes at once
}

// over makes a socket of conn; waits reports whether its calls wait by themselves.
func over(conn reactor.Stream) (s socket, waits bool) {
	if c, ok := conn.(*reactor.Conn); ok {
		return reactor.Buffer(c), false
	}
	return direct{conn}, true
}

// direct is any Stream whose tasks are goroutines, where crypto/tls may wait while
// it holds its mutexes. A TryRead waits.
type direct struct{ reactor.Stream }

func (d direct) TryRead(p []byte) (int, error) { return d.Read(p) }
func (d direct) Late() bool                    { return false }
func (d direct) Ended() bool                   { return false }
func (d direct) Start(job reactor.Job)         { go job.Run() }
func (d direct) Pending() int                  { return 0 }
func (d direct) Flush() error                  { return nil }
func (d direct) Push()                         {}

var _ net.Conn = (*feed)(nil)
