// Package ground is where an attack is watched: Sluice with a backend, users who behave
// well, and an attacker beside them.
package ground

import (
	"context"
	"net"
	"time"

	"sluice/bench/floor"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/secure"
	"sluice/bench/suite"
	"sluice/bench/toolchain"
)

// Ground is the programs, and where they run.
type Ground struct {
	Dir     string        // for everything that is written; the caller removes it
	Sluice  string        // the program under test
	Warm    time.Duration // load that is not measured, first
	Measure time.Duration // of each phase

	hb, attacker, floor string // programs
	layout              suite.Layout
	attacks             []int // CPUs of the attacker
	certificate         secure.Certificate
	ports               peers.Ports
	sockets             *sockets
}

// descriptors are what the tunnels of an attack take here, and those of the attacker.
const descriptors = 20_000

// Open builds the programs, moves this process off Sluice's CPU, and begins to serve
// WebSockets. The caller ends that by Close.
func (g *Ground) Open(ctx context.Context) error {
	cpus := proc.AllowedCPUs()
	g.layout = suite.Single(cpus)
	g.attacks = cpus[min(3, len(cpus)-1):][:1]
	var err error
	if g.hb, err = toolchain.Go(ctx, g.Dir, "hb", "sluice/cmd/hb"); err != nil {
		return err
	}
	if g.attacker, err = toolchain.Go(ctx, g.Dir, "attacker", "sluice/bench/abuse/attacker"); err != nil {
		return err
	}
	if g.floor, err = toolchain.C(ctx, g.Dir, "floor", floor.Source); err != nil {
		return err
	}
	certificates, err := secure.Make(g.Dir)
	if err != nil {
		return err
	}
	g.certificate = certificates[secure.P256]
	if err := proc.AllowFiles(descriptors); err != nil {
		return err
	}
	if err := proc.PinAll(g.layout.Load[0]); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	g.sockets = serveSockets(listener)
	return nil
}

// Close ends what Open has begun.
func (g *Ground) Close() { g.sockets.close() }

// Method says how it is measured.
func (g *Ground) Method() []string {
	return []string{
		"Sluice runs on one CPU, so that the attacked connections and those of the users meet on one loop. Users, backends and this bench have the next CPUs, the attacker the last; on two CPUs all of these share the second.",
		"The attacker strikes without pause and comes again at once when its connection ends. All its threads have SCHED_IDLE: users and backends on its CPU run before it, so that what users wait for is Sluice and not their own CPU, and the attacker still gets all that they leave, which is most.",
		"A round is three phases, in an order that turns: calm; attacked; and the control, where the same attack goes to a second Sluice with a backend of its own, on the same CPU as the first, which the users ask. What the attack costs beside a Sluice that is not attacked (the kernel, the caches, the fair half of the CPU) is in the control too. Each phase begins with new processes.",
		"Users are an open loop with Poisson arrivals by hb, and their times count from when a request was due: " + usersText() + ".",
		"p99 is compared round by round, for each sort of users apart: the ratios' geometric mean with its 95 % interval (Student's t). The table has the users who suffered most against the control.",
		"A turn is what a loop does between two looks at who is ready, by Sluice's own clock (sluice_loop_busy_seconds_total ÷ sluice_loop_turns_total): what a user waits for others' sake, as a mean. What takes the CPU from Sluice meanwhile is in it.",
		"CPU is that of all processes of the attacked Sluice, in CPU seconds per second, less that of the calm phase of the same round; memory is the peak of their resident memory (VmHWM), less the same.",
	}
}
