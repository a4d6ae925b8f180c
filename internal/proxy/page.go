package proxy

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"time"

	"sluice/internal/http1"
	"sluice/internal/message"
	"sluice/internal/segment"
)

// explanations are what the client reads about each reason.
var explanations = [segment.ReasonCount]string{
	segment.BadRequest:       "The request was not understood.",
	segment.HeadTooLarge:     "The request's header fields are too large.",
	segment.LineTooLong:      "The address is too long.",
	segment.BodyTooLarge:     "The request's content is too large.",
	segment.ClientTimeout:    "The request did not arrive in time.",
	segment.BadVersion:       "This version of HTTP is not spoken here.",
	segment.NotImplemented:   "Tunnels, or upgrades to this protocol, are not served at this address.",
	segment.NoRoute:          "Nothing is served at this address.",
	segment.NoServer:         "No server is available at the moment.",
	segment.ConnectFailed:    "The server could not be reached.",
	segment.ConnectTimeout:   "The server did not accept a connection in time.",
	segment.BadResponse:      "The server's response was not understood.",
	segment.ServerClosed:     "The server closed the connection without a response.",
	segment.FirstByteTimeout: "The server did not respond in time.",
	segment.ServerTimeout:    "The server stopped responding.",
	segment.Internal:         "An error occurred in the proxy.",
	segment.Misdirected:      "This address is served over TLS only.",
	segment.QueueFull:        "Too many requests are waiting. Please try again in a moment.",
	segment.QueueTimeout:     "The server was busy for too long. Please try again in a moment.",
	segment.QueueDropped:     "The server is busy. Please try again in a moment.",
	segment.DeadlineUnmet:    "The server is too busy to answer in time. Please try again in a moment.",
	segment.TLSFailed:        "No secure connection to the server came about.",
}

// refuse answers for a request that failed, or closes if there is nobody to
// answer, or an answer has begun.
func (x *exchange) refuse() {
	status := statuses[x.failure.Reason]
	if x.status != 0 || x.failure.Reason == segment.ClientGone {
		x.close, x.linger = true, false
		x.cut = x.status != 0 && (x.framing == message.UntilClose || x.s.stream != nil)
		return
	}
	if x.failure.Reason == segment.ClientTimeout || x.bodyLeft() {
		x.close, x.linger = true, true
	}
	if x.call.is {
		x.refuseCall()
		return
	}
	contentType, page := x.page(status)
	x.sendOwn(status, contentType, page)
}

// bodyLeft reports whether some of the request's body has not been read.
func (x *exchange) bodyLeft() bool {
	if x.begun {
		return !x.body.Done()
	}
	return x.req.Body != message.NoBody && (x.req.Body != message.Length || x.req.ContentLength > 0)
}

// turnAway answers a head that the codec refused, and ends the connection: where
// the next request would begin is not known.
func (x *exchange) turnAway(f Failure) {
	x.close, x.linger = true, true
	x.p.ids.next(&x.id)
	x.reqID = x.id[:]
	x.fail(f)
	x.req.Method = message.Other
	contentType, page := x.page(statuses[f.Reason])
	x.sendOwn(statuses[f.Reason], contentType, page)
	x.finish()
}

// sendOwn sends a response that Sluice itself makes.
func (x *exchange) sendOwn(status int, contentType string, content []byte) {
	x.status = status
	r := &x.own
	r.Reset()
	r.Status, r.Body, r.ContentLength = status, message.Length, int64(len(content))
	say := func(name, value string) {
		r.Fields = append(r.Fields, message.Field{Name: []byte(name), Value: []byte(value), ID: message.Lookup([]byte(name))})
	}
	say("Server", "sluice")
	r.Fields = append(r.Fields, message.Field{Name: nameDate, Value: x.p.date.at(x.p.exec.Now()), ID: message.Date})
	if contentType != "" {
		say("Content-Type", contentType)
		say("Cache-Control", "no-store")
	}
	if alt := x.altSvc(); alt != nil {
		r.Fields = append(r.Fields, message.Field{Name: nameAltSvc, Value: alt})
	}
	if x.s.listener.HSTS != nil {
		r.Fields = append(r.Fields, message.Field{Name: nameHSTS, Value: x.s.listener.HSTS})
	}
	if x.location != "" {
		say("Location", x.location)
	}
	if status == 200 && x.req.Method == message.OPTIONS {
		say("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE")
	}
	if x.retryAfter > 0 {
		say("Retry-After", strconv.FormatInt(int64((x.retryAfter+time.Second-1)/time.Second), 10))
	}
	if x.req.Method == message.HEAD {
		content = nil
	}
	n, err := x.respond(r, content)
	x.p.stats.BytesOut.Add(uint64(n))
	x.sent = int64(len(content))
	if err != nil {
		x.close, x.linger = true, false
	}
}

