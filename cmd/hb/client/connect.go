package client

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"
)

// Terms are what a TLS handshake came to.
type Terms struct {
	Version uint16 // as in crypto/tls
	Cipher  uint16
	Curve   tls.CurveID // of the key exchange; 0: none
	Resumed bool
}

func (t Terms) String() string {
	text := tls.VersionName(t.Version) + ", " + tls.CipherSuiteName(t.Cipher)
	if t.Curve != 0 {
		text += ", " + CurveName(t.Curve)
	}
	return text
}

// CurveName is a curve's name as people write it.
func CurveName(c tls.CurveID) string {
	if digits, found := strings.CutPrefix(c.String(), "CurveP"); found {
		return "P-" + digits
	}
	return c.String()
}

// connect opens a connection for a request, and shakes hands if the remote speaks
// TLS.
func (c *Client) connect(r *Request, a *Answer) (net.Conn, error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.ConnectTimeout)
	defer cancel()
	conn, err := c.opts.Dial(ctx, r.Address)
	if err != nil {
		return nil, err
	}
	if r.TLS {
		if conn, err = c.secure(ctx, conn, r, a); err != nil {
			return nil, err
		}
	}
	a.Connects++
	a.Connect += time.Since(begin)
	return conn, nil
}

// secure shakes hands. A server that will not speak the client's protocol is a
// failure: the measurement would be of another.
func (c *Client) secure(ctx context.Context, conn net.Conn, r *Request, a *Answer) (net.Conn, error) {
	begin := time.Now()
	secured := tls.Client(conn, c.configFor(r))
	err := secured.HandshakeContext(ctx)
	if err != nil {
		conn.Close()
		return nil, &handshakeError{err}
	}
	state := secured.ConnectionState()
	if c.opts.Protocol == HTTP2 && state.NegotiatedProtocol != "h2" {
		conn.Close()
		return nil, &handshakeError{fmt.Errorf("the server chose %q of ALPN, not h2", state.NegotiatedProtocol)}
	}
	a.shookHands(state, time.Since(begin))
	return secured, nil
}

// configFor is the TLS configuration with the name that the server shall have.
func (c *Client) configFor(r *Request) *tls.Config {
	if c.tls.ServerName != "" {
		return c.tls
	}
	config := c.tls.Clone() // shares the session cache
	config.ServerName = r.serverName
	return config
}

// shookHands notes a handshake.
func (a *Answer) shookHands(state tls.ConnectionState, took time.Duration) {
	a.Handshake = took
	a.Terms = Terms{state.Version, state.CipherSuite, state.CurveID, state.DidResume}
}
