package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/cmd/hb/client"
)

func TestStages(t *testing.T) {
	for _, c := range []struct {
		name string
		load Load
		want string // users@rate×time, or the begin of the error
	}{
		{"one", Load{Users: Range{7, 7}, Duration: time.Second}, "7@0×1s"},
		{"open loop", Load{Users: Range{7, 7}, Rate: Range{50, 50}}, "7@50×0s"},
		{"up", Load{Users: Range{10, 30}, Step: 10, Every: time.Second}, "10@0×1s 20@0×1s 30@0×1s"},
		{"down", Load{Users: Range{30, 10}, Step: 10, Every: time.Second}, "30@0×1s 20@0×1s 10@0×1s"},
		{"the end counts", Load{Users: Range{10, 25}, Step: 10, Every: time.Second}, "10@0×1s 20@0×1s 25@0×1s"},
		{"a step over the end", Load{Users: Range{1, 2}, Step: 10, Every: time.Second}, "1@0×1s 2@0×1s"},
		{"a tenth", Load{Users: Range{1, 21}, Every: time.Second}, "1@0×1s 3@0×1s 5@0×1s 7@0×1s 9@0×1s 11@0×1s 13@0×1s 15@0×1s 17@0×1s 19@0×1s 21@0×1s"},
		{"users are whole", Load{Users: Range{1, 3}, Every: time.Second}, "1@0×1s 2@0×1s 3@0×1s"},
		{"rates need not be", Load{Users: Range{5, 5}, Rate: Range{1, 2}, Step: 0.5, Every: time.Second}, "5@1×1s 5@1.5×1s 5@2×1s"},

		{"half a user", Load{Users: Range{0.5, 0.5}}, "users are whole"},
		{"most users", Load{Users: Range{maxUsers, maxUsers}}, "100000@0×0s"},
		{"one more", Load{Users: Range{maxUsers + 1, maxUsers + 1}}, "at most 100000 users"},
		{"two ramps", Load{Users: Range{1, 2}, Rate: Range{1, 2}, Every: 1}, "either users or the rate"},
		{"no ramp", Load{Users: Range{1, 1}, Every: 1}, "--step and --every need a ramp"},
		{"no time", Load{Users: Range{1, 2}}, "a ramp needs --every"},
		{"two times", Load{Users: Range{1, 2}, Every: 1, Duration: 1}, "a ramp lasts as long"},
		{"negative", Load{Users: Range{1, 2}, Every: 1, Step: -1}, "a step, its time"},
		{"too many steps", Load{Users: Range{1, 1}, Rate: Range{1, 10_002}, Every: 1, Step: 1}, "a ramp of more than 10000 steps"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stages, err := c.load.Stages()
			if err != nil {
				if !strings.HasPrefix(err.Error(), c.want) {
					t.Errorf("error %q, want %q", err, c.want)
				}
				return
			}
			var got []string
			for _, s := range stages {
				got = append(got, fmt.Sprintf("%d@%g×%v", s.Users, s.Rate, s.For))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %s\nwant %s", strings.Join(got, " "), c.want)
			}
		})
	}
}

func TestParseRange(t *testing.T) {
	for text, want := range map[string]string{
		"10": "{10 10}", "10..250": "{10 250}", "250..10": "{250 10}", "0.5": "{0.5 0.5}",
		"": "", "0": "", "-1": "", "a": "", "1..": "", "..1": "", "1..0": "", "1-2": "", "Inf": "", "NaN": "", "1..NaN": "",
	} {
		got, err := ParseRange(text)
		if (err != nil) != (want == "") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
}

func TestParseThink(t *testing.T) {
	for text, want := range map[string]string{
		"0s": "{0s false}", "500ms": "{500ms false}", "exp:2s": "{2s true}",
		"": "", "5": "", "-1s": "", "exp:": "", "uni:1s": "",
	} {
		got, err := ParseThink(text)
		if (err != nil) != (want == "") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
}

// files is a disk of two files.
func files(name string) ([]byte, error) {
	switch name {
	case "body.json":
		return []byte("{}"), nil
	case "empty":
		return nil, nil
	}
	return nil, errors.New("no file " + name)
}

func TestParseTarget(t *testing.T) {
	for _, c := range []struct {
		text, method string // the method of --method
		want         string // weight method URL body, or the end of the error
		fails        bool
	}{
		{"http://a/", "", "1 GET http://a/ ", false},
		{"a:80/x", "", "1 GET http://a:80/x ", false},
		{"LOCALHOST", "", "1 GET http://LOCALHOST ", false},
		{"https://[::1]:8443/?q=1", "", "1 GET https://[::1]:8443/?q=1 ", false},
		{"3 http://a/", "", "3 GET http://a/ ", false},
		{"POST http://a/", "", "1 POST http://a/ ", false},
		{"http://a/ @body.json", "", "1 POST http://a/ {}", false},
		{"http://a/ @empty", "", "1 GET http://a/ ", false},
		{"3 PUT http://a/ @body.json", "", "3 PUT http://a/ {}", false},
		{"http://a/ @body.json", "PATCH", "1 PATCH http://a/ {}", false},
		{"HEAD http://a/", "PATCH", "1 HEAD http://a/ ", false},
		{"1000000 a", "", "1000000 GET http://a ", false},
		{"1000001 a", "", "a weight is from 1 to 1000000", true},
		{"0 a", "", "a weight is from 1 to 1000000", true},
		{"", "", `@body.json"`, true},
		{"get http://a/", "", `@body.json"`, true},
		{"http://a/ http://b/", "", `@body.json"`, true},
		{"http://a/ @none", "", "no file none", true},
		{"ftp://a/", "", "only http and https", true},
		{"http:///x", "", "the host is missing", true},
		{"http://u:p@a/", "", "use --auth NAME:PASSWORD", true},
		{"http://a:b/", "", `invalid port ":b" after host`, true},
	} {
		got, err := ParseTarget(c.text, Defaults{Method: c.method, ReadFile: files})
		if c.fails {
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("%q: error %v, want …%s", c.text, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
		} else if got := fmt.Sprintf("%d %s %s %s", got.Weight, got.Method, got.URL, got.Body); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestParseTargets(t *testing.T) {
	d := Defaults{ReadFile: files}
	all, err := ParseTargets(strings.NewReader("# a mix\n\n  9 http://a/\nPOST http://b/ @body.json\n"), d)
	if err != nil || len(all) != 2 || all[0].Weight != 9 || string(all[1].Body) != "{}" {
		t.Errorf("got %+v, %v", all, err)
	}
	_, err = ParseTargets(strings.NewReader("a\n\nx y\n"), d)
	if err == nil || !strings.HasPrefix(err.Error(), `line 3: "x y": write [WEIGHT]`) {
		t.Errorf("error %v", err)
	}
}

func TestParseField(t *testing.T) {
	for text, want := range map[string]client.Field{
		"A: b":       {Name: "A", Value: "b"},
		"A:b:c":      {Name: "A", Value: "b:c"},
		"X-Empty:":   {Name: "X-Empty", Value: ""},
		"A":          {},
		": b":        {},
		"A b: c":     {},
		"A: b\r\nC:": {},
	} {
		got, err := ParseField(text)
		if got != want || (err == nil) != (want.Name != "") {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
