package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/bench/abuse/attack"
	"sluice/bench/abuse/finding"
	"sluice/bench/abuse/ground"
	"sluice/bench/toolchain"
)

func TestParse(t *testing.T) {
	o, err := parse(nil)
	if err != nil || len(o.classes) != len(attack.Classes) || o.rounds != 3 {
		t.Errorf("without arguments: %+v, %v", o, err)
	}
	if most := 11 * time.Minute; o.lasts() > most {
		t.Errorf("all of it lasts %v, more than %v", o.lasts(), most)
	}
	o, err = parse([]string{"-class", "ping,settings", "-rounds", "1"})
	if err != nil || len(o.classes) != 2 || o.classes[1].Name != "settings" || o.rounds != 1 {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, args := range [][]string{{"-class", "ping,other"}, {"-class", ""}, {"-rounds", "0"}, {"-measure", "10ms"}, {"-warm", "-1s"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// TestRun: one round of one class, with the real programs. How long anything took is
// another machine's matter; who did what to whom is not.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	sluice, err := toolchain.Go(t.Context(), dir, "sluice", "sluice/cmd/sluice")
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"-class", "ping", "-rounds", "1", "-warm", "0s", "-measure", "1s", "-sluice", sluice, "-out", filepath.Join(dir, "out")})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := run(t.Context(), o, &said); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "out", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got finding.Results
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Findings) != 1 || len(got.Findings[0].Rounds) != 1 {
		t.Fatalf("got %+v", got.Findings)
	}
	round := got.Findings[0].Rounds[0]
	for _, p := range ground.Phases {
		seen := round[p]
		for i, met := range seen.Users {
			if met.Good+met.Failed == 0 {
				t.Errorf("%s: users of %s have asked for nothing", p, ground.Users()[i])
			}
		}
		if seen.Peak < 1<<20 || seen.CPU <= 0 {
			t.Errorf("%s: %d bytes, %v CPU seconds per second", p, seen.Peak, seen.CPU)
		}
		if a := seen.Attack; (a == nil) != (p == ground.Calm) || a != nil && (a.Strikes == 0 || a.Ends["ENHANCE_YOUR_CALM"] == 0) {
			t.Errorf("%s: the attack was %+v", p, a)
		}
		flood := seen.Counters["http2_abuses ping_flood"] + seen.Counters["http2_abuses unread_replies"]
		if (flood > 0) != (p == ground.Attacked) {
			t.Errorf("%s: counters are %v", p, seen.Counters)
		}
	}
	if !slices.ContainsFunc(strings.Split(said.String(), "\n"), func(line string) bool { return strings.HasPrefix(line, "| ping | ") }) {
		t.Errorf("no row of the table in\n%s", &said)
	}
}
