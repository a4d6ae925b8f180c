package admission

import (
	"weak"

	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// Lines keeps the Line of every farm of a worker over reloads. It belongs to
// one of its loops.
type Lines struct {
	figures func(slot int) *segment.LineStats
	current []*Line // of the configuration in force

	// byFarm has those of former configurations too, for as long as a request has
	// to do with one: a farm that comes back while they wait finds its line, since
	// two lines before one server would write the same figures.
	byFarm map[string]weak.Pointer[Line]
}

// NewLines makes the registry; figures gives the worker's figures of who waits for
// a server.
func NewLines(figures func(slot int) *segment.LineStats) *Lines {
	return &Lines{figures: figures, byFarm: map[string]weak.Pointer[Line]{}}
}

// Apply puts a configuration into effect, on one of the loops, and gives the lines
// of its farms in their order. The line of a farm that is no more goes on serving
// those who wait in it.
func (ls *Lines) Apply(d *Desk, farms []*upstream.Farm, now int64) []*Line {
	lines := make([]*Line, len(farms))
	for i, f := range farms {
		if lines[i] = ls.byFarm[f.Name].Value(); lines[i] == nil {
			lines[i] = NewLine()
			ls.byFarm[f.Name] = weak.Make(lines[i])
		}
		lines[i].Apply(d, f, ls.figures, now)
	}
	ls.current = lines
	return lines
}

// Look serves every line.
func (ls *Lines) Look(d *Desk, now int64) {
	for name, kept := range ls.byFarm {
		if l := kept.Value(); l != nil {
			l.Look(d, now)
		} else {
			delete(ls.byFarm, name)
		}
	}
}
