package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"sluice/internal/http3"
	"sluice/internal/testkit"
)

// strand is a client's end of a connection of HTTP/3, frame by frame: what no ready
// client does.
type strand struct {
	*quic.Conn
	t       *testing.T
	control *quic.SendStream
}

// strand opens one, with a control stream whose SETTINGS say nothing.
func (q *quick) strand() *strand {
	t := q.t.(*testing.T)
	t.Helper()
	trust := q.trust.Clone()
	trust.NextProtos, trust.ServerName = []string{"h3"}, "localhost"
	conn, err := quic.DialAddr(t.Context(), q.address("tls"), trust, &quic.Config{HandshakeIdleTimeout: testkit.Patience, MaxIdleTimeout: testkit.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.CloseWithError(0x100, "") })
	control, err := conn.OpenUniStream()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(control, "\x00\x04\x00")
	return &strand{conn, t, control}
}

// frame3 is a frame of HTTP/3 (RFC 9114 7.1).
func frame3(kind uint64, payload []byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
}

// The types of frames that are sent here.
const (
	data3    = 0x0
	headers3 = 0x1
)

// head3 is HEADERS of name, value, name, value …
func head3(fields ...string) []byte {
	var block bytes.Buffer
	e := qpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(qpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return frame3(headers3, block.Bytes())
}

// send sends frames on a stream of their own and ends it. It returns what becomes of that:
// the status of the answer, the code that the stream is reset with, or "whole" and the code
// that the connection ends with.
func (s *strand) send(frames ...[]byte) string {
	s.t.Helper()
	q, err := s.OpenStreamSync(s.t.Context())
	if err != nil {
		return ending3(err)
	}
	q.SetDeadline(time.Now().Add(testkit.Patience))
	if _, err := q.Write(bytes.Join(frames, nil)); err != nil {
		return ending3(err)
	}
	q.Close()
	return status3(q)
}

// status3 reads an answer up to its final head.
func status3(q io.Reader) string {
	r := quicvarint.NewReader(q)
	for {
		kind, err := quicvarint.Read(r)
		if err != nil {
			return ending3(err)
		}
		length, err := quicvarint.Read(r)
		if err != nil {
			return ending3(err)
		}
		payload := make([]byte, length)
		if _, err := io.ReadFull(r, payload); err != nil {
			return ending3(err)
		}
		if kind != headers3 {
			continue
		}
		if f, err := qpack.NewDecoder().Decode(payload)(); err != nil || f.Name != ":status" || f.Value[0] != '1' {
			return f.Value
		}
	}
}

// ending3 names how a stream or its connection ended.
func ending3(err error) string {
	var stream *quic.StreamError
	var conn *quic.ApplicationError
	var transport *quic.TransportError
	switch {
	case errors.As(err, &conn) && conn.Remote:
		return "whole " + http3.Code(conn.ErrorCode).String()
	case errors.As(err, &stream) && stream.Remote:
		return http3.Code(stream.ErrorCode).String()
	case errors.As(err, &transport) && transport.Remote:
		return fmt.Sprintf("whole %s", transport.ErrorCode)
	}
	return err.Error()
}

// toTheEnd waits for the connection's end, and names it.
func (s *strand) toTheEnd() string {
	select {
	case <-s.Context().Done():
		_, err := s.OpenStream()
		return ending3(err)
	case <-time.After(testkit.Patience):
		return "the connection does not end"
	}
}
