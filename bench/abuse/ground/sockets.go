package ground

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// sockets is a server of WebSockets on which nothing is said.
type sockets struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]struct{} // guarded by mu; nil: no more are taken
}

func serveSockets(listener net.Listener) *sockets {
	s := &sockets{listener: listener, open: map[net.Conn]struct{}{}}
	s.serving.Go(s.accept)
	return s
}

// port is where it listens on 127.0.0.1.
func (s *sockets) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *sockets) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		taken := s.open != nil
		if taken {
			s.open[conn] = struct{}{}
		}
		s.mu.Unlock()
		if !taken {
			conn.Close()
			return
		}
		s.serving.Go(func() { s.serve(conn) })
	}
}

// serve agrees to WebSocket (RFC 6455 4.2.2), and waits for the connection's end.
func (s *sockets) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.open, conn)
		s.mu.Unlock()
	}()
	asked, err := http.ReadRequest(bufio.NewReaderSize(conn, 2<<10))
	if err != nil {
		return
	}
	sum := sha1.Sum([]byte(asked.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		base64.StdEncoding.EncodeToString(sum[:]))
	io.Copy(io.Discard, conn)
}

// close ends all connections and waits for that.
func (s *sockets) close() {
	s.listener.Close()
	s.mu.Lock()
	for conn := range s.open {
		conn.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.serving.Wait()
}
