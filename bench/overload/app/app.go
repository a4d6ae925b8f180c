// Package app is the real application that the experiment puts under load, and its
// database: App.java on Tomcat, and PostgreSQL. It finds the programs, which come from
// Debian's packages, and starts both.
package app

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/bench/postgres"
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
	java, javac string
	classPath   string
	database    *postgres.Tools
}

// Find looks for the programs. Its error says what to install.
func Find() (*Tools, error) {
	var t Tools
	var errs []error
	find := func(into *string, path string) {
		var err error
		if *into, err = exec.LookPath(path); err != nil {
			errs = append(errs, errors.New(path))
		}
	}
	find(&t.java, "java")
	find(&t.javac, "javac")
	for _, jar := range []string{"tomcat10-embed-core", "tomcat10-annotations-api", "postgresql"} {
		path := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, errors.New(path))
		}
		t.classPath = strings.TrimPrefix(t.classPath+":"+path, ":")
	}
	var err error
	if t.database, err = postgres.Find(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("apt-get install %s: missing %w", packages, errors.Join(errs...))
	}
	return &t, nil
}

// Running is an application with its database.
type Running struct {
	database, shop *proc.Process
	data           *postgres.Data
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
			fmt.Sprintf("jdbc:postgresql://127.0.0.1:%d/postgres?user=%s&sslmode=disable", ports.Database, postgres.User),
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
	if r.data != nil {
		r.data.Remove()
	}
}

func (t *Tools) compile(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "App.java")
	if err := os.WriteFile(path, source, 0o644); err != nil {
		return err
	}
	return postgres.Command(ctx, t.javac, "-nowarn", "-cp", t.classPath, "-d", dir, path)
}

// startDatabase makes a database and starts it, with PostgreSQL's defaults but for
// the number of connections.
func (r *Running) startDatabase(ctx context.Context, t *Tools, dir string, port int) error {
	var err error
	if r.data, err = t.database.Create(ctx); err != nil {
		return err
	}
	r.database, err = r.data.Start(ctx, postgres.Server{Port: port, Connections: Threads + 10, Log: filepath.Join(dir, "database.log")})
	return err
}
