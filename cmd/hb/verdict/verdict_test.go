package verdict

import (
	"io"
	"strings"
	"testing"
	"time"

	"sluice/cmd/hb/client"
	"sluice/cmd/hb/measure"
)

// stage is 1,000 requests in 10 s: 989 good ones of 1 ms to 989 ms, 5 refused, 3 of
// 503, 2 of 404, 1 that timed out; 4 more did not end.
func stage() *measure.Stage {
	s := &measure.Stage{Elapsed: 10 * time.Second, Sample: measure.NewSample()}
	begin := time.Unix(1000, 0)
	add := func(n, status int, failure *client.Failure) {
		for i := range n {
			end := begin.Add(time.Duration(i+1) * time.Millisecond)
			s.Add(&client.Answer{Status: status, Begin: begin, First: end, End: end}, failure, time.Time{})
		}
	}
	add(989, 200, nil)
	add(3, 503, nil)
	add(2, 404, nil)
	add(5, 0, &client.Failure{Kind: client.Refused, Err: io.EOF})
	add(1, 0, &client.Failure{Kind: client.TimedOut, Err: io.EOF})
	add(4, 0, &client.Failure{Kind: client.Stopped, Err: io.EOF})
	return s
}

// A stream that the server resets counts with connections that it does.
func TestResets(t *testing.T) {
	s := stage()
	for _, k := range []client.Kind{client.Reset, client.StreamReset, client.StreamRefused, client.GoneAway} {
		s.Add(&client.Answer{}, &client.Failure{Kind: k, Err: io.EOF}, time.Time{})
	}
	threshold, err := Parse("resets>0")
	if got := Judge([]Threshold{threshold}, s); err != nil || len(got) != 1 || got[0] != "resets>0: it is 3" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		text string
		want string // the line; empty: not met
	}{
		{"p50>490ms", "p50>490ms: it is 495.103ms"}, // HDR keeps three digits
		{"p50>500ms", ""},
		{"p99.9 >= 900ms", "p99.9>=900ms: it is 988.159ms"},
		{"max>990ms", ""},
		{"max>988ms", "max>988ms: it is 989.183ms"},
		{"mean<490ms", ""},
		{"rps<98", ""},
		{"rps<99", "rps<99: it is 98.9"},
		{"errors>10", "errors>10: it is 11"},
		{"errors>11", ""},
		{"errors>=11", "errors>=11: it is 11"},
		{"errors>1%", "errors>1%: it is 1.1%"},
		{"errors>1.2%", ""},
		{"5xx>3", ""},
		{"5xx>2", "5xx>2: it is 3"},
		{"4xx>0", "4xx>0: it is 2"},
		{"refused>0.4%", "refused>0.4%: it is 0.5%"},
		{"timeouts>0", "timeouts>0: it is 1"},
		{"resets>0", ""},
		{"resets<=0", "resets<=0: it is 0"},
		{"unfinished>3", "unfinished>3: it is 4"},
	} {
		threshold, err := Parse(c.text)
		if err != nil {
			t.Error(err)
			continue
		}
		got := strings.Join(Judge([]Threshold{threshold}, stage()), "|")
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestNothingMeasured(t *testing.T) {
	for _, text := range []string{"p99>2s", "errors>1%", "errors>1000", "rps>1"} {
		threshold, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		empty := &measure.Stage{Sample: measure.NewSample()}
		if got := Judge([]Threshold{threshold}, empty); len(got) != 1 || got[0] != text+": no good answer to measure" {
			t.Errorf("%s: %q", text, got)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":            `threshold "": write METRIC>VALUE`,
		"p99":         `threshold "p99": write METRIC>VALUE`,
		"p99=1s":      `threshold "p99=1s": write METRIC>VALUE`,
		"p99>2":       `threshold "p99>2": "2" is no duration; write`,
		"p99>-2s":     `threshold "p99>-2s": "-2s" is no duration`,
		"p99>1%":      `threshold "p99>1%": "1%" is no duration`,
		"p101>1s":     `threshold "p101>1s": there is no metric "p101"`,
		"p0>1s":       `threshold "p0>1s": there is no metric "p0"`,
		"speed>1":     `threshold "speed>1": there is no metric "speed"; there are p50`,
		"errors>x":    `threshold "errors>x": "x" is no count or percentage`,
		"errors>-1":   `threshold "errors>-1": "-1" is no count`,
		"rps<10%":     `threshold "rps<10%": "10%" is no rate`,
		"rps<Inf":     `threshold "rps<Inf": "Inf" is no rate`,
		"p99>2s>1s":   `threshold "p99>2s>1s": "2s>1s" is no duration`,
		"errors>NaN%": `threshold "errors>NaN%": "NaN%" is no count`,
	} {
		if _, err := Parse(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}
