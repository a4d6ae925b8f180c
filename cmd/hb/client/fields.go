package client

// answerFields takes from the fields of an answer of HTTP/2 or HTTP/3 what matters.
type answerFields struct {
	ignore bool // the exchange has ended
	headed bool // its head has come already: these are trailers
	jar    *hostJar

	status int   // 0: none yet
	length int64 // -1: none
	fault  badResponse
}

// take is called with each field as it is decoded.
func (f *answerFields) take(name, value string) {
	if f.ignore {
		return
	}
	switch name {
	case ":status":
		f.setStatus(value)
	case "content-length":
		length, ok := number([]byte(value), 10)
		if !ok || f.length >= 0 && f.length != length {
			f.fault = "its content-length is no number, or two"
		}
		f.length = length
	case "set-cookie":
		if f.jar != nil {
			f.jar.set([]byte(value))
		}
	}
}

func (f *answerFields) setStatus(text string) {
	status, ok := number([]byte(text), 10)
	switch {
	case f.headed || f.status != 0:
		f.fault = "it has two statuses"
	case !ok || len(text) != 3 || status < 100 || status > 599:
		f.fault = "the status is not one of 100 to 599"
	case status == 101:
		f.fault = "the protocol was switched, which only HTTP/1.1 can"
	}
	f.status = int(status)
}

// part is what a block of fields turned out to be.
type part int

const (
	wrongHead part = iota
	interimHead
	finalHead
	trailers
)

// kind says what the fields are, or what is wrong with them. Last: nothing follows.
func (f *answerFields) kind(last bool) (part, badResponse) {
	switch {
	case f.fault != "":
		return wrongHead, f.fault
	case f.headed && !last:
		return wrongHead, "its trailers do not end it"
	case f.headed:
		return trailers, ""
	case f.status == 0:
		return wrongHead, "its head has no status"
	case f.status < 200 && last:
		return wrongHead, "an interim answer ends it"
	case f.status < 200:
		return interimHead, ""
	}
	return finalHead, ""
}
