package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/config"
	"sluice/internal/reactor"
	"sluice/internal/tlsconn"
)

// HandshakeError: a server was reached, and no connection over TLS came about. What
// was to be sent has not been.
type HandshakeError struct {
	Server string // URL
	Err    error
}

func (e *HandshakeError) Error() string {
	var header tls.RecordHeaderError
	if errors.As(e.Err, &header) {
		return fmt.Sprintf("no TLS with %s: it answers with something else (%q); is it https?", e.Server, header.RecordHeader[:])
	}
	return fmt.Sprintf("no TLS with %s: %v", e.Server, e.Err)
}

// Unwrap gives the cause: an error of crypto/tls or crypto/x509, os.ErrDeadlineExceeded
// or one of the connection.
func (e *HandshakeError) Unwrap() error { return e.Err }

// security is how a server that is https:// is met. Immutable.
type security struct {
	config *tls.Config
	wish   *config.FarmTLS // of which config was made
}

// sessions is the latest session of a server, with which the next handshake of any
// loop of the worker costs less (RFC 8446 2.2). That one session serves several
// connections lets an onlooker see that they have one client, which is no secret
// between a proxy and its servers (RFC 8446 C.4).
type sessions struct {
	latest atomic.Pointer[tls.ClientSessionState]
}

// Get implements tls.ClientSessionCache.
func (s *sessions) Get(string) (*tls.ClientSessionState, bool) {
	session := s.latest.Load()
	return session, session != nil
}

// Put implements tls.ClientSessionCache; nil is one that is of no use any more.
func (s *sessions) Put(_ string, session *tls.ClientSessionState) { s.latest.Store(session) }

// Secure tells how servers that are https:// are met, by farm of the configuration
// that is applied next. Without it, nobody is trusted.
func (s *Servers) Secure(configs []*tls.Config) { s.configs = configs }

// Renew is Secure for the configuration in effect, of which only files have changed:
// certificates, and those that sign them. Connections stay.
func (s *Servers) Renew(cfg *config.Config, configs []*tls.Config) {
	s.configs = configs
	for _, st := range s.states {
		if was := st.security.Load(); was != nil {
			i := slices.IndexFunc(cfg.Farms, func(f config.Farm) bool { return f.Name == st.farm })
			st.security.Store(s.securityOf(&cfg.Farms[i], i, was.config.ServerName, st))
		}
	}
}

// securityOf is how a server of farm i is met whose certificate is for name.
func (s *Servers) securityOf(f *config.Farm, i int, name string, st *State) *security {
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	if i < len(s.configs) && s.configs[i] != nil {
		c = s.configs[i].Clone()
	}
	c.ServerName, c.ClientSessionCache = name, &st.sessions
	return &security{c, f.TLS}
}

// nameOf is what the certificate of a server must be for.
func nameOf(f *config.Farm, sc config.Server) string {
	if f.TLS != nil && f.TLS.Name != "" {
		return f.TLS.Name
	}
	return sc.Host()
}

// secure speaks TLS on a new connection to a server, if that is https://. It has so
// long for it.
func (p *Pool) secure(s *State, conn reactor.Stream, within time.Duration) (reactor.Stream, error) {
	how := s.security.Load()
	if how == nil {
		return conn, nil
	}
	stream := tlsconn.Client(conn, how.config)
	stream.SetReadTimeout(max(within, 1))
	stream.SetWriteTimeout(max(within, 1))
	if err := stream.Handshake(); err != nil {
		stream.Close()
		err := &HandshakeError{s.URL, err}
		s.trouble.tell(err)
		return nil, err
	}
	stream.SetReadTimeout(0)
	stream.SetWriteTimeout(0)
	return stream, nil
}

// Refused makes a HandshakeError of an alert that came in the place of an answer: in TLS
// 1.3 a server that does not like our certificate, or wants one, says so after the
// handshake (RFC 8446 4.4.2.4). Other errors it gives back as they are.
func (c *Conn) Refused(err error) error {
	var alert *net.OpError
	if !errors.As(err, &alert) || alert.Op != "remote error" {
		return err
	}
	refusal := &HandshakeError{c.server.URL, err}
	c.server.trouble.tell(refusal)
	return refusal
}

// Protocol is what the server has agreed to speak over TLS (ALPN); empty: it has not
// said, or there is no TLS.
func (c *Conn) Protocol() string {
	if stream, ok := c.Stream.(*tlsconn.Stream); ok {
		return stream.ConnectionState().NegotiatedProtocol
	}
	return ""
}

// tellEach is how long a server's handshakes may fail before that is told again.
const tellEach = 10 * time.Second

// trouble writes to the log what is wrong with servers' TLS: the access log has only
// a word for it. A loop leaves word and goes on.
type trouble struct {
	words chan *HandshakeError
	ended sync.WaitGroup
}

// told are failures of one server that are not in the log yet. Any goroutine.
type told struct {
	to    *trouble
	until atomic.Int64 // Unix ns: told again from then on
}

func newTrouble() *trouble {
	t := &trouble{words: make(chan *HandshakeError, 64)}
	t.ended.Go(t.write)
	return t
}

// tell has a failure logged, unless one of the server was lately.
func (o *told) tell(err *HandshakeError) {
	now, until := time.Now().UnixNano(), o.until.Load()
	if o.to == nil || now < until || !o.until.CompareAndSwap(until, now+int64(tellEach)) {
		return
	}
	select {
	case o.to.words <- err:
	default: // so many servers fail that one more tells nothing new
	}
}

func (t *trouble) write() {
	for err := range t.words {
		slog.Error("a server cannot be used over TLS", "server", err.Server, "error", err)
	}
}

func (t *trouble) close() {
	close(t.words)
	t.ended.Wait()
}
