package supervisor

import (
	"slices"
	"time"

	"sluice/internal/admin"
	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/spec"
	"sluice/internal/tlsterm/authority"
	"sluice/internal/tlsterm/keyring"
)

var _ admin.View = (*Supervisor)(nil)

// snapshot is what others see of the event loop's state. It is immutable.
type snapshot struct {
	current *edition
	ready   bool
	workers []admin.WorkerView

	taken, refused uint64           // see keys
	orders         authority.Orders // likewise
}

// publish shows the state as it is now. The event loop calls it when it has
// handled an event.
func (s *Supervisor) publish() {
	view := &snapshot{current: s.current, ready: s.phase == serving, workers: make([]admin.WorkerView, len(s.members))}
	view.taken, view.refused, view.orders = s.keys.renewed, s.keys.refused, s.keys.orders
	for i, m := range s.members {
		view.workers[i] = m.view()
		view.ready = view.ready && m.state == segment.Serving
	}
	s.shown.Store(view)
}

func (m *member) view() admin.WorkerView {
	v := admin.WorkerView{
		Index: m.place.Index, Node: m.place.Node, Nodes: m.place.Nodes, CPUs: m.place.CPUs, Loops: m.place.Loops,
		State: m.state.String(), Restarts: m.restarts,
	}
	if m.process != nil {
		v.PID, v.Started = m.process.pid, m.process.started
	}
	return v
}

// Config is the configuration in force.
func (s *Supervisor) Config() *config.Config { return s.shown.Load().current.config }

// Generation counts the configurations that were in force or refused, from 1.
func (s *Supervisor) Generation() uint64 { return s.shown.Load().current.generation }

// Servers are the servers of the configuration in force, with their slots.
func (s *Supervisor) Servers() []spec.ServerSlot { return s.shown.Load().current.servers }

// Workers are the listener processes, by index.
func (s *Supervisor) Workers() []admin.WorkerView { return s.shown.Load().workers }

// Ready says whether every worker serves.
func (s *Supervisor) Ready() bool { return s.shown.Load().ready }

// Build is the version of the binary.
func (s *Supervisor) Build() string { return s.options.Build }

// Started is when the supervisor was made.
func (s *Supervisor) Started() time.Time { return s.started }

// Segment is the memory shared with the workers. It is unmapped when Run returns.
func (s *Supervisor) Segment() *segment.Segment { return s.shared }

// Certificates are those of the configuration in force, each file once.
func (s *Supervisor) Certificates() admin.CertificatesView {
	shown := s.shown.Load()
	view := admin.CertificatesView{Taken: shown.taken, Refused: shown.refused, Issued: shown.orders.Issued, Failed: shown.orders.Failed}
	known := map[string]bool{}
	for _, c := range shown.current.ring.Certs {
		if known[c.File] {
			continue
		}
		known[c.File] = true
		view.All = append(view.All, admin.CertificateView{
			File: c.File, Names: c.Names(), Issuer: c.Leaf.Issuer.String(), Expires: c.Leaf.NotAfter,
			Asked: c.Asked != "", Soon: c.EndsSoon(time.Now()),
		})
	}
	if a := shown.current.config.TLS.ACME; a != nil {
		for _, name := range a.Names {
			view.Asked = append(view.Asked, nameView(name, shown))
		}
	}
	return view
}

// nameView is what came of a name that certificates are asked for.
func nameView(name string, shown *snapshot) admin.NameView {
	v := admin.NameView{Name: name, Held: slices.ContainsFunc(shown.current.ring.Certs, func(c keyring.Cert) bool { return c.Asked == name })}
	for _, o := range shown.orders.All {
		if o.Name == name {
			v.Failed, v.Error, v.Next = o.Failed, o.Error, o.Next
		}
	}
	return v
}
