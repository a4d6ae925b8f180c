package proxy

import (
	"bytes"
	"strconv"
	"time"

	"sluice/internal/grpcweb"
	"sluice/internal/message"
	"sluice/internal/segment"
)

// call is what makes a request one of gRPC (gRPC over HTTP/2, "Requests"): its
// content is messages of which the first may be answered before the last is sent, its
// client may wait for only so long, and wants errors as a status of gRPC.
type call struct {
	is     bool
	within time.Duration // grpc-timeout; 0: none
}

var (
	grpcType    = []byte("application/grpc")
	grpcTimeout = "grpc-timeout"
)

// readCall looks whether a request is one, or one of gRPC-Web.
func readCall(r *message.Request) (c call) {
	f := r.Fields.Get(message.ContentType)
	if f == nil {
		return c
	}
	if web, _ := grpcweb.Of(f.Value); web == grpcweb.None && !isGRPC(f.Value) {
		return c
	}
	c.is = true
	for i := range r.Fields {
		if f := &r.Fields[i]; equalFold(f.Name, grpcTimeout) {
			c.within = timeoutOf(f.Value)
		}
	}
	return c
}

// isGRPC tells application/grpc and application/grpc+proto from application/grpc-web.
func isGRPC(contentType []byte) bool {
	rest, ok := bytes.CutPrefix(contentType, grpcType)
	return ok && (len(rest) == 0 || rest[0] == '+' || rest[0] == ';')
}

// timeoutUnits are the letters behind the number in grpc-timeout.
var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// timeoutOf reads a number of at most eight digits and its unit; 0 if it is none.
func timeoutOf(value []byte) time.Duration {
	if len(value) < 2 || len(value) > 9 {
		return 0
	}
	n, err := strconv.ParseUint(string(value[:len(value)-1]), 10, 32)
	unit := timeoutUnits[value[len(value)-1]]
	if err != nil || unit == 0 {
		return 0
	}
	return max(time.Duration(n)*unit, 1)
}

// callLeft is how much of the client's time is left, at least 1 ns; 0: it has set none.
func (x *exchange) callLeft() time.Duration {
	if x.call.within == 0 {
		return 0
	}
	return max(1, x.call.within-time.Duration(x.p.exec.Now()-x.at.head))
}

// tooLate fails a call whose client waits no longer. The server is not to blame.
func (x *exchange) tooLate() bool {
	if x.callLeft() != 1 {
		return false
	}
	x.fail(Failure{Party: Client, Phase: AwaitingResponse, Reason: segment.DeadlineUnmet})
	return true
}

// refuseCall answers with a status of gRPC for the failure, which stands where a
// client expects the one of its server (gRPC over HTTP/2, "Trailers-Only").
func (x *exchange) refuseCall() {
	r := &x.own
	r.Reset()
	r.Status, r.ContentLength = 200, -1
	if x.s.stream == nil {
		r.Body, r.ContentLength = message.Length, 0
	}
	code := x.callStatus()
	r.Fields = append(r.Fields,
		message.Field{Name: []byte("Content-Type"), Value: x.callType(), ID: message.ContentType},
		message.Field{Name: []byte("Grpc-Status"), Value: strconv.AppendInt(nil, int64(code), 10)},
		message.Field{Name: []byte("Grpc-Message"), Value: []byte(explanations[x.failure.Reason])},
		message.Field{Name: nameDate, Value: x.p.date.at(x.p.exec.Now()), ID: message.Date})
	x.status = r.Status
	if _, err := x.respond(r, nil); err != nil {
		x.close, x.linger = true, false
	}
}

// callType is the Content-Type of an answer that has no content.
func (x *exchange) callType() []byte {
	if x.web.kind == grpcweb.None {
		return grpcType
	}
	return x.web.kind.AppendType(nil, nil)
}

// callStatus is the status of gRPC that a failure means: what its clients make of the
// HTTP status (gRPC, "HTTP to gRPC Status Code Mapping"), save that a deadline is one.
func (x *exchange) callStatus() int {
	const internal, unimplemented, unavailable, deadlineExceeded, unknown = 13, 12, 14, 4, 2
	if x.failure.Reason == segment.DeadlineUnmet {
		return deadlineExceeded
	}
	switch statuses[x.failure.Reason] {
	case 400:
		return internal
	case 404:
		return unimplemented
	case 502, 503, 504:
		return unavailable
	}
	return unknown
}
