package queue

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// play runs a script against a queue. A line is a command and, after an equals
// sign, what it answers:
//
//	at 20ms                                    the time from here on
//	join NAME [class=0] [tenant=1] [only=0] [except=0,1] [by=1s] = VERDICT
//	leave NAME = true
//	next SERVER = NAME or -
//	drops = NAME why, …
//	len = 3, waiting SERVER = 3
//	set SERVERS [length=9]
//	overloaded BOOL                            as if the queue had stood, or not
type play struct {
	t       *testing.T
	q       *Queue
	now     int64
	waiters map[string]*Waiter
}

func (p *play) run(script string) {
	p.t.Helper()
	for number, line := range strings.Split(strings.TrimSpace(script), "\n") {
		command, want, _ := strings.Cut(line, " = ")
		if got := p.do(strings.Fields(command)); got != strings.TrimSpace(want) {
			p.t.Fatalf("line %d, %q: got %q", number+1, strings.TrimSpace(line), got)
		}
	}
}

func (p *play) do(words []string) string {
	p.t.Helper()
	switch words[0] {
	case "at":
		p.now = p.nanoseconds(words[1])
	case "join":
		w := p.waiter(words[1], words[2:])
		return p.q.Join(w, p.now).String()
	case "leave":
		return fmt.Sprint(p.q.Leave(p.waiters[words[1]], p.now))
	case "next":
		return name(p.q.Next(p.number(words[1]), p.now))
	case "drops":
		var s []string
		for _, d := range p.q.Dropped() {
			s = append(s, name(d.Waiter)+" "+d.Why.String())
		}
		return strings.Join(s, ", ")
	case "len":
		return strconv.Itoa(p.q.Len())
	case "waiting":
		return strconv.Itoa(p.q.Waiting(p.number(words[1])))
	case "set":
		set := p.q.set
		if len(words) > 2 {
			set.Length = p.number(strings.TrimPrefix(words[2], "length="))
		}
		p.q.Set(p.number(words[1]), set)
	case "overloaded":
		p.q.overloaded = words[1] == "true"
	default:
		p.t.Fatalf("no command %q", words)
	}
	return ""
}

// waiter makes the one of a name, or finds it if it was made before.
func (p *play) waiter(name string, properties []string) *Waiter {
	if w := p.waiters[name]; w != nil {
		return w
	}
	w := &Waiter{Only: -1, Owner: name}
	p.waiters[name] = w
	for _, property := range properties {
		switch key, value, _ := strings.Cut(property, "="); key {
		case "class":
			w.Class = uint8(p.number(value))
		case "tenant":
			w.Tenant = uint64(p.number(value))
		case "only":
			w.Only = p.number(value)
		case "except":
			for s := range strings.SplitSeq(value, ",") {
				w.Except |= 1 << p.number(s)
			}
		case "by":
			w.Deadline = p.nanoseconds(value)
		default:
			p.t.Fatalf("no property %q", key)
		}
	}
	return w
}

func (p *play) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *play) nanoseconds(s string) int64 {
	d, err := time.ParseDuration(s)
	if err != nil {
		p.t.Fatal(err)
	}
	return int64(d)
}

// name is what a test calls a waiter.
func name(w *Waiter) string {
	if w == nil {
		return "-"
	}
	return w.Owner.(string)
}

