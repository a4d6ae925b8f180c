package regulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/admission/limit"
	"sluice/internal/segment"
)

var learned = limit.State{Centre: 51, Supported: 47, Mean: 0.2, Square: 0.08, Throughput: 372}

// finish is the end of Run.
func (r *rig) finish() {
	r.file.open()
	r.close()
}

// learn lets a server that is in use learn something.
func (r *rig) learn(i int, state limit.State) {
	s := r.servers[i]
	s.controller = &script{answer: limit.Decision{Limit: int(state.Centre), Centre: state.Centre, Reason: limit.Climb}, state: state}
	r.claim(0, 0, s.Slot)
	r.steps(1)
}

// state is what the controller of a server begins with.
func (r *rig) state(s Server) limit.State {
	r.Use([]Server{s})
	return r.servers[0].controller.State()
}

// A state has a place in the segment, whatever its fields, and comes back whole.
func TestStateInWords(t *testing.T) {
	kind := reflect.TypeFor[limit.State]()
	if 1+kind.NumField() > segment.LearnedWords {
		t.Fatalf("a state has %d figures, and there is room for %d", kind.NumField(), segment.LearnedWords-1)
	}
	var state limit.State
	for i := range kind.NumField() {
		reflect.ValueOf(&state).Elem().Field(i).SetFloat(float64(i) + 0.5)
	}
	words := wordsOf(state)
	if got, ok := stateOf(&words); got != state || !ok {
		t.Errorf("got %+v %v, want %+v", got, ok, state)
	}
	words[0]++
	if got, ok := stateOf(&words); got != (limit.State{}) || ok {
		t.Errorf("words of another meaning are read as %+v", got)
	}
	if _, ok := stateOf(new(segment.Learned)); ok {
		t.Error("an empty place is read as a state")
	}
	other := meaningOf(reflect.TypeFor[struct{ Supported, Centre float64 }]())
	if same := meaningOf(reflect.TypeFor[struct{ Centre, Supported float64 }]()); same == other || same != math.Trunc(same) {
		t.Errorf("the order of fields has no meaning: %g, %g", same, other)
	}
}

// What was learned outlives the regulator in the segment.
func TestSegmentKeeps(t *testing.T) {
	r := newRig(t, "")
	s := r.server("http://a", adaptive)
	r.Use([]Server{s})
	r.learn(0, learned)
	r.finish()
	next := newRigOn(t, r.shared, "")
	if got := next.state(s); got.Centre != learned.Centre || got.Mean != learned.Mean {
		t.Errorf("the next one begins with %+v", got)
	}
	r.shared.Learned(s.Slot)[0] = 1 // of another version
	next = newRigOn(t, r.shared, "")
	if got := next.state(s); got.Centre != 20 {
		t.Errorf("with words of another version it begins with %+v", got)
	}
}

// What was learned outlives the machine in the file. The segment's is newer.
func TestFileKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made/by/us", "limits.json")
	r := newRig(t, path)
	s, unused := r.server("http://a", adaptive), r.server("http://unused", adaptive)
	r.Use([]Server{s, unused})
	r.learn(0, learned)
	r.finish()
	if r.log.Len() > 0 && strings.Contains(r.log.String(), "WARN") {
		t.Errorf("the log says %s", &r.log)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	text, _ := os.ReadFile(path)
	var c contents
	if err := json.Unmarshal(text, &c); err != nil || c.Version != 1 || len(c.Servers) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	want := entry{Farm: "app", URL: "http://a", Saved: r.wall, Kind: limit.Adaptive, State: learned}
	if c.Servers[0] != want {
		t.Errorf("the file has %+v, want %+v", c.Servers[0], want)
	}

	next := newRig(t, path)
	s = next.server("http://a", adaptive)
	if got := next.state(s); got.Centre != learned.Centre || got.Mean != learned.Mean {
		t.Errorf("after a restart it begins with %+v", got)
	}
	newer := learned
	newer.Centre = 60
	*next.shared.Learned(s.Slot) = wordsOf(newer)
	if got := newRigOn(t, next.shared, path).state(s); got.Centre != 60 {
		t.Errorf("the segment says 60; it begins with %+v", got)
	}
}

