package accesslog

import (
	"net/netip"
	"strconv"
)

// appendJSON writes the entry as one JSON object and a newline. Times are seconds.
// Every key stands in every line, save for failed_by, phase and reason, which stand
// only where something failed.
func appendJSON(dst []byte, e *Entry, c *clock) []byte {
	dst = append(dst, `{"time":"`...)
	dst = c.appendJSON(dst, e.Wall)
	dst = append(dst, `","client":"`...)
	dst = appendAddr(dst, e.client())
	dst = append(dst, `","peer":"`...)
	dst = appendPeer(dst, e.Client)
	dst = append(dst, `",`...)
	dst = appendRequest(dst, e)
	dst = appendTimes(dst, e)
	dst = appendPlace(dst, e)
	if e.Party != "" {
		dst = append(dst, `,"failed_by":`...)
		dst = appendJSONString(dst, bytesOf(e.Party))
		dst = append(dst, `,"phase":`...)
		dst = appendJSONString(dst, bytesOf(e.Phase))
		dst = append(dst, `,"reason":`...)
		dst = appendJSONString(dst, bytesOf(e.Reason))
	}
	return append(dst, '}', '\n')
}

// appendRequest writes what was asked, and how it was answered.
func appendRequest(dst []byte, e *Entry) []byte {
	dst = append(dst, `"method":`...)
	dst = appendJSONString(dst, e.Method)
	dst = append(dst, `,"scheme":`...)
	dst = appendJSONString(dst, e.Scheme)
	dst = append(dst, `,"host":`...)
	dst = appendJSONString(dst, e.Host)
	dst = append(dst, `,"target":`...)
	dst = appendJSONString(dst, e.Target)
	dst = append(dst, `,"protocol":"`...)
	dst = append(dst, e.protocol()...)
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(e.Status), 10)
	dst = append(dst, `,"bytes_in":`...)
	dst = strconv.AppendInt(dst, e.BytesIn, 10)
	dst = append(dst, `,"bytes_out":`...)
	dst = strconv.AppendInt(dst, e.BytesOut, 10)
	dst = append(dst, `,"request_id":`...)
	dst = appendJSONString(dst, e.RequestID)
	dst = append(dst, `,"referer":`...)
	dst = appendJSONString(dst, e.Referer)
	dst = append(dst, `,"user_agent":`...)
	return appendJSONString(dst, e.UserAgent)
}

// appendTimes writes how long each phase took.
func appendTimes(dst []byte, e *Entry) []byte {
	dst = append(dst, `,"head_time":`...)
	dst = appendSeconds(dst, e.HeadTime)
	dst = append(dst, `,"queue_time":`...)
	dst = appendSeconds(dst, e.QueueTime)
	dst = append(dst, `,"connect_time":`...)
	dst = appendSeconds(dst, e.ConnectTime)
	dst = append(dst, `,"first_byte_time":`...)
	dst = appendSeconds(dst, e.FirstByteTime)
	dst = append(dst, `,"total_time":`...)
	return appendSeconds(dst, e.TotalTime)
}

// appendPlace writes who served the request.
func appendPlace(dst []byte, e *Entry) []byte {
	dst = append(dst, `,"listener":`...)
	dst = appendJSONString(dst, bytesOf(e.Listener))
	dst = append(dst, `,"farm":`...)
	dst = appendJSONString(dst, bytesOf(e.Farm))
	dst = append(dst, `,"server":`...)
	dst = appendJSONString(dst, bytesOf(e.Server))
	dst = append(dst, `,"node":`...)
	dst = strconv.AppendInt(dst, int64(e.Node), 10)
	dst = append(dst, `,"worker":`...)
	dst = strconv.AppendInt(dst, int64(e.Worker), 10)
	dst = append(dst, `,"loop":`...)
	dst = strconv.AppendInt(dst, int64(e.Loop), 10)
	dst = append(dst, `,"retries":`...)
	dst = strconv.AppendInt(dst, int64(e.Retries), 10)
	if e.Reused {
		return append(dst, `,"reused":true`...)
	}
	return append(dst, `,"reused":false`...)
}

// appendAddr writes an address, or nothing if there is none.
func appendAddr(dst []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return dst
	}
	return a.AppendTo(dst)
}

// appendPeer writes address and port, or nothing if there are none.
func appendPeer(dst []byte, p netip.AddrPort) []byte {
	if !p.IsValid() {
		return dst
	}
	return netip.AddrPortFrom(plain(p.Addr()), p.Port()).AppendTo(dst)
}
