package config

import (
	"slices"
	"strconv"
	"strings"
)

const (
	maxLimit    = maxConnections // requests at one server; each has a connection
	maxQueue    = 1_000_000      // requests, per worker
	maxFailures = 64             // every response is held against each
)

// Fixed gives the number of a limit that is one.
func (l Limit) Fixed() (n int, ok bool) {
	n, err := strconv.Atoi(string(l))
	return n, err == nil
}

// String gives the word or the number.
func (l Limit) String() string { return string(l) }

// limitWords are what a limit is if it is no number.
var limitWords = []string{"adaptive", "gradient2", "off"}

// noneWords are what people write for "off".
var noneWords = []string{"none", "no", "never", "disabled", "unlimited", "inf", "infinite", "0"}

// parseLimit reads a limit. The range of a number is checked with the other ranges.
func parseLimit(text string) (Limit, *problem) {
	if slices.Contains(limitWords, text) {
		return Limit(text), nil
	}
	n, err := strconv.Atoi(text)
	digits := strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(text, "fixed"), ":"))
	switch {
	case slices.Contains(noneWords, strings.ToLower(text)):
		return "", &problem{"no limit is written as a word", "write off"}
	case err == nil && strconv.Itoa(n) == text:
		return Limit(text), nil
	case err == nil:
		return "", &problem{"another number to some readers of YAML", "write " + strconv.Itoa(n)}
	case isDigits(strings.TrimPrefix(text, "-")):
		return "", &problem{"larger than any number can be", ""}
	case isDigits(digits):
		return "", &problem{"a fixed limit is the number alone", "write " + digits}
	}
	p := problem{"must be adaptive, gradient2, off or a number", "write a number such as 50, or leave the key out"}
	if near, ok := nearest(text, limitWords); ok {
		p.cure = "did you mean " + quote(near) + "?"
	}
	return "", &p
}

// deriveAdmission lets the defaults of min and max give way to each other, and
// both to a fixed limit.
func (r *report) deriveAdmission(a *Admission, at string) {
	least, most := a.Min, a.Max
	if n, fixed := a.Limit.Fixed(); fixed {
		least, most = min(least, n), max(most, n)
	}
	if !r.wasSet(at + ".min") {
		a.Min = max(min(least, a.Max), 1)
	}
	if !r.wasSet(at + ".max") {
		a.Max = min(max(most, a.Min), maxLimit)
	}
}

// admission checks what a farm says of holding requests.
func (k *checker) admission(a *Admission, at string) {
	if _, p := parseLimit(string(a.Limit)); p != nil {
		k.fail(at+".limit", string(a.Limit), *p)
	}
	if n, fixed := a.Limit.Fixed(); fixed {
		checkBounds(k, strconv.Itoa, []bound[int]{{at + ".limit", n, 1, maxLimit}})
	}
	checkBounds(k, strconv.Itoa, []bound[int]{
		{at + ".min", a.Min, 1, maxLimit},
		{at + ".max", a.Max, 1, maxLimit},
		{at + ".queue", a.Queue, 0, maxQueue},
	})
	checkBounds(k, Duration.String, []bound[Duration]{{at + ".timeout", a.Timeout, minWait, maxWait}})
	k.spanOrNone(at+".target", a.Target, maxWait)
	k.limitWithin(a, at)
	k.failures(a.Failures, at+".failures")
	k.key(at+".priority", a.Priority, "header", "cookie")
	k.key(at+".tenant", a.Tenant, "client", "host", "header", "cookie")
	k.key(at+".deadline", a.Deadline, "header")
	k.withoutEffect(a, at)
}

// spanOrNone checks a duration of which 0 means none.
func (k *checker) spanOrNone(at string, d, most Duration) {
	if d != 0 {
		checkBounds(k, Duration.String, []bound[Duration]{{at, d, minWait, most}})
	}
}

