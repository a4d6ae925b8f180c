package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/supervisor"
	"sluice/internal/topology"
)

// newTopology is `sluice topology`: what this machine is, where Sluice would run on
// it, and what stands against that.
func newTopology() *cobra.Command {
	var (
		raw, drawn bool
		root, file string
	)
	c := &cobra.Command{
		Use:   "topology",
		Short: "Show the machine, where workers run on it, and what works against that",
		Long: `Show the machine, the plan of workers beside it, and what of the machine is set up
against the plan, each with its cure. Nothing is changed, and nothing needs to run.

The plan is that of the file given by --config, else of the defaults. --root reads another
machine's /sys and /proc that were copied below a directory:

  cp -r --parents /sys/devices /sys/class/net /sys/class/dmi /proc/cpuinfo /proc/irq \
    /proc/interrupts /proc/sys/kernel/numa_balancing /proc/sys/vm/zone_reclaim_mode DIR

The kernel refuses some of these files: cp says so, and goes on. Where the copy does not
say what the process may use (taskset, a container's cpuset), the plan has every CPU.`,
		Example: `  sluice topology
  sluice topology --config sluice.yaml
  sluice topology --tree --root /tmp/recorded`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			if raw && drawn {
				return misuse("--json and --tree exclude each other")
			}
			l, err := survey(root, file)
			if err != nil {
				return err
			}
			switch out := c.OutOrStdout(); {
			case raw:
				e := json.NewEncoder(out)
				e.SetIndent("", "  ")
				err = e.Encode(l)
			case drawn:
				err = l.tree().print(out)
			default:
				err = l.print(out)
			}
			if err != nil {
				return err
			}
			return l.failure
		},
	}
	c.Flags().BoolVar(&raw, "json", false, "print machine, plan and warnings as JSON")
	c.Flags().BoolVar(&drawn, "tree", false, "draw machine, sockets, nodes, caches, cores and CPUs")
	c.Flags().StringVar(&root, "root", "", "directory with a copy of /sys and /proc (default: this machine)")
	c.Flags().StringVar(&file, "config", "", "configuration file whose workers are planned (default: none, the default plan)")
	return c
}

// layout is a machine with a plan beside it.
type layout struct {
	Machine  *topology.Machine     `json:"machine"`
	Plan     *placement.Assignment `json:"plan"` // null if there can be none
	Warnings []placement.Warning   `json:"warnings"`

	wishes  placement.Wishes
	failure error // why there is no plan
}

// survey reads the machine below root, empty for the real one, and plans the
// workers of a configuration file, empty for the default.
func survey(root, file string) (*layout, error) {
	cfg := config.Default()
	if file != "" {
		var err error
		if cfg, err = config.Load(file); err != nil {
			return nil, err
		}
	}
	l := &layout{Warnings: []placement.Warning{}, wishes: supervisor.Wishes(cfg.Workers)}
	if root == "" {
		l.wishes.Allowed = topology.Allowed()
	} else if err := checkRoot(root); err != nil {
		return nil, err
	}
	var err error
	if l.Machine, err = topology.Read(root); err != nil {
		return nil, err
	}
	if l.Plan, l.failure = placement.Plan(l.Machine, l.wishes); l.failure == nil {
		l.Warnings = append(l.Warnings, placement.Warnings(l.Machine, l.Plan)...)
	}
	return l, nil
}

// checkRoot refuses a directory in which there is no machine.
func checkRoot(root string) error {
	for _, dir := range []string{"sys/devices/system/cpu", "sys/devices/system/node", "proc"} {
		if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("--root %s: neither sys/devices/system nor proc is below it; give the directory that holds a machine's sys and proc", root)
}
