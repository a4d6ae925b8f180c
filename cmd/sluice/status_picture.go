package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/admin"
)

// Sizes of a picture, in characters.
const (
	scaleWidth   = 7  // of what stands left of the bars
	figuresWidth = 26 // of what stands right of them
	roomyWidth   = 66 // narrower ones do without figures
	leastPanel   = 6  // lines for one server: name, limit, queue and throughput
	bestPanel    = 17 // a panel with more leaves the rest to the decisions
	shownAtLeast = 120 * time.Second
)

// picture draws the limits of a Sluice over time.
type picture struct {
	canvas  *canvas
	limits  *admin.Limits
	history history
	trouble string // why there is nothing newer
}

// draw fills a canvas: a line about everything, a panel for each server as far as
// there is room, the time below them, and the last decisions if there is more.
func draw(width, height int, l *admin.Limits, h history, trouble string) *canvas {
	p := &picture{canvas: newCanvas(width, height), limits: l, history: h, trouble: trouble}
	servers := busiest(l.Servers, max(1, (height-2)/leastPanel))
	p.heading(len(servers))
	if len(servers) == 0 {
		p.canvas.text(0, 2, "No server has a limit yet.", dim)
		return p.canvas
	}
	decisions := 0
	if spare := height - 3 - len(servers)*bestPanel; spare > 1 {
		decisions = min(spare, len(lastMoves(l, decisionsPerLook)))
	}
	each := (height - 2 - decisions) / len(servers)
	for i, s := range servers {
		p.panel(box{0, 1 + i*each, width, each}, s)
	}
	below := 1 + len(servers)*each
	p.times(below)
	p.decisions(below+1, height)
	return p.canvas
}

// busiest are at most n servers, those for which most requests wait, in the order
// that they came in.
func busiest(all []admin.LimitStatus, n int) []*admin.LimitStatus {
	some := make([]*admin.LimitStatus, len(all))
	for i := range all {
		some[i] = &all[i]
	}
	if len(some) <= n {
		return some
	}
	place := make(map[*admin.LimitStatus]int, len(some))
	for i, s := range some {
		place[s] = i
	}
	slices.SortStableFunc(some, func(a, b *admin.LimitStatus) int {
		return cmp.Or(b.Waiting-a.Waiting, b.InFlight-a.InFlight)
	})
	some = some[:n]
	slices.SortFunc(some, func(a, b *admin.LimitStatus) int { return place[a] - place[b] })
	return some
}

// heading is the line about everything.
func (p *picture) heading(shown int) {
	x := p.canvas.text(0, 0, "Sluice", bold)
	x = p.canvas.text(x, 0, "  "+whole(p.limits.Held)+" held", plain)
	if hidden := len(p.limits.Servers) - shown; hidden > 0 {
		x = p.canvas.text(x, 0, fmt.Sprintf("  %s more: --farm", plural(hidden, "server")), dim)
	}
	x = p.canvas.text(x+2, 0, cmp.Or(p.trouble, mended(p.limits)), alarm)
	if clock := p.limits.Time.Format(time.TimeOnly); x+len(clock) < p.canvas.width {
		p.canvas.textBefore(p.canvas.width, 0, clock, dim)
	}
}

// mended says what the supervisor had to mend, empty if nothing.
func mended(l *admin.Limits) string {
	if l.Leaks == 0 && l.Stranded == 0 {
		return ""
	}
	return fmt.Sprintf("%s leaked, %s stranded", plural(int(l.Leaks), "permit"), plural(int(l.Stranded), "queue"))
}

// chart is the part of a picture's width that has columns.
func (p *picture) chart() (x, columns int) {
	x, columns = scaleWidth, p.canvas.width-scaleWidth
	if p.canvas.width >= roomyWidth {
		columns -= figuresWidth
	}
	return x, max(columns, 1)
}

// seconds is the time that a column stands for, so that all show shownAtLeast.
func (p *picture) seconds() int {
	_, columns := p.chart()
	most := keepSeconds / columns
	return max(1, min(int(math.Ceil(shownAtLeast.Seconds()/float64(columns))), most))
}

