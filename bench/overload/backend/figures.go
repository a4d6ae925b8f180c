package main

// figures are what has happened since the last cut.
type figures struct {
	since       float64 // seconds; the time of the last cut
	at          float64 // the time that area is from
	good, lies  int64   // answers
	held        int     // requests in hand now
	mostHeld    int
	area        float64 // requests held, integrated over the time since the cut
	connections int     // open now
	mostOpen    int
}

// Cut is what the experiment is told; bench/overload/ramp reads it.
type Cut struct {
	Seconds         float64 `json:"seconds"` // that it is about
	Good            int64   `json:"good"`    // requests that were answered after their work
	Lies            int64   `json:"lies"`    // requests that were answered otherwise
	Held            int     `json:"held"`    // at its end
	MostHeld        int     `json:"most_held"`
	MeanHeld        float64 `json:"mean_held"`
	Connections     int     `json:"connections"` // open at its end
	MostConnections int     `json:"most_connections"`
}

// hold counts a request more, or one less.
func (f *figures) hold(now float64, by int) {
	f.pass(now)
	f.held += by
	f.mostHeld = max(f.mostHeld, f.held)
}

// connect counts a connection more, or one less.
func (f *figures) connect(by int) {
	f.connections += by
	f.mostOpen = max(f.mostOpen, f.connections)
}

func (f *figures) pass(now float64) {
	if now > f.at {
		f.area += float64(f.held) * (now - f.at)
		f.at = now
	}
}

// cut tells what has happened, and begins anew.
func (f *figures) cut(now float64) Cut {
	f.pass(now)
	c := Cut{
		Seconds: now - f.since, Good: f.good, Lies: f.lies,
		Held: f.held, MostHeld: f.mostHeld,
		Connections: f.connections, MostConnections: f.mostOpen,
	}
	if c.Seconds > 0 {
		c.MeanHeld = f.area / c.Seconds
	}
	*f = figures{since: now, at: now, held: f.held, mostHeld: f.held, connections: f.connections, mostOpen: f.connections}
	return c
}
