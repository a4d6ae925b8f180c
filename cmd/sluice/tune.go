package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"sluice/internal/tune"
)

// tuneFlags are what `sluice tune` was told.
type tuneFlags struct {
	card        string
	root        string
	file        string
	apply, undo bool
}

// newTune is `sluice tune`: which CPU serves which queue of a network card.
func newTune() *cobra.Command {
	var f tuneFlags
	c := &cobra.Command{
		Use:   "tune",
		Short: "Plan, and set, which CPUs serve the queues of network cards",
		Long: `Plan which CPUs serve the queues of network cards, for the workers of the file given by
--config, else of the defaults. Nothing is written without --apply.

Each queue's interrupt goes to one CPU of the card's node; also of nodes that have workers
and no card of their own, as connections are served on the node on which they arrive. XPS
gives each CPU a queue to send by. RPS and RFS share out in software what a single queue
takes, or fewer queues than nodes.

--apply writes the values and keeps the old ones in tune.json below $STATE_DIRECTORY, else
/var/lib/sluice. --undo writes those back. A start of the machine forgets both.`,
		Example: `  sluice tune
  sluice tune --dev eth0 --apply
  sluice tune --undo`,
		Args: takes(),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.apply && f.undo:
				return misuse("--apply and --undo exclude each other")
			case f.undo && (f.card != "" || f.file != ""):
				return misuse("--undo takes back all that --apply wrote, without --dev or --config")
			case f.undo:
				return f.takeBack(c.OutOrStdout())
			}
			return f.run(c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.card, "dev", "", "this network card only (default: all that are up)")
	flags.BoolVar(&f.apply, "apply", false, "write the values")
	flags.BoolVar(&f.undo, "undo", false, "write the old values back")
	flags.StringVar(&f.root, "root", "", "directory with another /sys and /proc (default: this machine's)")
	flags.StringVar(&f.file, "config", "", "configuration file whose workers are planned for (default: none, the default plan)")
	return c
}

func (f *tuneFlags) run(w io.Writer) error {
	l, err := survey(f.root, f.file)
	if err == nil {
		err = l.failure
	}
	if err != nil {
		return err
	}
	plan, err := tune.Make(l.Machine, l.Plan, f.card)
	if err != nil {
		return err
	}
	tree := os.DirFS(f.store().Root)
	changes, unread := tune.Compare(tree, plan.Settings)
	for _, card := range plan.Cards {
		fmt.Fprintln(w, card)
	}
	if len(plan.Cards) > 0 {
		fmt.Fprintln(w)
	}
	if err := printChanges(w, changes); err != nil {
		return err
	}
	for _, notes := range [][]string{plan.Notes, unread, tune.Balancer(tree)} {
		for _, note := range notes {
			fmt.Fprintln(w, "Note:", note)
		}
	}
	return f.conclude(w, changes)
}

// conclude writes the changes if it is wanted, and says what was done.
func (f *tuneFlags) conclude(w io.Writer, changes []tune.Change) error {
	switch {
	case len(changes) == 0:
		fmt.Fprintln(w, "Nothing to change.")
		return nil
	case !f.apply:
		fmt.Fprintf(w, "%s to change; nothing is written without --apply.\n", plural(len(changes), "value"))
		return nil
	}
	failures, err := f.store().Apply(changes)
	if err != nil {
		return errors.Join(err, printFailures(w, failures))
	}
	fmt.Fprintf(w, "%s written; sluice tune --undo writes the old ones back.\n", plural(len(changes)-len(failures), "value"))
	return printFailures(w, failures)
}

// takeBack is --undo.
func (f *tuneFlags) takeBack(w io.Writer) error {
	if f.root != "" {
		if err := checkRoot(f.root); err != nil {
			return err
		}
	}
	changes, failures, err := f.store().Undo()
	if err == nil {
		err = printChanges(w, changes)
	}
	if err != nil {
		return errors.Join(err, printFailures(w, failures))
	}
	if len(changes)+len(failures) == 0 {
		fmt.Fprintf(w, "Nothing to take back: %s has nothing since the machine was started.\n", f.store().Path)
		return nil
	}
	fmt.Fprintf(w, "%s taken back.\n", plural(len(changes), "value"))
	return printFailures(w, failures)
}

func (f *tuneFlags) store() tune.Store {
	root := cmp.Or(f.root, "/")
	return tune.Store{Root: root, Path: tune.Default(root, os.Getenv)}
}

func printChanges(w io.Writer, changes []tune.Change) error {
	if len(changes) == 0 {
		return nil
	}
	t := newTable("FILE >OLD >NEW")
	for _, c := range changes {
		t.add("/"+c.File, c.Old, c.New)
	}
	return t.print(w)
}

// printFailures names what could not be written, and makes an error of it.
func printFailures(w io.Writer, failures []tune.Failure) error {
	for _, failure := range failures {
		fmt.Fprintln(w, failure)
	}
	if len(failures) == 0 {
		return nil
	}
	return fmt.Errorf("a part was not done: %s could not be written, see above", plural(len(failures), "value"))
}
