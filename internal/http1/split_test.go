package http1

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/internal/message"
)

// corpus is every request, response or body of the tables, and random ones that
// are put together from their first lines and their others.
func corpus(tables ...[]wireCase) []string {
	var all, first, others []string
	for _, table := range tables {
		for _, c := range table {
			all = append(all, c.in)
			lines := strings.SplitAfter(c.in, "\n")
			first, others = append(first, lines[0]), append(others, lines[1:]...)
		}
	}
	random := rand.New(rand.NewPCG(11, 12))
	for range 4000 {
		in := first[random.IntN(len(first))]
		for range random.IntN(4) {
			in += others[random.IntN(len(others))]
		}
		all = append(all, in+"\r\n")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func requestCorpus() []string {
	return corpus(requestLines, targets, hosts, fieldLines, connections, requestSemantics, framings)
}

func responseCorpus() []string {
	return corpus(statusLines, responseFields, responseFramings, responsesToHEAD)
}

// Limits that many of the corpus reach, the second pair in the wrong order.
var splitLimits = []*Limits{usual, {Head: 60, Line: 16, Fields: 2}, {Head: 12, Line: 30, Fields: 1}}

// TestSplitRequests: however the bytes come in, the result is the same. What has
// come is parsed again from its start each time, as the proxy does.
func TestSplitRequests(t *testing.T) {
	for _, lim := range splitLimits {
		read := func(in string) any { return requestUnder(lim, in) }
		for _, in := range requestCorpus() {
			holdSplits(t, in, read)
		}
	}
}

func TestSplitResponses(t *testing.T) {
	for _, lim := range splitLimits {
		for _, method := range []message.Method{message.GET, message.HEAD} {
			read := func(in string) any { return responseUnder(lim, method, in) }
			for _, in := range responseCorpus() {
				holdSplits(t, in, read)
			}
		}
	}
}

// holdSplits cuts in at every byte, or every few of a long one: the first cut
// that is not incomplete must give what the whole gives, and so must every longer
// one.
func holdSplits(t *testing.T, in string, read func(string) any) {
	t.Helper()
	whole := withoutRest(read(in))
	decided := false
	for cut := 0; cut <= len(in); cut += 1 + len(in)/512 {
		got := withoutRest(read(in[:cut]))
		if got == "incomplete" && !decided {
			continue
		}
		decided = true
		if got != whole {
			t.Errorf("%q\ncut to %d bytes is read as %v\nwhole it is %v", in, cut, got, whole)
			return
		}
	}
}

// withoutRest is an outcome without the bytes behind the head, which a cut cuts.
func withoutRest(outcome any) any {
	if transcript, ok := outcome.(string); ok {
		transcript, _, _ = strings.Cut(transcript, " | then ")
		return transcript
	}
	return outcome
}

// TestSplitBodies cuts each body into two at every byte, and into single bytes:
// content, trailers, bytes used and fault are the same.
func TestSplitBodies(t *testing.T) {
	for _, lim := range []*Limits{usual, {Head: 8, Fields: 1}} {
		for _, limit := range []int64{0, 4} {
			for _, in := range corpus(chunkedBodies) {
				whole := decode(lim, limit, in)
				for cut := range len(in) {
					if got := decode(lim, limit, in[:cut], in[cut:]); got != whole {
						t.Fatalf("%q\ncut at %d is %v\nwhole it is %v", in, cut, got, whole)
					}
				}
				if got := decode(lim, limit, singleBytes(in)...); got != whole {
					t.Fatalf("%q\nin single bytes is %v\nwhole it is %v", in, got, whole)
				}
			}
		}
	}
}

func singleBytes(in string) (pieces []string) {
	for i := range len(in) {
		pieces = append(pieces, in[i:i+1])
	}
	return pieces
}

// TestSplitByLength does the same for bodies of known length.
func TestSplitByLength(t *testing.T) {
	const in = "0123456789"
	for length := range int64(12) {
		for cut := range len(in) {
			var d decoding
			if err := d.body.Start(message.Length, length, 0, usual); err != nil {
				t.Fatal(err)
			}
			if err := d.feed([]byte(in[:cut])); err != nil {
				t.Fatal(err)
			}
			if err := d.feed([]byte(in[cut:])); err != nil {
				t.Fatal(err)
			}
			want := in[:min(int(length), len(in))]
			if string(d.content) != want || d.used != len(want) || d.body.Done() != (int(length) <= len(in)) {
				t.Errorf("length %d cut at %d: %q, %d used, done %v", length, cut, d.content, d.used, d.body.Done())
			}
		}
	}
}

// TestCorpusIsTelling: a corpus that is nearly all refused, or accepted, shows
// little.
func TestCorpusIsTelling(t *testing.T) {
	for name, outcomes := range map[string][]any{
		"requests":  readAll(requestCorpus(), readAsRequest),
		"responses": readAll(responseCorpus(), func(in string) any { return readAsResponse(message.GET, in) }),
		"bodies":    readAll(corpus(chunkedBodies), func(in string) any { return decode(usual, 0, in) }),
	} {
		kinds := map[string]int{}
		for _, o := range outcomes {
			kinds[fmt.Sprintf("%T", o)]++
		}
		if len(outcomes) < 1000 || kinds["string"] < len(outcomes)/50 || kinds["*http1.Fault"] < len(outcomes)/4 {
			t.Errorf("%s: %d, of which %v", name, len(outcomes), kinds)
		}
	}
}

func readAll(corpus []string, read func(string) any) (outcomes []any) {
	for _, in := range corpus {
		outcomes = append(outcomes, read(in))
	}
	return outcomes
}
