// Package postgres runs PostgreSQL for the benches: it finds the programs, which come
// from Debian's packages, makes databases and starts servers with them.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sluice/bench/proc"
)

// Package is Debian's that has what Find looks for.
const Package = "postgresql"

// User is the database's only user, who needs no password.
const User = "bench"

// Tools is where the programs are.
type Tools struct {
	initdb, postgres, pgbench string
	setpriv                   string
	account                   *user.User // that the server runs as; nil: as who runs this
}

// Find looks for the programs. Its error names those that are missing.
func Find() (*Tools, error) {
	var t Tools
	var errs []error
	for _, p := range []struct {
		into *string
		name string
	}{{&t.initdb, "initdb"}, {&t.postgres, "postgres"}, {&t.pgbench, "pgbench"}, {&t.setpriv, "setpriv"}} {
		if *p.into = find(p.name); *p.into == "" {
			errs = append(errs, errors.New(p.name))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if os.Getuid() != 0 {
		return &t, nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	t.account = account
	return &t, nil
}

// find looks in the path, and where Debian puts what the path lacks.
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// Version is what the server's program tells of itself.
func (t *Tools) Version(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, t.postgres, "--version").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "postgres (PostgreSQL) ")
}

// Bench is the path of pgbench, the load generator.
func (t *Tools) Bench() string { return t.pgbench }

// Data is a database cluster on disk; a server at a time runs on it.
type Data struct {
	tools *Tools
	dir   string
}

// Create makes a cluster with PostgreSQL's defaults. The caller removes it.
func (t *Tools) Create(ctx context.Context) (*Data, error) {
	dir, err := os.MkdirTemp("", "sluice-postgres-")
	if err != nil {
		return nil, err
	}
	d := &Data{tools: t, dir: dir}
	if t.account != nil {
		uid, _ := strconv.Atoi(t.account.Uid)
		gid, _ := strconv.Atoi(t.account.Gid)
		err = os.Chown(dir, uid, gid)
	}
	if err == nil {
		err = Command(ctx, t.as(t.initdb, "--no-sync", "--auth=trust", "--username="+User, "--encoding=UTF8", "--locale=C", "-D", dir)...)
	}
	if err != nil {
		d.Remove()
		return nil, err
	}
	return d, nil
}

// Remove removes the cluster.
func (d *Data) Remove() { os.RemoveAll(d.dir) }

// Server is one that runs on a cluster.
type Server struct {
	Port        int      // on 127.0.0.1
	Connections int      // at most
	Log         string   // file for what it complains about
	CPUs        []int    // that it may run on; nil: all
	Settings    []string // more, as "shared_buffers=256MB"
}

// Start starts a server and waits until it accepts connections. The caller stops it.
func (d *Data) Start(ctx context.Context, s Server) (*proc.Process, error) {
	args := []string{d.tools.postgres, "-D", d.dir, "-h", "127.0.0.1", "-p", strconv.Itoa(s.Port), "-k", "", "-N", strconv.Itoa(s.Connections)}
	for _, setting := range s.Settings {
		args = append(args, "-c", setting)
	}
	run := d.tools.as(args...)
	// SIGINT is a fast shutdown, which does not wait for connections to end.
	p, err := proc.Start(proc.Command{Path: run[0], Args: run[1:], Log: s.Log, Stop: syscall.SIGINT, Dir: d.dir, CPUs: s.CPUs})
	if err != nil {
		return nil, err
	}
	if err := await(ctx, p, s.Port); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// as is a command that runs as the server's account, and ends when its parent ends.
func (t *Tools) as(args ...string) []string {
	if t.account == nil {
		return args
	}
	return slices.Concat([]string{t.setpriv, "--reuid=" + t.account.Uid, "--regid=" + t.account.Gid, "--clear-groups", "--pdeathsig=INT"}, args)
}

// await waits until the server accepts connections.
func await(ctx context.Context, p *proc.Process, port int) error {
	const within, askEvery = 30 * time.Second, 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-p.Done():
			return fmt.Errorf("the database ended at once: %w", p.Wait())
		case <-ctx.Done():
			return fmt.Errorf("the database is not ready after %v: %w", within, err)
		}
	}
}

// Command runs a command to its end, in a directory that any account may enter; its
// error has what it said.
func Command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = os.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, strings.TrimSpace(string(out)))
	}
	return nil
}
