package proxy

import (
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// spill is step 5 when no server of the own node has a permit left: one of another
// node that has clearly more of them; nil if there is none.
func (x *exchange) spill() *upstream.Server {
	desk, now := x.p.desk, x.p.exec.Now()
	most := desk.SpillBound(x.farm, now)
	if most < 0 {
		return nil
	}
	return x.turns[x.farm.Index].Spill(now, x.tried, func(s *upstream.Server) bool { return desk.Spare(s, most) })
}

// cross counts a try by where its server is, for the loop and for the server.
func (x *exchange) cross(server *segment.Crossings) {
	loop := &x.p.stats.Crossings
	switch {
	case x.server.Node() < 0:
	case x.server.Near():
		loop.Local.Inc()
		server.Local.Inc()
	default:
		loop.Remote.Inc()
		server.Remote.Inc()
		if x.turns[x.farm.Index].AtHome(x.p.exec.Now(), x.tried) {
			loop.Spilled.Inc()
			server.Spilled.Inc()
		}
	}
}
