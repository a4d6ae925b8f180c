package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// opens says whether what sealed at one time is opened by the keys of another.
func opens(sealed, keys [][]byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, sealed[0]) })
}

// Keys of this run: one seals for an hour, and opens for three.
func TestTicketsOfThisRun(t *testing.T) {
	var tickets, others Tickets
	start := time.Unix(1_000_000_000, 0)
	at := func(minutes int) [][]byte {
		keys, until := tickets.Keys(start.Add(time.Duration(minutes)*time.Minute), &Ring{}, time.Hour)
		if want := start.Add(time.Duration(minutes/60*60+60) * time.Minute); !until.Equal(want) {
			t.Errorf("after %d minutes: next at %v, want %v", minutes, until, want)
		}
		return keys
	}
	first := at(0)
	foreign, _ := others.Keys(start, &Ring{}, time.Hour)
	if len(first) != 1 || len(first[0]) != ticketKeyBytes || opens(first, foreign) {
		t.Fatalf("%x", first)
	}
	for _, look := range []struct {
		minutes, keys int
		same          bool // as the first key that seals
		open          bool
	}{{59, 1, true, true}, {60, 2, false, true}, {119, 2, false, true}, {120, 3, false, true}, {179, 3, false, true}, {180, 3, false, false}} {
		keys := at(look.minutes)
		if len(keys) != look.keys || bytes.Equal(keys[0], first[0]) != look.same || opens(first, keys) != look.open {
			t.Errorf("after %d minutes: %d keys, %x", look.minutes, len(keys), keys)
		}
	}
}

// Keys of a file: machines agree without a word, also while they change the file, and
// while their clocks differ.
func TestTicketsOfAFile(t *testing.T) {
	a, b := bytes.Repeat([]byte("a"), 48), bytes.Repeat([]byte("b"), 48)
	keys := func(minutes int, secrets ...[]byte) [][]byte {
		var tickets Tickets
		all, until := tickets.Keys(time.Unix(3600*1000+int64(60*minutes), 0), &Ring{secrets: secrets}, time.Hour)
		if want := int64(3600 * (1001 + minutes/60)); until.Unix() != want {
			t.Errorf("minute %d: next at %d, want %d", minutes, until.Unix(), want)
		}
		return all
	}
	for name, look := range map[string]struct {
		sealed, keys [][]byte
		same, open   bool
	}{
		"another machine":          {keys(0, a), keys(59, a), true, true},
		"the next hour":            {keys(0, a), keys(60, a), false, true},
		"two hours on":             {keys(0, a), keys(179, a), false, true},
		"three hours on":           {keys(0, a), keys(180, a), false, false},
		"a clock that goes before": {keys(61, a), keys(59, a), false, true},
		"a secret before":          {keys(0, a), keys(0, b, a), false, true},
		"a machine that has it":    {keys(0, b, a), keys(0, a, b), false, true},
		"another secret":           {keys(0, a), keys(0, b), false, false},
	} {
		if opens(look.sealed, look.keys) != look.open || bytes.Equal(look.sealed[0], look.keys[0]) != look.same {
			t.Errorf("%s: sealed by %x, open with %x", name, look.sealed[0], look.keys)
		}
	}
	var tickets Tickets
	if other, _ := tickets.Keys(time.Unix(3600*1000, 0), &Ring{secrets: [][]byte{a}}, 2*time.Hour); opens(keys(0, a), other) {
		t.Error("machines that rotate differently have keys in common by chance")
	}
}

func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	binary := bytes.Repeat([]byte{0, 255, '\n', 7}, 20)
	long := strings.Repeat("s", 48)
	line := base64.StdEncoding.EncodeToString([]byte(long))
	for name, test := range map[string]struct {
		content string
		secrets int
		want    string
	}{
		"base64":       {line + "\n", 1, ""},
		"several":      {"# ours\n" + line + "\n\n  " + hex.EncodeToString([]byte(long)) + "\r\n", 2, ""},
		"nginx":        {string(binary), 1, ""},
		"nginx, 48":    {string(binary[:48]), 1, ""},
		"shortest":     {base64.StdEncoding.EncodeToString([]byte(long[:32])), 1, ""},
		"too short":    {line + "\n" + base64.StdEncoding.EncodeToString([]byte(long[:31])), 0, "line 2 is no secret of 32 bytes or more in base64; make one: openssl rand -base64 48"},
		"words":        {"# x\ncorrect horse battery staple", 0, "line 2 is no secret of 32 bytes or more in base64; make one: openssl rand -base64 48"},
		"empty":        {"# none\n", 0, "holds no secret; make one: openssl rand -base64 48"},
		"as many":      {strings.Repeat(line+"\n", maxSecrets), maxSecrets, ""},
		"one too many": {strings.Repeat(line+"\n", maxSecrets+1), 0, "holds more than 16 secrets; remove the oldest"},
	} {
		file := testkit.WriteFile(t, dir, "secrets", []byte(test.content))
		r := &reader{ring: &Ring{files: map[string]stamp{}}}
		secrets := r.secrets(file, "tls.tickets.file")
		want := ""
		if test.want != "" {
			want = fmt.Sprintf("tls.tickets.file: %q: %s", file, test.want)
		}
		if got := r.faults.Error(); got != want || want == "" && len(secrets) != test.secrets {
			t.Errorf("%s: %d secrets, %q, want %q", name, len(secrets), got, want)
		}
	}
	if err := errorOf(Read(configure(t, dir, `[{address: ":1"}]`+"\ntls: {tickets: {file: $/none}}"))); err != nil {
		t.Errorf("without TLS the file is not needed: %v", err)
	}
}

func errorOf(_ *Ring, err error) error { return err }