// pageStyle follows the reader's choice of light or dark, and asks nobody for
// anything.
const pageStyle = `<style>:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}` +
	`body{max-width:34em;margin:16vh auto;padding:0 1.25em}h1{font-size:1.9em;letter-spacing:-.02em;line-height:1.2;margin:0}` +
	`p{margin:.6em 0}small{opacity:.65}code{font-family:ui-monospace,monospace;overflow-wrap:anywhere}</style>`

// page is what the client sees of an error: JSON if it prefers that, else HTML.
func (x *exchange) page(status int) (contentType string, page []byte) {
	text := x.explanation()
	if x.prefersJSON() {
		page = append(page, `{"status":`...)
		page = strconv.AppendInt(page, int64(status), 10)
		page = append(page, `,"error":`...)
		page = strconv.AppendQuote(page, text)
		page = append(page, `,"request_id":"`...)
		page = append(page, x.safeID()...)
		return "application/json", append(page, "\"}\n"...)
	}
	title := strconv.Itoa(status) + " " + string(http1.ReasonOf(status))
	page = append(page, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>"...)
	page = append(page, title...)
	page = append(page, "</title>\n"+pageStyle+"\n<h1>"...)
	page = append(page, title...)
	page = append(page, "</h1>\n<p>"...)
	page = append(page, text...)
	page = append(page, "</p>\n<p><small>Request <code>"...)
	page = append(page, x.safeID()...)
	return "text/html; charset=utf-8", append(page, "</code></small></p>\n</html>\n"...)
}

// explanation is a sentence for the client: of its own fault what the RFC says.
func (x *exchange) explanation() string {
	if x.failure.Err == errNoTunnels {
		return "The server does not take such tunnels, as WebSocket's, over HTTP/2."
	}
	var fault *http1.Fault
	if x.failure.Party != Client || !errors.As(x.failure.Err, &fault) {
		return explanations[x.failure.Reason]
	}
	text := []byte(fault.Error() + ".")
	if 'a' <= text[0] && text[0] <= 'z' {
		text[0] -= 'a' - 'A'
	}
	return string(text)
}

// safeID is the request's id if it may stand in a page as it is.
func (x *exchange) safeID() []byte {
	for _, c := range x.reqID {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '-' || c > ':') && c != '_' {
			return nil
		}
	}
	return x.reqID
}

// prefersJSON looks at which of the two Accept names first.
func (x *exchange) prefersJSON() bool {
	accept := x.req.Fields.Get(message.Accept)
	if accept == nil {
		return false
	}
	json, html := bytes.Index(accept.Value, []byte("json")), bytes.Index(accept.Value, []byte("text/html"))
	return json >= 0 && (html < 0 || json < html)
}

// redirect sends the client to the same address by https. 308 keeps method and
// content (RFC 9110 15.4.9).
func (x *exchange) redirect() {
	_, port, _ := strings.Cut(x.s.listener.Redirect, ":")
	host := hostOf(x.req.Host)
	if host == "" {
		x.fail(Failure{Party: Client, Phase: Routing, Reason: segment.NoRoute})
		return
	}
	if port != "" && port != "443" {
		host += ":" + port
	}
	if x.bodyLeft() {
		x.close, x.linger = true, true
	}
	x.location = "https://" + host + string(x.req.Target)
	x.sendOwn(308, "", nil)
	x.location = ""
}

// prove answers an authority, if the request is one of its.
func (x *exchange) prove() bool {
	answer, asked := x.p.proofs[string(x.req.Target)]
	if !asked {
		return false
	}
	if x.bodyLeft() {
		x.close, x.linger = true, true
	}
	x.sendOwn(200, "application/octet-stream", []byte(answer))
	return true
}

// hostOf is an authority without its port.
func hostOf(authority []byte) string {
	host := string(authority)
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host[i:], ']') < 0 {
		host = host[:i]
	}
	return host
}

// answerHere answers an OPTIONS or TRACE that may go no further (RFC 9110 7.6.2).
func (x *exchange) answerHere() {
	if x.req.Method == message.OPTIONS {
		if x.bodyLeft() {
			x.close, x.linger = true, true
		}
		x.sendOwn(200, "", nil)
		return
	}
	seen := http1.AppendRequestLine(nil, &x.req)
	for _, f := range x.req.Fields {
		switch f.ID {
		case message.Authorization, message.Cookie, message.ProxyAuthorization: // RFC 9110 9.3.8
		default:
			seen = append(seen, f.Name...)
			seen = append(seen, ": "...)
			seen = append(seen, f.Value...)
			seen = append(seen, "\r\n"...)
		}
	}
	x.sendOwn(200, "message/http", append(seen, "\r\n"...))
}