// TestScripts holds the queue's rules as transcripts, before two servers.
func TestScripts(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    Settings
		script string
	}{
		{"nobody is there", Settings{Length: 3}, `
			next 0 = -
			next 7 = -
			next -1 = -
			len = 0
			waiting 0 = 0
			waiting 7 = 0
			waiting -1 = 0
			drops =`},
		{"first come first served, and time need not move", Settings{Length: 3}, `
			join a = held
			join b = held
			join c = held
			next 0 = a
			next 1 = b
			next 0 = c
			next 0 = -`},
		{"the more urgent first; what is out of range counts as the last", Settings{Length: 9}, `
			join a class=3 = held
			join b class=200 = held
			join c class=7 = held
			join d class=0 = held
			join e class=3 = held
			next 0 = d
			next 0 = a
			next 0 = e
			next 0 = b
			next 0 = c`},
		{"tenants take turns", Settings{Length: 9}, `
			join a1 tenant=1 = held
			join a2 tenant=1 = held
			join a3 tenant=1 = held
			join b1 tenant=2 = held
			join b2 tenant=2 = held
			join none = held
			next 0 = a1
			next 0 = b1
			next 0 = none
			next 0 = a2
			next 0 = b2
			next 0 = a3`},
		{"a tenant gains no turn by leaving and coming back", Settings{Length: 9}, `
			join a1 tenant=1 = held
			join b1 tenant=2 = held
			join b2 tenant=2 = held
			join c1 tenant=3 = held
			next 0 = a1
			join a2 tenant=1 = held
			leave a2 = true
			join a3 tenant=1 = held
			next 0 = b1
			next 0 = c1
			next 0 = a3
			next 0 = b2`},
		{"turns are apart in each class", Settings{Length: 9}, `
			join a1 tenant=1 class=1 = held
			join a2 tenant=1 class=1 = held
			join b1 tenant=2 class=1 = held
			join a0 tenant=1 = held
			next 0 = a0
			next 0 = a1
			next 0 = b1
			next 0 = a2`},
		{"bound to a server, and kept from one", Settings{Length: 9}, `
			join a only=1 = held
			join b except=0 = held
			join c only=0 except=0 = held
			join d = held
			waiting 0 = 2
			waiting 1 = 3
			next 0 = c
			next 0 = d
			next 0 = -
			waiting 0 = 0
			next 1 = a
			next 1 = b
			len = 0`},
		{"who is passed over keeps its turn", Settings{Length: 9}, `
			join a1 tenant=1 only=1 = held
			join b1 tenant=2 = held
			join b2 tenant=2 = held
			join c1 tenant=3 = held
			next 0 = b1
			next 1 = a1
			next 0 = c1
			next 0 = b2`},
		{"a tenant's own may pass each other for another server", Settings{Length: 9}, `
			join a1 tenant=1 only=1 = held
			join a2 tenant=1 = held
			next 0 = a2
			next 1 = a1`},
		{"no server is left for it", Settings{Length: 9}, `
			join a only=2 = gone
			join b except=0,1 = gone
			join c except=0,2 = held
			len = 1`},
		{"a queue without length", Settings{}, `
			join a = full
			len = 0`},
		{"full", Settings{Length: 2}, `
			join a = held
			join b = held
			join c = full
			drops =
			next 0 = a
			join c = held
			len = 2`},
		{"the urgent pushes out the newest of the least urgent class", Settings{Length: 3}, `
			join a class=5 = held
			join b class=6 = held
			join c class=6 tenant=4 = held
			join d class=7 = full
			join e class=4 = held
			drops = c pushed
			join f class=5 = held
			drops = b pushed
			join g class=5 = full
			join h class=0 = held
			drops = f pushed
			len = 3
			drops =
			next 0 = h
			next 0 = e
			next 0 = a`},
		{"a small tenant pushes out the newest of the largest", Settings{Length: 4}, `
			join a1 tenant=1 = held
			join a2 tenant=1 = held
			join a3 tenant=1 = held
			join b1 tenant=2 = held
			join a4 tenant=1 = full
			join b2 tenant=2 = held
			drops = a3 pushed
			join b3 tenant=2 = full
			join c1 tenant=3 = held
			len = 4`},
		{"a less urgent one pushes nobody out, however small its tenant", Settings{Length: 2}, `
			join a1 tenant=1 = held
			join a2 tenant=1 = held
			join b1 tenant=2 class=1 = full`},
		{"deadlines", Settings{Length: 9}, `
			at 10ms
			join a by=9ms = late
			join b by=10ms = held
			join c by=20ms = held
			join d by=15ms = held
			join e = held
			at 10ms
			next 0 = b
			at 20ms
			next 0 = c
			next 0 = e
			drops = d late
			len = 0`},
		{"a late one is dropped even by a server that it may not go to", Settings{Length: 9}, `
			join a by=5ms only=1 = held
			join b = held
			at 6ms
			next 0 = b
			drops = a late
			waiting 1 = 0`},
		{"all are late", Settings{Length: 9}, `
			join a tenant=1 by=5ms = held
			join b tenant=1 by=5ms = held
			join c tenant=2 by=5ms = held
			at 6ms
			next 0 = -
			drops = a late, b late, c late
			len = 0`},
		{"who left is not there", Settings{Length: 9}, `
			join a = held
			join b = held
			leave a = true
			leave a = false
			next 0 = b
			leave b = false
			len = 0
			join a = held
			leave a = true`},
		{"who waits already goes on waiting", Settings{Length: 9}, `
			join a = held
			join b = held
			join a = held
			len = 2
			next 0 = a`},
		{"a clock that goes back stands still", Settings{Length: 9}, `
			at 50ms
			join a = held
			at 20ms
			join b by=40ms = late
			join c by=60ms = held
			next 0 = a
			next 0 = c`},
		{"servers vanish and come", Settings{Length: 9}, `
			join a only=1 = held
			join b only=0 = held
			join c except=0 = held
			join d = held
			set 1
			drops = a gone, c gone
			len = 2
			waiting 0 = 2
			waiting 1 = 0
			next 1 = -
			set 3
			waiting 0 = 2
			waiting 2 = 1
			next 2 = d
			next 0 = b`},
		{"a shorter queue throws nobody out, and takes nobody in", Settings{Length: 9}, `
			join a = held
			join b = held
			join c = held
			set 2 length=1
			len = 3
			join d = full
			next 0 = a
			next 0 = b
			join d = full
			next 0 = c
			join d = held`},
		{"no servers", Settings{Length: 9}, `
			join a = held
			set 0
			drops = a gone
			join a = gone
			set 1
			join a = held
			next 0 = a`},
		{"overloaded: the newest of a tenant first, tenants in turns", Settings{Length: 9}, `
			join a1 tenant=1 = held
			join a2 tenant=1 = held
			join a3 tenant=1 = held
			join b1 tenant=2 = held
			join b2 tenant=2 = held
			overloaded true
			next 0 = a3
			next 0 = b2
			next 0 = a2
			overloaded false
			next 0 = b1
			next 0 = a1`},
		{"overloaded: the oldest gives way", Settings{Length: 3}, `
			join a1 tenant=1 = held
			join a2 tenant=1 = held
			join b1 tenant=2 = held
			overloaded true
			join a3 tenant=1 = held
			drops = a1 pushed
			join b2 tenant=2 = held
			drops = a2 pushed
			join c1 class=1 = full
			join d1 class=0 tenant=3 = held
			drops = b1 pushed
			len = 3`},
		{"overloaded: who has waited longer than twice the target is dropped", Settings{Length: 9, Target: 10 * time.Millisecond}, `
			join a = held
			join b class=3 = held
			at 5ms
			join c = held
			at 20ms
			overloaded true
			next 0 = c
			drops =
			join d = held
			at 21ms
			next 1 = d
			drops = a stale, b stale
			len = 0`},
		{"not overloaded: nobody is dropped for waiting", Settings{Length: 9, Target: 10 * time.Millisecond}, `
			join a = held
			at 1h
			next 0 = a
			drops =`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &play{t: t, q: New(2, c.set), waiters: map[string]*Waiter{}}
			p.run(c.script)
		})
	}
}