// Two programs may keep their servers in one file: what one of them writes the other
// leaves there.
func TestFileIsShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.json")
	first, second := newRig(t, path), newRig(t, path)
	for url, r := range map[string]*rig{"http://a": first, "http://b": second} {
		r.Use([]Server{r.server(url, adaptive)})
		r.learn(0, learned)
		r.finish()
	}
	if entries, err := readEntries(path); err != nil || len(entries) != 2 {
		t.Errorf("the file has %+v, %v", entries, err)
	}
}

// While it runs it writes at most every ten seconds, and only what moved.
func TestFileIsWrittenNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "limits.json")
		r := newRig(t, path)
		r.Regulator.clock = func() (time.Duration, time.Time) { return time.Duration(time.Now().UnixNano()), time.Now() }
		s := r.server("http://a", adaptive)
		r.Use([]Server{s})
		c := &script{answer: limit.Decision{Limit: 5, Centre: 20}, state: learned}
		r.servers[0].controller = c
		r.claim(0, 0, s.Slot)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); r.Regulator.Run(ctx) }()
		written := func(after time.Duration) bool {
			os.Remove(path)
			time.Sleep(after)
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			_, err := os.Stat(path)
			return err == nil
		}
		if written(30 * time.Second) {
			t.Error("nothing has moved, and it was written")
		}
		r.mu.Lock()
		c.answer.Reason = limit.Climb // at each step
		r.mu.Unlock()
		if !written(keepEvery + step) {
			t.Error("the limit moves, and nothing is written in 10 s")
		}
		if written(keepEvery - 2*step) {
			t.Error("written again before 10 s are over")
		}
		if !written(3 * step) {
			t.Error("not written after 10 s")
		}
		os.Remove(path)
		cancel()
		<-ended
		if _, err := os.Stat(path); err != nil {
			t.Errorf("at the end: %v", err)
		}
	})
}

