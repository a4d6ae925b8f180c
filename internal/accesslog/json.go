package accesslog

import (
	"net/netip"
	"strconv"
)

// appendJSON writes the entry as one JSON object and a newline. Times are seconds.
// Every key stands in every line, save for those of TLS, which stand only where the
// client speaks it, and for failed_by, phase, reason and error, which stand only where
// something failed.
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
	if e.TLS != nil {
		dst = appendTLS(dst, e.TLS)
	}
	if e.Party != "" {
		dst = append(dst, `,"failed_by":`...)
		dst = appendJSONString(dst, bytesOf(e.Party))
		dst = append(dst, `,"phase":`...)
		dst = appendJSONString(dst, bytesOf(e.Phase))
		dst = append(dst, `,"reason":`...)
		dst = appendJSONString(dst, bytesOf(e.Reason))
		if e.Err != nil {
			dst = append(dst, `,"error":`...)
			dst = appendJSONString(dst, bytesOf(e.Err.Error()))
		}
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

// appendTLS writes what is known of the client's TLS. A PROXY header tells neither the
// key exchange nor whether the session was resumed.
func appendTLS(dst []byte, t *TLS) []byte {
	dst = append(dst, `,"tls_version":`...)
	dst = appendJSONString(dst, bytesOf(t.Version))
	dst = append(dst, `,"tls_cipher":`...)
	dst = appendJSONString(dst, bytesOf(t.Cipher))
	dst = append(dst, `,"tls_sni":`...)
	dst = appendJSONString(dst, bytesOf(t.SNI))
	dst = append(dst, `,"tls_alpn":`...)
	dst = appendJSONString(dst, bytesOf(t.ALPN))
	if t.Told {
		dst = append(dst, `,"tls_told":true`...)
	} else {
		dst = append(dst, `,"tls_group":`...)
		dst = appendJSONString(dst, bytesOf(t.Group))
		dst = append(dst, `,"tls_resumed":`...)
		dst = strconv.AppendBool(dst, t.Resumed)
	}
	if t.Subject != "" {
		dst = append(dst, `,"tls_client_subject":`...)
		dst = appendJSONString(dst, bytesOf(t.Subject))
	}
	if t.Fingerprint != "" {
		dst = append(dst, `,"tls_client_fingerprint":`...)
		dst = appendJSONString(dst, bytesOf(t.Fingerprint))
	}
	return dst
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
