package accesslog

import "strconv"

// appendCombined writes the entry in the combined format of Apache and nginx:
//
//	client - - [time] "request line" status body-bytes "referer" "user agent"
//
// The user's name, known from authentication, is always "-", as is whatever the
// client did not send.
func appendCombined(dst []byte, e *Entry, c *clock) []byte {
	if client := e.client(); client.IsValid() {
		dst = client.AppendTo(dst)
	} else {
		dst = append(dst, '-')
	}
	dst = append(dst, " - - ["...)
	dst = c.appendCombined(dst, e.Wall)
	dst = append(dst, `] "`...)
	dst = appendRequestLine(dst, e)
	dst = append(dst, `" `...)
	dst = appendStatus(dst, e.Status)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, e.BytesOut, 10)
	dst = append(dst, ` "`...)
	dst = appendOrDash(dst, e.Referer)
	dst = append(dst, `" "`...)
	dst = appendOrDash(dst, e.UserAgent)
	return append(dst, '"', '\n')
}

// appendRequestLine writes as much of the request line as was understood.
func appendRequestLine(dst []byte, e *Entry) []byte {
	if len(e.Method) == 0 {
		return append(dst, '-')
	}
	dst = appendHex(dst, e.Method)
	if len(e.Target) > 0 {
		dst = append(dst, ' ')
		dst = appendHex(dst, e.Target)
	}
	if p := e.protocol(); p != "" {
		dst = append(dst, ' ')
		dst = append(dst, p...)
	}
	return dst
}

// appendStatus writes three digits, as nginx does for a response that was never sent.
func appendStatus(dst []byte, status int) []byte {
	if status == 0 {
		return append(dst, "000"...)
	}
	return strconv.AppendInt(dst, int64(status), 10)
}

func appendOrDash(dst, s []byte) []byte {
	if len(s) == 0 {
		return append(dst, '-')
	}
	return appendHex(dst, s)
}