// panel is one server: its name, its limit over what is in flight, its queue, and
// its throughput.
func (p *picture) panel(b box, s *admin.LimitStatus) {
	x, columns := p.chart()
	r := p.history[serverName{s.Farm, s.URL}]
	past := r.columns(columns, p.seconds(), p.limits.Time)
	rate, wait := r.since(s, p.limits.Time)
	p.name(b, s, wait)

	small := max(1, (b.height-1)/5)
	gate := box{x, b.y + 1, columns, b.height - 1 - 2*small}
	queue := box{x, gate.y + gate.height, columns, small}
	work := box{x, queue.y + queue.height, columns, small}

	limit := values(past, func(m *moment) series { return m.limit })
	inFlight := values(past, func(m *moment) series { return m.inFlight })
	top := roof(4, limit, inFlight)
	p.scale(gate, top)
	p.canvas.bars(gate, inFlight, top, flightInk)
	p.canvas.line(gate, limit, top)

	waiting := values(past, func(m *moment) series { return m.queue })
	top = roof(4, waiting)
	p.scale(queue, top)
	p.canvas.bars(queue, waiting, top, queueInk)

	done := values(past, func(m *moment) series { return m.work })
	top = roof(4, done)
	p.scale(work, top)
	p.canvas.bars(work, done, top, workInk)

	if p.canvas.width >= roomyWidth {
		p.figures(gate, gateFigures(s, p.limits.Time))
		p.figures(queue, queueFigures(s, wait))
		p.figures(work, workFigures(s, rate))
	}
}

// name is the first line of a panel. Where there is no room at the right, the
// figures stand in it.
func (p *picture) name(b box, s *admin.LimitStatus, wait float64) {
	right := s.Kind
	if s.Kind == "adaptive" || s.Kind == "gradient2" {
		right = fmt.Sprintf("%s, %d to %d", s.Kind, s.Min, s.Max)
	}
	if p.canvas.width < roomyWidth {
		right = fmt.Sprintf("%s/%s +%d %s", whole(s.InFlight), limitText(&s.AdmissionStatus), s.Waiting, span(wait))
	}
	room := b.width - utf8.RuneCountInString(s.Farm) - 4 - utf8.RuneCountInString(right)
	at := p.canvas.text(b.x, b.y, s.Farm, bold)
	p.canvas.text(at+2, b.y, shorten(s.URL, room), plain)
	p.canvas.textBefore(b.x+b.width, b.y, right, dim)
}

// scale is the axis at the left of a box, with its highest value, and 0 if there is room.
func (p *picture) scale(b box, top float64) {
	for y := b.y; y < b.y+b.height; y++ {
		p.canvas.text(b.x-1, y, "│", dim)
	}
	p.canvas.textBefore(b.x-2, b.y, short(top), dim)
	if b.height > 1 {
		p.canvas.textBefore(b.x-2, b.y+b.height-1, "0", dim)
	}
}

// figure is a line at the right of a box.
type figure struct {
	mark rune // the sign by which the picture shows it, or 0
	ink  ink
	name string
	text string
}

func (p *picture) figures(b box, all []figure) {
	x := b.x + b.width + 2
	for i, f := range all[:max(0, min(len(all), b.height))] {
		if f.mark != 0 {
			p.canvas.text(x, b.y+i, string(f.mark), f.ink)
		}
		p.canvas.text(x+2, b.y+i, f.name, dim)
		p.canvas.textBefore(p.canvas.width, b.y+i, f.text, plain)
	}
}

func gateFigures(s *admin.LimitStatus, now time.Time) []figure {
	all := []figure{
		{'─', limitInk, "limit", limitText(&s.AdmissionStatus) + arrow(s.Half)},
		{'█', flightInk, "in flight", whole(s.InFlight)},
	}
	if s.Reason != "" {
		all = append(all, figure{0, plain, s.Reason, age(now.Sub(s.Moved)) + " ago"})
	}
	if s.Evidence > 0 {
		all = append(all, figure{0, plain, "elasticity", tight(s.Elasticity, s.Evidence)})
	}
	if s.Centre > 0 {
		all = append(all, figure{0, plain, "centre", fmt.Sprintf("%.1f", s.Centre)})
	}
	if s.Target > 0 {
		all = append(all, figure{0, plain, "target", span(s.Target)})
	}
	return all
}

