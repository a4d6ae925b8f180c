package testkit

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Client is a client's end of a connection, byte by byte. Its methods fail the
// test on what is not expected.
type Client struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

// Dial opens a connection, which is closed at the end of the test at the latest.
// Every read and write on it has Patience.
func Dial(t testing.TB, address string) *Client {
	t.Helper()
	c, err := TryDial(t, address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TryDial is Dial for any goroutine, which may not end the test. Of the client's
// methods such a goroutine may use those that return an error, and those that
// cannot fail.
func TryDial(t testing.TB, address string) (*Client, error) {
	conn, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { conn.Close() }) // net.ErrClosed if the test did it
	c := &Client{t: t, conn: conn, in: bufio.NewReader(conn)}
	c.renew()
	return c, nil
}

func (c *Client) renew() { c.conn.SetDeadline(time.Now().Add(Patience)) }

// Send sends bytes.
func (c *Client) Send(parts ...string) {
	c.t.Helper()
	if err := c.TrySend(strings.Join(parts, "")); err != nil {
		c.t.Fatalf("sending: %v", err)
	}
}

// TrySend sends bytes that the other end may refuse by closing.
func (c *Client) TrySend(text string) error {
	c.renew()
	_, err := io.WriteString(c.conn, text)
	return err
}

// Respond reads the next response, interim or final, to a request with this
// method. It must be complete.
func (c *Client) Respond(method string) *Message {
	c.t.Helper()
	m, err := c.TryRespond(method)
	if err != nil {
		c.t.Fatalf("response %q, body of %d bytes: %v", m.Start, len(m.Body), err)
	}
	return m
}

// TryRespond is Respond for a response that may be cut off. The message holds what
// came.
func (c *Client) TryRespond(method string) (*Message, error) {
	c.renew()
	return readResponse(c.in, method)
}

// ReadHead reads the head of a response, and leaves its body.
func (c *Client) ReadHead() *Message {
	c.t.Helper()
	c.renew()
	m, err := readHead(c.in)
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

// ReadSome reads what is there, at least one byte.
func (c *Client) ReadSome(most int) string {
	c.t.Helper()
	c.renew()
	p := make([]byte, most)
	n, err := c.in.Read(p)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(p[:n])
}

// CloseWrite says that nothing more will be sent.
func (c *Client) CloseWrite() {
	c.t.Helper()
	if err := c.TryCloseWrite(); err != nil {
		c.t.Fatal(err)
	}
}

// TryCloseWrite is CloseWrite on a connection that may have ended.
func (c *Client) TryCloseWrite() error { return c.conn.(*net.TCPConn).CloseWrite() }

// Close closes the connection.
func (c *Client) Close() { c.conn.Close() }

// Reset ends the connection by RST, as a client does that is gone for good.
func (c *Client) Reset() {
	c.conn.(*net.TCPConn).SetLinger(0)
	c.conn.Close()
}

// Ended waits for the other end to close, in good order or by reset, without
// another byte.
func (c *Client) Ended() {
	c.t.Helper()
	if rest, err := c.Rest(); rest != "" || err != nil {
		c.t.Fatalf("wanted the connection to end, got %q, %v", rest, err)
	}
}

// Rest reads up to the other end's close. A reset is a close.
func (c *Client) Rest() (string, error) {
	c.renew()
	rest, err := io.ReadAll(c.in)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return string(rest), err
}

// LocalAddr is our own end's address.
func (c *Client) LocalAddr() string { return c.conn.LocalAddr().String() }

// Request makes a request's head, and its body if one is given: fields are lines
// without their ends.
func Request(method, target string, fields ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: test\r\n%s\r\n", method, target, lines(fields))
}

// Response makes a response's head: fields are lines without their ends.
func Response(status string, fields ...string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\n%s\r\n", status, lines(fields))
}

func lines(fields []string) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f)
		b.WriteString("\r\n")
	}
	return b.String()
}
