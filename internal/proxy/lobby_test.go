package proxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/admission"
	"sluice/internal/config"
	"sluice/internal/segment"
	"sluice/internal/upstream"
)

// lobby is where the requests of a stage are held: gates and figures such as a
// segment has, for the one loop of the one worker.
type lobby struct {
	gates []segment.Gate      // by server, as below
	waits []segment.LineStats // who waits for it
	homes []segment.Home
	desk  *admission.Desk
	lines *admission.Lines
}

// firstSlot is the slot of a stage's first server: those of other farms come before.
const firstSlot = 2

// newLobby makes gates for servers whose permits are counted in figures. Nobody
// else waits for them, so no bell is rung.
func newLobby(t testing.TB, figures []segment.ServerStats) *lobby {
	h := &lobby{gates: make([]segment.Gate, len(figures)), waits: make([]segment.LineStats, len(figures)), homes: make([]segment.Home, len(figures))}
	office := admission.Office{
		Gates: func(slot int) *segment.Gate { return &h.gates[slot-firstSlot] },
		Ring:  func(worker int) { t.Errorf("the bell of worker %d is rung", worker) },
	}
	h.desk = office.NewDesk(func(slot int) *segment.ServerStats { return &figures[slot-firstSlot] }, 0)
	h.lines = admission.NewLines(func(slot int) *segment.LineStats { return &h.waits[slot-firstSlot] })
	return h
}

// apply opens the gates as the farms say, like a supervisor, and gives their lines.
// On the loop.
func (h *lobby) apply(farms []*upstream.Farm, now int64) []*admission.Line {
	for _, f := range farms {
		n, _ := f.Admission.Limit.Fixed() // 0, no limit, if it is another kind
		for _, s := range f.Servers {
			h.gates[s.Slot-firstSlot].Limit.Store(int64(n))
		}
	}
	return h.lines.Apply(h.desk, farms, now)
}

// limit sets the limit of a server and rings. On the loop.
func (h *lobby) limit(server byte, to string, now int64) error {
	n, err := strconv.Atoi(to)
	h.gates[server-'a'].Limit.Store(int64(n))
	h.lines.Look(h.desk, now)
	return err
}

// reload puts another configuration in force: line takes the place of those of its
// kind, config or farm, that have the same key.
func (s *stage) reload(line string) error {
	kind, text, _ := strings.Cut(line, " ")
	lines := map[string]*[]string{"config": &s.script.config, "farm": &s.script.farm}[kind]
	if lines == nil {
		return fmt.Errorf("reload config, or reload farm")
	}
	key, _, _ := strings.Cut(text, ":")
	*lines = append(slices.DeleteFunc(slices.Clone(*lines), func(old string) bool {
		return strings.HasPrefix(old, key+":")
	}), text)
	cfg, err := s.parse()
	if err != nil {
		return err
	}
	return s.apply(cfg)
}

// apply makes cfg the configuration of what begins from now on.
func (s *stage) apply(cfg *config.Config) (err error) {
	farms, _ := s.servers.Apply(cfg, func(_, url string) int { return firstSlot + slices.Index(s.urls, url) })
	s.rig.on(func() {
		lines := s.lobby.apply(farms, s.rig.executor().Now())
		var snapshot *Snapshot
		if snapshot, err = NewSnapshot(cfg, farms, lines); err == nil {
			s.proxy.Apply(snapshot)
		}
	})
	return err
}

// counts are the figures that a transcript can name: the loop's, or a server's.
func (s *stage) counts(server string) map[string]int64 {
	crossed := func(c *segment.Crossings, more map[string]int64) map[string]int64 {
		more["local"], more["remote"], more["spilled"] = int64(c.Local.Load()), int64(c.Remote.Load()), int64(c.Spilled.Load())
		return more
	}
	if server == "" {
		l := &s.loop
		return crossed(&l.Crossings, map[string]int64{
			"tunnels": l.Tunnels.Load(), "held": l.Held.Load(), "left": int64(l.LeftHeld.Load()), "active": l.Active.Load(),
			"sessions": l.Connections.Load(), "waits": int64(l.Wait.Count()),
		})
	}
	i := int(server[0] - 'a')
	f := &s.figures[i]
	return crossed(&f.Crossings, map[string]int64{
		"good": int64(f.Good.Load()), "slow": int64(f.Slow.Load()), "ignored": int64(f.Ignored.Load()), "failed": int64(f.Failed.Load()),
		"permits": s.lobby.gates[i].InFlight.Load(), "waiting": s.lobby.waits[i].Waiting.Load(), "waits": int64(f.Wait.Count()),
	})
}

// compareCounts waits until figures are what they must be: name=value …
func (s *stage) compareCounts(server, text string) error {
	for _, field := range strings.Fields(text) {
		name, value, _ := strings.Cut(field, "=")
		want, err := strconv.ParseInt(value, 10, 64)
		if _, known := s.counts(server)[name]; !known || err != nil {
			return fmt.Errorf("no such figure: %s", field)
		}
		if !s.rig.settled(func() bool { return s.counts(server)[name] == want }) {
			return fmt.Errorf("%s is %d, want %d", name, s.counts(server)[name], want)
		}
	}
	return nil
}

// cleared checks that nobody waits and no permit is out, and that what the proxy
// keeps for the next requests holds nothing of the last.
func (s *stage) cleared() {
	for i := range s.lobby.gates {
		g, f, w := &s.lobby.gates[i], &s.figures[i], &s.lobby.waits[i]
		if !s.rig.settled(func() bool { return g.InFlight.Load() == 0 }) || f.Permits.Load() != 0 {
			s.t.Errorf("server %c at the end: %d permits out, %d by the loop's account", 'a'+i, g.InFlight.Load(), f.Permits.Load())
		}
		if g.Waiters.Load() != 0 || w.Waiting.Load() != 0 {
			s.t.Errorf("server %c at the end: workers %b wait, %d requests", 'a'+i, g.Waiters.Load(), w.Waiting.Load())
		}
	}
	s.rig.on(func() {
		if n, m := s.proxy.lent, s.proxy.buffers.lent; n != 0 || m != 0 {
			s.t.Errorf("%d exchanges and %d buffers have not come back", n, m)
		}
		for _, x := range s.proxy.spare {
			if x.s != nil || x.in != nil || x.back != nil || x.upload.buf != nil || x.conn != nil || x.permit.Out() {
				s.t.Errorf("a spare exchange holds something: %+v", x)
			}
		}
	})
}