func queueFigures(s *admin.LimitStatus, wait float64) []figure {
	return []figure{
		{'█', queueInk, "queue", whole(s.Waiting)},
		{0, plain, "wait", span(wait)},
	}
}

func workFigures(s *admin.LimitStatus, rate float64) []figure {
	return []figure{
		{'█', workInk, "good/s", perSecond(rate)},
		{0, plain, "failed", whole(s.Permits.Failed)},
		{0, plain, "ignored", whole(s.Permits.Ignored)},
	}
}

// times is the axis below all panels: how long ago a column was.
func (p *picture) times(y int) {
	x, columns := p.chart()
	p.canvas.text(x-1, y, "└", dim)
	p.canvas.text(x, y, strings.Repeat("─", columns), dim)
	each := p.seconds()
	step := tick(each)
	for ago := 0; ago <= (columns-1)*each; ago += step {
		label := "now"
		if ago > 0 {
			label = "-" + strings.Replace(age(time.Duration(ago)*time.Second), "m0s", "m", 1)
		}
		at := x + columns - 1 - ago/each
		end := at + (utf8.RuneCountInString(label)+1)/2
		if ago == 0 {
			end = x + columns
		}
		if end-utf8.RuneCountInString(label) > x {
			p.canvas.textBefore(end, y, label, dim)
		}
	}
}

// tick is a round time that takes at least twelve columns of so many seconds.
func tick(each int) int {
	const columns = 12
	for _, round := range []int{15, 30, 60, 120, 300} {
		if round >= columns*each {
			return round
		}
	}
	return 600
}

// decisions are the last moves of all servers, the newest one at the bottom.
func (p *picture) decisions(y, end int) {
	if end-y < 1 {
		return
	}
	for i, m := range lastMoves(p.limits, end-y) {
		x := p.canvas.text(0, y+i, m.At.Format(time.TimeOnly), dim)
		x = p.canvas.text(x+2, y+i, m.arrow(), plain)
		x = p.canvas.text(max(x, 20)+2, y+i, m.Reason, limitInk)
		x = p.canvas.text(max(x, 33)+2, y+i, fmt.Sprintf("e %-10s  %4s/s  %d in flight  %d held",
			tight(m.Elasticity, m.Evidence), perSecond(m.Throughput), m.InFlight, m.Waiting), dim)
		if len(p.limits.Servers) > 1 {
			p.canvas.text(x+2, y+i, m.farm+" "+m.url, dim)
		}
	}
}

// roof is a round number above all values, and at least least.
func roof(least float64, all ...[]float64) float64 {
	const air = 1.05 // a strip does not touch the one above it
	highest := least
	for _, values := range all {
		for _, v := range values {
			highest = max(highest, air*v)
		}
	}
	unit := math.Pow(10, math.Floor(math.Log10(highest)))
	for _, round := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8} {
		if round*unit >= highest {
			return round * unit
		}
	}
	return 10 * unit
}

// tight is an elasticity where room is short.
func tight(e, evidence float64) string {
	return strings.ReplaceAll(elasticity(e, evidence), " ", "")
}

// short is a number in at most 5 characters.
func short(n float64) string {
	switch {
	case n < 1e4:
		return fmt.Sprintf("%.4g", n)
	case n < 1e6:
		return fmt.Sprintf("%.4gk", n/1e3)
	}
	return fmt.Sprintf("%.4gM", n/1e6)
}

// shorten cuts a text to so many characters.
func shorten(s string, room int) string {
	if utf8.RuneCountInString(s) <= room {
		return s
	}
	if room < 1 {
		return ""
	}
	return string([]rune(s)[:room-1]) + "…"
}