// A file that cannot be understood is reported, and replaced by one that can.
func TestFileIsBroken(t *testing.T) {
	good := `{"farm": "app", "url": "http://a", "saved": "2026-11-20T00:00:00Z", "kind": "adaptive", "state": {"centre": 33}}`
	for name, test := range map[string]struct{ text, warns string }{
		"cut short":     {`{"version": 1, "servers": [` + good, "unexpected end of JSON input"},
		"not JSON":      {"\x00\x01", "invalid character"},
		"empty":         {"", "unexpected end of JSON input"},
		"a later one":   {`{"version": 2, "servers": [` + good + `]}`, "version 2, this program knows version 1"},
		"other types":   {`{"version": 1, "servers": {}}`, "cannot unmarshal"},
		"much too long": {strings.Repeat(" ", maxFileBytes+1), "more than the"},
		"good":          {`{"version": 1, "servers": [` + good + `]}`, ""},
		"too old":       {`{"version": 1, "servers": [` + strings.Replace(good, "2026-11-20", "2026-10-20", 1) + `]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.json")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := newRig(t, path)
			if got := r.log.String(); !strings.Contains(got, test.warns) || (test.warns == "") != (got == "") {
				t.Errorf("the log says %q, want %q", got, test.warns)
			}
			want := 20.0
			if name == "good" {
				want = 33
			}
			if got := r.state(r.server("http://a", adaptive)); got.Centre != want {
				t.Errorf("it begins with %+v, want %g", got, want)
			}
			r.learn(0, learned)
			r.finish()
			if entries, err := readEntries(path); err != nil || len(entries) != 1 || entries[0].State != learned {
				t.Errorf("the file has %+v, %v", entries, err)
			}
		})
	}
}

// A place where nothing can be written is reported once, and limits go on.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "file"), nil, 0o600), os.Mkdir(filepath.Join(dir, "dir"), 0o700),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a file is in the way":      filepath.Join(dir, "file", "limits.json"),
		"a directory is in the way": filepath.Join(dir, "dir"),
		"a pipe is in the way":      filepath.Join(dir, "pipe"), // and stands for /dev/null
		"no such file system":       "/proc/sluice/limits.json",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, path)
			r.log.Reset()
			s := r.server("http://a", adaptive)
			r.Use([]Server{s})
			r.learn(0, learned)
			for range 3 {
				r.file.save([]entry{{Farm: "app", URL: "http://a", Saved: r.wall, State: learned}})
			}
			r.finish()
			if got := strings.Count(r.log.String(), "cannot be kept"); got != 1 {
				t.Errorf("%d warnings: %s", got, &r.log)
			}
			if r.limit(s.Slot) != 51 {
				t.Errorf("limit %d", r.limit(s.Slot))
			}
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				t.Errorf("%s was replaced by a file", path)
			}
			if entries, _ := filepath.Glob(filepath.Join(dir, ".limits-*")); len(entries) > 0 {
				t.Errorf("left behind: %v", entries)
			}
		})
	}
}

// A fixed limit learns nothing, and what the one before had learned stays; figures
// that JSON cannot say are not written.
func TestNothingLearned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.json")
	r := newRig(t, path)
	s := r.server("http://a", adaptive)
	r.Use([]Server{s})
	r.learn(0, learned)
	nonsense := learned
	nonsense.Mean = math.NaN()
	fixed := s
	fixed.Settings = limit.Settings{Kind: limit.Fixed, Limit: 9, Min: 1, Max: 10}
	r.Use([]Server{fixed})
	r.steps(1)
	r.Use([]Server{s})
	if got := r.servers[0].controller.State(); got.Centre != learned.Centre {
		t.Errorf("after a fixed limit it begins with %+v", got)
	}
	r.learn(0, nonsense)
	r.finish()
	if entries, err := readEntries(path); err != nil || len(entries) != 1 || entries[0].State != learned {
		t.Errorf("the file has %+v, %v", entries, err)
	}
}

// Entries of servers that are not in use stay, of other programs too, but not for
// ever and not without bound.
func TestMerge(t *testing.T) {
	day := 24 * time.Hour
	one := func(url string, age time.Duration, centre float64) entry {
		return entry{Farm: "app", URL: url, Saved: epoch.Add(-age), State: limit.State{Centre: centre}}
	}
	var many []entry
	for i := range keepEntries + 10 {
		many = append(many, one(itoa(i), time.Hour+time.Duration(i)*time.Minute, 1))
	}
	for _, test := range []struct {
		name       string
		old, fresh []entry
		want       string
	}{
		{"nothing", nil, nil, ""},
		{"new", nil, []entry{one("a", 0, 1)}, "a=1"},
		{"newer", []entry{one("a", day, 1)}, []entry{one("a", 0, 2)}, "a=2"},
		{"another program's is newer", []entry{one("a", 0, 1)}, []entry{one("a", time.Hour, 2), one("b", 0, 3)}, "a=1 b=3"},
		{"unused", []entry{one("a", 29*day, 1)}, []entry{one("b", 0, 2)}, "b=2 a=1"},
		{"unused for too long", []entry{one("a", 30*day, 1)}, []entry{one("b", 0, 2)}, "b=2"},
	} {
		got := ""
		for _, e := range merge(test.old, test.fresh) {
			got += fmt.Sprintf("%s=%g ", e.URL, e.State.Centre)
		}
		if strings.TrimSpace(got) != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	all := merge(many, []entry{one("new", 0, 2)})
	if len(all) != keepEntries || all[0].URL != "new" || all[keepEntries-1].URL != itoa(keepEntries-2) {
		t.Errorf("%d entries, from %s to %s", len(all), all[0].URL, all[len(all)-1].URL)
	}
}

func TestPath(t *testing.T) {
	for _, test := range []struct {
		state, env string
		uid        int
		want       string
	}{
		{"off", "STATE_DIRECTORY=/s HOME=/h", 0, ""},
		{"/a/b.json", "STATE_DIRECTORY=/s", 0, "/a/b.json"},
		{"auto", "STATE_DIRECTORY=/var/lib/x HOME=/h", 7, "/var/lib/x/limits.json"},
		{"auto", "STATE_DIRECTORY=/var/lib/x:/var/lib/y", 0, "/var/lib/x/limits.json"},
		{"auto", "HOME=/root XDG_STATE_HOME=/x", 0, "/var/lib/sluice/limits.json"},
		{"auto", "HOME=/h", 7, "/h/.local/state/sluice/limits.json"},
		{"auto", "HOME=/h XDG_STATE_HOME=/x", 7, "/x/sluice/limits.json"},
		{"auto", "HOME=/h XDG_STATE_HOME=relative STATE_DIRECTORY=relative", 7, "/h/.local/state/sluice/limits.json"},
		{"auto", "HOME=relative", 7, ""},
		{"auto", "", 7, ""},
	} {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(test.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		if got := Path(test.state, func(name string) string { return env[name] }, test.uid); got != test.want {
			t.Errorf("%s with %q for user %d: %q, want %q", test.state, test.env, test.uid, got, test.want)
		}
	}
}