// limitWithin checks a limit against its own bounds.
func (k *checker) limitWithin(a *Admission, at string) {
	if k.isBroken(at+".min") || k.isBroken(at+".max") || a.Min < 1 || a.Max < 1 || a.Min > maxLimit || a.Max > maxLimit {
		return // told already
	}
	n, fixed := a.Limit.Fixed()
	least, most := strconv.Itoa(a.Min), strconv.Itoa(a.Max)
	switch {
	case a.Min > a.Max:
		k.add(at+".min", least, problem{"more than max (" + most + ")", "write " + most + " at most, or raise max to " + least})
	case fixed && n >= 1 && n < a.Min:
		k.add(at+".limit", string(a.Limit), problem{"less than min (" + least + ")", "remove min: a number is the limit"})
	case fixed && n <= maxLimit && n > a.Max:
		k.add(at+".limit", string(a.Limit), problem{"more than max (" + most + ")", "remove max: a number is the limit"})
	}
}

// withoutEffect finds wishes that nothing would come of.
func (k *checker) withoutEffect(a *Admission, at string) {
	off := a.Limit == "off"
	if off && a.Target > 0 {
		k.add(at+".target", a.Target.String(), problem{"there is no limit that it could lower", "write limit: adaptive, or remove target"})
	}
	why := problem{"does nothing while queue is 0: no request is held", "give queue a number, or remove this key"}
	if off {
		why = problem{"does nothing while limit is off: no request is held", "write limit: adaptive, or remove this key"}
	}
	if off || a.Queue == 0 {
		for _, key := range []struct {
			name  string
			value Key
		}{{"priority", a.Priority}, {"tenant", a.Tenant}, {"deadline", a.Deadline}} {
			if key.value != "" {
				k.add(at+"."+key.name, string(key.value), why)
			}
		}
		return
	}
	if a.Priority != "" && len(k.Trust) == 0 && !k.isBroken("trust") {
		k.add(at+".priority", string(a.Priority), problem{"only clients in trust may say their urgency, and trust is empty",
			"write trust: [10.0.0.0/8] with their addresses, or give routes a priority"})
	}
}

// overload checks when new connections are refused. A small percentage is odd,
// but means what it says.
func (k *checker) overload() {
	o := k.Overload
	k.spanOrNone("overload.latency", o.Latency, seconds(60))
	checkBounds(k, strconv.Itoa, []bound[int]{
		{"overload.memory", o.Memory, 0, 100},
		{"overload.descriptors", o.Descriptors, 0, 100},
	})
}

// state checks where limits are kept over a restart.
func (k *checker) state() {
	const at, example = "state", "/var/lib/sluice/limits.json"
	state := k.State
	near, slip := nearest(state, []string{"auto", "off"})
	switch {
	case state == "auto" || state == "off":
	case state == "":
		k.add(at, state, problem{"no file", "write auto, off or an absolute path such as " + quote(example)})
	case strings.HasPrefix(state, "/") && strings.HasSuffix(state, "/"):
		k.add(at, state, problem{"a directory, not a file", "write " + quote(state+"limits.json")})
	case strings.HasPrefix(state, "/"):
	case slip:
		k.add(at, state, problem{"must be auto, off or an absolute path", "did you mean " + quote(near) + "?"})
	default:
		k.add(at, state, problem{"must be auto, off or an absolute path", "write one such as " + quote(example)})
	}
}

// holding checks what a route says of how its requests are held.
func (k *checker) holding(r Route, at string) {
	switch r.Admission {
	case "", "off":
	default:
		k.add(at+".admission", r.Admission, problem{"must be off, or left out",
			"write off, or remove it: limits stand at the farm, in farms.NAME.admission"})
	}
	checkBounds(k, strconv.Itoa, []bound[int]{{at + ".priority", r.Priority, 0, 7}})
	k.spanOrNone(at+".deadline", r.Deadline, maxWait)
	why := ""
	farm := slices.IndexFunc(k.Farms, func(f Farm) bool { return f.Name == r.Farm })
	switch {
	case r.Admission == "off":
		why = "does nothing: admission is off here"
	case farm >= 0 && k.Farms[farm].Admission.Limit == "off":
		why = "does nothing: the limit of farm " + r.Farm + " is off"
	case farm >= 0 && k.Farms[farm].Admission.Queue == 0:
		why = "does nothing: the queue of farm " + r.Farm + " is 0"
	default:
		return
	}
	if r.Priority != defaultPriority && r.Priority >= 0 && r.Priority <= 7 {
		k.add(at+".priority", strconv.Itoa(r.Priority), problem{why, "remove it"})
	}
	if r.Deadline >= minWait && r.Deadline <= maxWait {
		k.add(at+".deadline", r.Deadline.String(), problem{why, "remove it"})
	}
}