// TestVerdicts: each has a word of its own.
func TestVerdicts(t *testing.T) {
	for v, want := range map[Verdict]string{
		Held: "held", Full: "full", Late: "late", Gone: "gone", Pushed: "pushed", Stale: "stale", Stale + 1: "unknown",
	} {
		if v.String() != want {
			t.Errorf("verdict %d is called %q, want %q", v, v, want)
		}
	}
}

// TestSince: the time of joining is kept until the next joining.
func TestSince(t *testing.T) {
	q := New(1, Settings{Length: 1})
	w := &Waiter{Only: -1}
	for _, now := range []int64{7, 9} {
		q.Join(w, now)
		if q.Next(0, now+1) != w || w.Since() != now {
			t.Errorf("joined at %d, want %d", w.Since(), now)
		}
	}
}

// TestOtherQueue: a queue leaves alone who waits in another.
func TestOtherQueue(t *testing.T) {
	q, other := New(1, Settings{Length: 1}), New(1, Settings{Length: 1})
	w := &Waiter{Only: -1}
	q.Join(w, 0)
	if other.Leave(w, 0) || q.Len() != 1 || !q.Leave(w, 0) {
		t.Error("left a queue in which it did not wait")
	}
}

// TestDropped: what was fetched stays as it is until the next fetch.
func TestDropped(t *testing.T) {
	q := New(1, Settings{Length: 1})
	a, b, c := &Waiter{Class: 2, Only: -1}, &Waiter{Class: 1, Only: -1}, &Waiter{Only: -1}
	q.Join(a, 0)
	q.Join(b, 0)
	first := q.Dropped()
	q.Join(c, 0)
	if len(first) != 1 || first[0] != (Drop{a, Pushed}) {
		t.Errorf("fetched %v, want the first", first)
	}
	if second := q.Dropped(); len(second) != 1 || second[0] != (Drop{b, Pushed}) {
		t.Errorf("fetched %v, want the second", second)
	}
	if again := q.Dropped(); again != nil {
		t.Errorf("fetched %v again", again)
	}
}
