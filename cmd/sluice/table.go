package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is text in columns: words to the left, numbers to the right.
type table struct {
	columns []column
	rows    [][]string // each as long as columns

	optional bool // it is not shown without rows
}

// column is a title, and on which side its cells stand.
type column struct {
	title string
	right bool
}

// newTable reads titles from one line of words; one with a ">" before it is a
// column of numbers.
func newTable(titles string) *table {
	t := &table{}
	for title := range strings.FieldsSeq(titles) {
		name, right := strings.CutPrefix(title, ">")
		t.columns = append(t.columns, column{name, right})
	}
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// print writes the table, each column as wide as its widest cell, two spaces
// between columns, an empty line below.
func (t *table) print(w io.Writer) error {
	widths, titles := make([]int, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i] = c.title
		widths[i] = utf8.RuneCountInString(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{titles}, t.rows...) {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(t.columns[i].align(cell, widths[i]) + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

func (c column) align(cell string, width int) string {
	fill := strings.Repeat(" ", width-utf8.RuneCountInString(cell))
	if c.right {
		return fill + cell
	}
	return cell + fill
}

// How figures are written. A person compares them at a glance: three digits that
// count, and a unit.

func whole[N int | int64 | uint64](n N) string { return fmt.Sprint(n) }

// perSecond is a rate.
func perSecond(r float64) string {
	if r > 0 && r < 10 {
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 0, 64) + "%" }

// bytesText is a size in the largest unit that leaves at least 1.
func bytesText(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return whole(n) + " B"
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.3g %ciB", value, units[unit])
}

// span is a response time in seconds: "850 µs", "1.2 ms", "3.4 s", "-" for none.
func span(seconds float64) string {
	switch {
	case seconds == 0:
		return "-"
	case seconds < 1e-3:
		return fmt.Sprintf("%.3g µs", seconds*1e6)
	case seconds < 1:
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

// age is a long time in its two largest units: "3d4h", "5m12s".
func age(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	days, hours, minutes, seconds := int(d.Hours())/24, int(d.Hours())%24, int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}
