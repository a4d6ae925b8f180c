package admission

import (
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// Lines keeps the Line of every farm of a worker over reloads. It belongs to
// one of its loops.
type Lines struct {
	figures func(slot int) *segment.LineStats
	byFarm  map[string]*Line
}

// NewLines makes the registry; figures gives the worker's figures of who waits for
// a server.
func NewLines(figures func(slot int) *segment.LineStats) *Lines {
	return &Lines{figures: figures, byFarm: map[string]*Line{}}
}

// Apply puts a configuration into effect, on one of the loops, and gives the lines
// of its farms in their order. A line whose farm is no more is forgotten once
// nobody waits in it.
func (ls *Lines) Apply(d *Desk, farms []*upstream.Farm, now int64) []*Line {
	lines := make([]*Line, len(farms))
	named := map[string]bool{}
	for i, f := range farms {
		if named[f.Name] = true; ls.byFarm[f.Name] == nil {
			ls.byFarm[f.Name] = NewLine()
		}
		lines[i] = ls.byFarm[f.Name]
		lines[i].Apply(d, f, ls.figures, now)
	}
	for name, l := range ls.byFarm {
		if !named[name] && !l.Crowded() {
			delete(ls.byFarm, name)
		}
	}
	return lines
}

// Look serves every line.
func (ls *Lines) Look(d *Desk, now int64) {
	for _, l := range ls.byFarm {
		l.Look(d, now)
	}
}
