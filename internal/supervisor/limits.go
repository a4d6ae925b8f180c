package supervisor

import (
	"context"
	"sync"
	"time"

	"sluice/internal/admin"
	"sluice/internal/admission/limit"
	"sluice/internal/admission/regulator"
	"sluice/internal/config"
	"sluice/internal/homes"
)

// regulate lets the limits and the servers' homes follow the configuration. While a reload is under way
// that is the one in force and the servers that the next one adds: a worker that
// has the next one already may send to them.
func (s *Supervisor) regulate() {
	servers, residents := s.current.regulated(), s.current.residents()
	if next := s.target(); next != s.current {
		servers = withMore(servers, next.regulated())
		residents = append(next.residents(), residents...)
	}
	s.regulator.Use(servers)
	s.homes.Use(residents)
}

// residents are the servers of an edition, for Homes.
func (e *edition) residents() []homes.Server {
	all := make([]homes.Server, 0, len(e.servers))
	for _, f := range e.config.Farms {
		for _, s := range f.Servers { // the edition's servers are in this order
			all = append(all, homes.Server{Server: s, Farm: f.Name, Slot: e.servers[len(all)].Slot})
		}
	}
	return all
}

// keepLimits runs regulator and Homes until the function that it returns is called.
func (s *Supervisor) keepLimits() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.regulator.Run(ctx) })
	running.Go(func() { s.homes.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// regulated are the servers of an edition, with what the operator wishes for them.
func (e *edition) regulated() []regulator.Server {
	servers := make([]regulator.Server, 0, len(e.servers))
	for _, f := range e.config.Farms {
		settings := settingsOf(f.Admission)
		for range f.Servers { // the edition's servers are in the order of the configuration
			s := e.servers[len(servers)]
			servers = append(servers, regulator.Server{Slot: s.Slot, Farm: s.Farm, URL: s.URL, Settings: settings})
		}
	}
	return servers
}

// settingsOf translates a farm's wishes.
func settingsOf(a config.Admission) limit.Settings {
	if a.Limit == "off" {
		return limit.Settings{Kind: limit.Off}
	}
	set := limit.Settings{Kind: limit.Kind(a.Limit), Min: a.Min, Max: a.Max, Target: time.Duration(a.Target)}
	if n, fixed := a.Limit.Fixed(); fixed {
		set.Kind, set.Limit = limit.Fixed, n
	}
	return set
}

// withMore adds the servers of more whose slots are not yet there.
func withMore(servers, more []regulator.Server) []regulator.Server {
	slots := map[int]bool{}
	for _, s := range servers {
		slots[s.Slot] = true
	}
	for _, s := range more {
		if !slots[s.Slot] {
			servers = append(servers, s)
		}
	}
	return servers
}

// Admission is how the limits stand.
func (s *Supervisor) Admission() admin.AdmissionView {
	v := s.regulator.View()
	all := admin.AdmissionView{Leaks: v.Leaks, Stranded: v.Stranded, Servers: make([]admin.LimitView, len(v.Servers))}
	for i := range v.Servers {
		all.Servers[i] = limitView(&v.Servers[i])
	}
	return all
}

func limitView(v *regulator.ServerView) admin.LimitView {
	d := v.Decision
	l := admin.LimitView{
		Farm: v.Farm, URL: v.URL, Slot: v.Slot,
		Kind: string(v.Settings.Kind), Min: v.Settings.Min, Max: v.Settings.Max, Target: v.Settings.Target,
		Limit: d.Limit, InFlight: v.InFlight, Waiting: v.Waiting, Half: d.Half.String(),
		Centre: d.Centre, Throughput: v.Rate, Elasticity: d.Elasticity, Evidence: d.Evidence,
		Moves: map[string]uint64{},
	}
	for reason, n := range v.Counts {
		l.Moves[reason.String()] = n
	}
	for _, m := range v.Moves {
		l.Decisions = append(l.Decisions, admin.DecisionView{
			At: m.At, From: m.From, To: m.To, Half: m.Half.String(), Reason: m.Reason.String(), Centre: m.Centre,
			Elasticity: m.Elasticity, Evidence: m.Evidence, Throughput: m.Throughput, InFlight: m.InFlight, Queue: m.Queue,
		})
		l.Reason, l.Moved = m.Reason.String(), m.At
	}
	return l
}
