package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/admin"
)

// movesInTable is how many of the last moves stand below the table.
const movesInTable = 12

// everyDecision asks for all decisions that the supervisor kept.
const everyDecision = math.MaxInt32

// limits prints the limits once.
func (w *watcher) limits(ctx context.Context) error {
	l, err := w.lookAtLimits(ctx, everyDecision)
	if err != nil {
		return err
	}
	return printLimits(w.out, l)
}

func (w *watcher) lookAtLimits(ctx context.Context, decisions int) (*admin.Limits, error) {
	body, err := w.fetch(ctx, w.limitsPath(decisions))
	if err != nil {
		return nil, err
	}
	l := new(admin.Limits)
	if err := json.Unmarshal(body, l); err != nil {
		return nil, fmt.Errorf("%s: the answer is not the limits of a Sluice: %w", w.address, err)
	}
	return l, nil
}

// limitsPath is what to ask for: the limits of the watcher's farm, or of all.
func (w *watcher) limitsPath(decisions int) string {
	query := url.Values{}
	if w.farm != "" {
		query.Set("farm", w.farm)
	}
	if decisions < everyDecision {
		query.Set("decisions", whole(decisions))
	}
	if len(query) == 0 {
		return "/limits"
	}
	return "/limits?" + query.Encode()
}

// printLimits writes a table of the limits, and the last moves below it.
func printLimits(w io.Writer, l *admin.Limits) error {
	tables := []*table{limitTable(l)}
	if moves := lastMoves(l, movesInTable); len(moves) > 0 {
		tables = append(tables, moveTable(moves))
	}
	for _, t := range tables {
		if err := t.print(w); err != nil {
			return err
		}
	}
	said := whole(l.Held) + " requests held now."
	if trouble := mended(l); trouble != "" {
		said += " Mended by the supervisor: " + trouble + "."
	}
	_, err := fmt.Fprintln(w, said)
	return err
}

func limitTable(l *admin.Limits) *table {
	t := newTable("FARM SERVER KIND >LIMIT >IN-FLIGHT >QUEUE >WAIT-P50 >WAIT-P99 >GOOD/S >ELASTICITY LAST-MOVE")
	for _, s := range l.Servers {
		last := "-"
		if s.Reason != "" {
			last = s.Reason + " " + age(l.Time.Sub(s.Moved)) + " ago"
		}
		t.add(s.Farm, s.URL, s.Kind, limitText(&s.AdmissionStatus), whole(s.InFlight), whole(s.Waiting), span(s.Wait.P50), span(s.Wait.P99),
			throughput(&s.AdmissionStatus), elasticity(s.Elasticity, s.Evidence), last)
	}
	return t
}

func moveTable(moves []move) *table {
	t := newTable("TIME FARM SERVER LIMIT REASON >CENTRE >ELASTICITY >GOOD/S >IN-FLIGHT >QUEUE")
	for _, m := range moves {
		t.add(m.At.Format(time.TimeOnly), m.farm, m.url, m.arrow(), m.Reason, fmt.Sprintf("%.1f", m.Centre),
			elasticity(m.Elasticity, m.Evidence), perSecond(m.Throughput), whole(m.InFlight), whole(m.Waiting))
	}
	return t
}

// move is a decision, and about which server.
type move struct {
	admin.DecisionStatus
	farm, url string
}

// lastMoves are the last n moves of all servers, the newest one last.
func lastMoves(l *admin.Limits, n int) []move {
	var all []move
	for _, s := range l.Servers {
		for _, d := range s.Decisions {
			all = append(all, move{d, s.Farm, s.URL})
		}
	}
	slices.SortStableFunc(all, func(a, b move) int { return a.At.Compare(b.At) })
	return all[max(0, len(all)-n):]
}

// arrow says how the limit moved: "57 → 61".
func (m move) arrow() string { return fmt.Sprintf("%d → %d", m.From, m.To) }

// arrow tells which half of a pair the controller is in.
func arrow(half string) string {
	switch half {
	case "up":
		return " ▲"
	case "down":
		return " ▼"
	}
	return ""
}

// limitText is the limit in force, "-" if there is none.
func limitText(a *admin.AdmissionStatus) string {
	if a.Limit == 0 {
		return "-"
	}
	return whole(a.Limit)
}

// throughput is good responses per second, "-" if nobody counts.
func throughput(a *admin.AdmissionStatus) string {
	if a.Kind == "off" {
		return "-"
	}
	return perSecond(a.Throughput)
}

// elasticity is an estimate with its standard error, "-" if nothing is known.
func elasticity(e, evidence float64) string {
	if evidence <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f ± %.2f", e, 1/math.Sqrt(evidence))
}

// watchLimits shows the limits over time until Ctrl-C: as a picture on a terminal,
// else as lines. At the first look Sluice must answer; later ones may fail, as
// while it is started again.
func (w *watcher) watchLimits(ctx context.Context) error {
	l, err := w.lookAtLimits(ctx, everyDecision)
	if err != nil {
		return err
	}
	screen := screenOf(w.out)
	if screen == nil {
		return w.listLimits(ctx, l)
	}
	return w.paintLimits(ctx, l, screen)
}

// looksPerPicture is how often Sluice is asked for each picture: a limit is
// dithered several times a second, and the mean of a few looks is calm.
const looksPerPicture = 4

// decisionsPerLook are enough for what a picture shows of them.
const decisionsPerLook = 12

func (w *watcher) paintLimits(ctx context.Context, l *admin.Limits, s *screen) error {
	if err := s.open(); err != nil {
		return err
	}
	defer s.close()
	past, trouble := history{}, ""
	for look := 0; ; look++ {
		if trouble == "" {
			past.note(l)
		}
		if look%looksPerPicture == 0 {
			width, height := s.size()
			if err := s.show(draw(width, height, l, past, trouble)); err != nil {
				return err
			}
		}
		if !w.pause(ctx, w.every/looksPerPicture) {
			return nil
		}
		next, err := w.lookAtLimits(ctx, decisionsPerLook)
		trouble = ""
		if err != nil {
			trouble = err.Error()
			continue
		}
		l = next
	}
}

// listLimits writes a line for each server and second, and one for each move.
func (w *watcher) listLimits(ctx context.Context, l *admin.Limits) error {
	past := history{}
	seen := l.Time // moves up to here were told, or came before the first look
	for {
		past.note(l)
		var b strings.Builder
		for _, m := range lastMoves(l, everyDecision) {
			if m.At.After(seen) {
				fmt.Fprintf(&b, "%s  %s %s  moved %s  %s  elasticity %s\n", m.At.Format(time.TimeOnly), m.farm, m.url,
					m.arrow(), m.Reason, elasticity(m.Elasticity, m.Evidence))
			}
		}
		seen = l.Time
		for i := range l.Servers {
			s := &l.Servers[i]
			rate, wait := past[serverName{s.Farm, s.URL}].since(s, l.Time)
			fmt.Fprintf(&b, "%s  %s %s  limit %s  in flight %d  queue %d  wait %s  good/s %s  elasticity %s\n",
				l.Time.Format(time.TimeOnly), s.Farm, s.URL, limitText(&s.AdmissionStatus), s.InFlight, s.Waiting,
				span(wait), perSecond(rate), elasticity(s.Elasticity, s.Evidence))
		}
		if _, err := io.WriteString(w.out, b.String()); err != nil {
			return err
		}
		if !w.pause(ctx, w.every) {
			return nil
		}
		next, err := w.lookAtLimits(ctx, decisionsPerLook)
		if err != nil {
			return err
		}
		l = next
	}
}
