package accesslog

import (
	"strconv"
	"time"
)

// clock writes times. It keeps the text of the last second, as most requests of a
// loop begin in the second of the one before.
type clock struct {
	second int64
	valid  bool
	text   [len(combinedTime)]byte
	n      int
}

const (
	jsonTime     = "2006-01-02T15:04:05"        // RFC 3339 but for fraction and zone, which follow
	combinedTime = "02/Jan/2006:15:04:05 -0700" // Apache's %t without the brackets
)

// appendJSON writes wall, in ns, as RFC 3339 in UTC with milliseconds.
func (c *clock) appendJSON(dst []byte, wall int64) []byte {
	second, ns := wall/1e9, wall%1e9
	if !c.valid || second != c.second {
		c.keep(second, time.Unix(second, 0).UTC(), jsonTime)
	}
	dst = append(dst, c.text[:c.n]...)
	ms := ns / 1e6
	return append(dst, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10), 'Z')
}

// appendCombined writes wall, in ns, as Apache and nginx do: in local time.
func (c *clock) appendCombined(dst []byte, wall int64) []byte {
	second := wall / 1e9
	if !c.valid || second != c.second {
		c.keep(second, time.Unix(second, 0), combinedTime)
	}
	return append(dst, c.text[:c.n]...)
}

func (c *clock) keep(second int64, t time.Time, layout string) {
	c.second, c.valid = second, true
	c.n = len(t.AppendFormat(c.text[:0], layout))
}

// appendSeconds writes d in seconds with microseconds: 0.001234. A negative one
// counts as 0.
func appendSeconds(dst []byte, d time.Duration) []byte {
	if d < time.Microsecond { // most phases of most requests
		return append(dst, "0.000000"...)
	}
	us := uint64(d) / 1e3
	if us < 1e6 {
		dst = append(dst, '0')
	} else {
		dst = strconv.AppendUint(dst, us/1e6, 10)
		us %= 1e6
	}
	a, b, c := us/1e4*2, us/1e2%1e2*2, us%1e2*2
	return append(dst, '.', pairs[a], pairs[a+1], pairs[b], pairs[b+1], pairs[c], pairs[c+1])
}

// pairs are the numbers from 00 to 99.
const pairs = "0001020304050607080910111213141516171819" +
	"2021222324252627282930313233343536373839" +
	"4041424344454647484950515253545556575859" +
	"6061626364656667686970717273747576777879" +
	"8081828384858687888990919293949596979899"
