// Attacker abuses a proxy by one class until it is told to end, and then says what became
// of it, as JSON.
//
//	attacker CLASS HOST:PORT HOST:PORT
//
// The addresses are those without and with TLS. All its threads have the scheduling
// policy SCHED_IDLE (sched(7)): it gets the time that nobody else on its CPUs wants.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"sluice/bench/abuse/attack"
	"sluice/bench/proc"
)

// descriptors are more than any class needs.
const descriptors = 20_000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "attacker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("give a class (%s) and two addresses, without and with TLS", strings.Join(attack.Names(), ", "))
	}
	c, is := attack.Find(args[0])
	if !is {
		return fmt.Errorf("%q is no class; write one of %s", args[0], strings.Join(attack.Names(), ", "))
	}
	if err := idle(); err != nil {
		return err
	}
	if err := proc.AllowFiles(descriptors); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(attack.Run(ctx, c, attack.Target{Plain: args[1], Secure: args[2]}))
}

// idle gives every thread the policy SCHED_IDLE. A thread has it from the one that began
// it, and the Go runtime has begun some already: so the program begins anew, in a thread
// that has it.
func idle() error {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy == unix.SCHED_IDLE {
		return err
	}
	runtime.LockOSThread()
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0); err != nil {
		return fmt.Errorf("SCHED_IDLE: %w", err)
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}
