package main

import (
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	table := newTable("NAME >SIZE >P50 NOTE")
	table.add("a", "1 KiB", "850 µs", "")
	table.add("longer name", "12 B", "-", "x")
	var got strings.Builder
	if err := table.print(&got); err != nil {
		t.Fatal(err)
	}
	want := `
NAME          SIZE     P50  NOTE
a            1 KiB  850 µs
longer name   12 B       -  x

`
	if got.String() != want[1:] {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

func TestFigures(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{perSecond(0), "0"},
		{perSecond(0.25), "0.2"},
		{perSecond(9.96), "10.0"},
		{perSecond(10), "10"},
		{perSecond(52_301.4), "52301"},
		{percent(0), "0%"},
		{percent(0.634), "63%"},
		{percent(1), "100%"},
		{bytesText(0), "0 B"},
		{bytesText(1023), "1023 B"},
		{bytesText(1024), "1 KiB"},
		{bytesText(12_900_000), "12.3 MiB"},
		{bytesText(1 << 62), "4 EiB"},
		{span(0), "-"},
		{span(12e-6), "12 µs"},
		{span(0.00123), "1.23 ms"},
		{span(3.4), "3.4 s"},
		{age(0), "0s"},
		{age(-time.Second), "0s"},
		{age(59*time.Second + 900*time.Millisecond), "59s"},
		{age(5*time.Minute + 12*time.Second), "5m12s"},
		{age(3*time.Hour + 59*time.Minute), "3h59m"},
		{age(76 * time.Hour), "3d4h"},
		{node(-1), "-"},
		{node(3), "3"},
		{plural(0, "farm"), "0 farms"},
		{plural(1, "farm"), "1 farm"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}
