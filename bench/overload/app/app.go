// Package app is the real application that the experiment puts under load, and its
// database: App.java on Tomcat, and PostgreSQL. It finds the programs, which come from
// Debian's packages, and starts both.
package app

import (
	"context"
	_ "embed"
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

//go:embed App.java
var source []byte

// Threads are those of the application: some more than there are users in the
// experiment. Each has a connection to the database.
const Threads = 260

// Heap is the application's. The objects of few requests fit well, those of all
// threads hardly do.
const Heap = "128m"

// packages are Debian's that have what is needed.
const packages = "default-jdk-headless libtomcat10-embed-java libtomcat10-java libpostgresql-jdbc-java postgresql"

// Tools is where the programs are.
type Tools struct {
	java, javac      string
	classPath        string
	initdb, postgres string
	setpriv          string
	account          *user.User // that the database runs as; nil: as who runs this
}

// Find looks for the programs. Its error says what to install.
func Find() (*Tools, error) {
	var t Tools
	var errs []error
	find := func(into *string, patterns ...string) {
		for _, pattern := range patterns {
			if path, err := exec.LookPath(pattern); err == nil {
				*into = path
				return
			}
			if found, _ := filepath.Glob(pattern); len(found) > 0 {
				*into = found[len(found)-1]
				return
			}
		}
		errs = append(errs, errors.New(patterns[0]))
	}
	var tomcat, annotations, jdbc string
	find(&t.java, "java")
	find(&t.javac, "javac")
	find(&tomcat, "/usr/share/java/tomcat10-embed-core.jar")
	find(&annotations, "/usr/share/java/tomcat10-annotations-api.jar")
	find(&jdbc, "/usr/share/java/postgresql.jar")
	find(&t.initdb, "initdb", "/usr/lib/postgresql/*/bin/initdb")
	find(&t.postgres, "postgres", "/usr/lib/postgresql/*/bin/postgres")
	find(&t.setpriv, "setpriv")
	if len(errs) > 0 {
		return nil, fmt.Errorf("apt-get install %s: missing %w", packages, errors.Join(errs...))
	}
	t.classPath = strings.Join([]string{tomcat, annotations, jdbc}, ":")
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

// Running is an application with its database.
type Running struct {
	database, shop *proc.Process
	data           string // directory of the database
}

// Ports are where it listens, on 127.0.0.1.
type Ports struct{ Shop, Control, Database int }

// Start starts both, with dir for what the application writes. It returns when the
// tables are filled and the shop is open; the caller ends it with Stop.
func Start(ctx context.Context, t *Tools, dir string, ports Ports, ready func(context.Context, int, *proc.Process) error) (*Running, error) {
	if err := t.compile(ctx, dir); err != nil {
		return nil, err
	}
	r := &Running{}
	if err := r.startDatabase(ctx, t, dir, ports.Database); err != nil {
		r.Stop()
		return nil, err
	}
	var err error
	r.shop, err = proc.Start(proc.Command{
		Path: t.java,
		Args: []string{"-Xms" + Heap, "-Xmx" + Heap, "-cp", dir + ":" + t.classPath, "App",
			strconv.Itoa(ports.Shop), strconv.Itoa(ports.Control),
			fmt.Sprintf("jdbc:postgresql://127.0.0.1:%d/postgres?user=shop&sslmode=disable", ports.Database),
			strconv.Itoa(Threads), dir},
		Log: filepath.Join(dir, "shop.log"),
	})
	if err == nil {
		err = ready(ctx, ports.Shop, r.shop)
	}
	if err != nil {
		r.Stop()
		return nil, fmt.Errorf("application: %w", err)
	}
	return r, nil
}

// Stop ends both and removes the data.
func (r *Running) Stop() {
	for _, p := range []*proc.Process{r.shop, r.database} {
		if p != nil {
			p.Stop()
		}
	}
	if r.data != "" {
		os.RemoveAll(r.data)
	}
}

func (t *Tools) compile(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "App.java")
	if err := os.WriteFile(path, source, 0o644); err != nil {
		return err
	}
	return command(ctx, t.javac, "-nowarn", "-cp", t.classPath, "-d", dir, path)
}

// startDatabase makes a database and starts it, with PostgreSQL's defaults but for
// the number of connections.
func (r *Running) startDatabase(ctx context.Context, t *Tools, dir string, port int) error {
	var err error
	if r.data, err = os.MkdirTemp("", "sluice-overload-"); err != nil {
		return err
	}
	if t.account != nil {
		uid, _ := strconv.Atoi(t.account.Uid)
		gid, _ := strconv.Atoi(t.account.Gid)
		if err := os.Chown(r.data, uid, gid); err != nil {
			return err
		}
	}
	prepare := t.as(t.initdb, "--no-sync", "--auth=trust", "--username=shop", "--encoding=UTF8", "--locale=C", "-D", r.data)
	if err := command(ctx, prepare...); err != nil {
		return err
	}
	run := t.as(t.postgres, "-D", r.data, "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-k", "", "-N", strconv.Itoa(Threads+10))
	// SIGINT is a fast shutdown, which does not wait for connections to end.
	r.database, err = proc.Start(proc.Command{Path: run[0], Args: run[1:], Log: filepath.Join(dir, "database.log"), Stop: syscall.SIGINT, Dir: r.data})
	if err != nil {
		return err
	}
	return r.awaitDatabase(ctx, port)
}

// as is a command that runs as the database's account, and ends when its parent ends.
func (t *Tools) as(args ...string) []string {
	if t.account == nil {
		return args
	}
	return slices.Concat([]string{t.setpriv, "--reuid=" + t.account.Uid, "--regid=" + t.account.Gid, "--clear-groups", "--pdeathsig=INT"}, args)
}

// awaitDatabase waits until it accepts connections.
func (r *Running) awaitDatabase(ctx context.Context, port int) error {
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
		case <-r.database.Done():
			return fmt.Errorf("the database ended at once: %w", r.database.Wait())
		case <-ctx.Done():
			return fmt.Errorf("the database is not ready after %v: %w", within, err)
		}
	}
}

// command runs a command to its end; its error has what it said.
func command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = os.TempDir() // which any account may enter
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(args[0]), err, strings.TrimSpace(string(out)))
	}
	return nil
}
