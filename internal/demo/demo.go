// Package demo is what `sluice run --demo` shows a newcomer: a small web site
// behind Sluice, answered by real app workers, with one command and no file.
//
// Start finds free ports, writes the configuration that a user would write, and
// starts the app workers: one for each NUMA node, and one more so that balancing
// shows. The supervisor then runs that configuration like any other; nothing in
// Sluice knows that it is a demo. The workers are this binary in a hidden role
// (Main): instance.go keeps them alive, app.go and page.html are the site.
package demo

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/internal/config"
	"sluice/internal/placement"
	"sluice/internal/topology"
)

// The ports that the demo would like to have. If one is taken it looks at the
// next portsTried.
const (
	sitePort   = 8080
	adminPort  = 9900
	portsTried = 100
)

// Demo is a set of running app workers, and the configuration that leads to them.
type Demo struct {
	config *config.Config
	site   int    // port
	logDir string // holds the access log; removed by Stop
	farm   *farm
}

// Start starts the app workers. admin overrides the admin address unless it is
// empty. The error says what could not be had: a port, a process, a directory.
func Start(admin string) (*Demo, error) {
	places, err := plan()
	if err != nil {
		return nil, err
	}
	site, err := freePort("", sitePort)
	if err != nil {
		return nil, err
	}
	if admin == "" {
		port, err := freePort("127.0.0.1", adminPort)
		if err != nil {
			return nil, err
		}
		admin = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	d := &Demo{site: site}
	if d.logDir, err = os.MkdirTemp("", "sluice-demo-"); err != nil {
		return nil, err
	}
	if d.farm, err = startFarm(places); err != nil {
		d.Stop()
		return nil, err
	}
	text := configuration(site, admin, d.accessLog(), d.farm.instances)
	if d.config, err = config.Parse("demo", []byte(text)); err != nil {
		d.Stop()
		return nil, err
	}
	return d, nil
}

// plan says where the app workers go: one to each node that Sluice will have a
// listener process on, one more to the first.
func plan() ([]placement.Worker, error) {
	machine, err := topology.Read("")
	if err != nil {
		return nil, err
	}
	plan, err := placement.Plan(machine, placement.Wishes{
		Per: "node", Affinity: "hard", Memory: "prefer", Allowed: topology.Allowed(),
	})
	if err != nil {
		return nil, err
	}
	return append(plan.Workers, plan.Workers[0]), nil
}

// freePort is the first port from first on that nobody listens on.
func freePort(host string, first int) (int, error) {
	var err error
	for port := first; port < first+portsTried; port++ {
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port from %d to %d: %w", first, first+portsTried-1, err)
}

// configuration is the demo's, as a user would write it.
func configuration(site int, admin, log string, instances []*instance) string {
	var b strings.Builder
	fmt.Fprintf(&b, "admin: {listen: %q}\n", admin)
	fmt.Fprintf(&b, "log: {level: warn, access: {path: %q, format: combined}}\n", log)
	fmt.Fprintf(&b, "forward: {placement: true}\n")
	fmt.Fprintf(&b, "listeners:\n  - {name: demo, address: \":%d\"}\n", site)
	fmt.Fprintf(&b, "farms:\n  demo:\n    servers:\n")
	for _, in := range instances {
		if in.place.Node < 0 {
			fmt.Fprintf(&b, "      - {url: %q}\n", in.url)
			continue
		}
		fmt.Fprintf(&b, "      - {url: %q, node: %d}\n", in.url, in.place.Node)
	}
	return b.String()
}

// Config is the configuration to run.
func (d *Demo) Config() *config.Config { return d.config }

func (d *Demo) accessLog() string { return filepath.Join(d.logDir, "access.log") }

// Welcome tells a newcomer where to look and what to try.
func (d *Demo) Welcome(w io.Writer) {
	site := fmt.Sprintf("http://localhost:%d", d.site)
	fmt.Fprintln(w, "\n  Sluice runs.")
	fmt.Fprintln(w)
	if d.site != sitePort {
		fmt.Fprintf(w, "  (Port %d is taken, so the site is on %d.)\n\n", sitePort, d.site)
	}
	fmt.Fprintf(w, "  site         %s/\n", site)
	fmt.Fprintf(w, "  admin        %s\n", adminURL(d.config.Admin.Listen))
	fmt.Fprintf(w, "  app workers  %d: one for each NUMA node, and one more\n", len(d.farm.instances))
	fmt.Fprintf(w, "  access log   %s\n\n", d.accessLog())
	fmt.Fprintf(w, "  Open the site in a browser, or try in another terminal\n\n")
	fmt.Fprintf(w, "    curl -s %s/whoami\n", site)
	fmt.Fprintf(w, "    %s status%s\n\n", os.Args[0], adminFlag(d.config.Admin.Listen))
	fmt.Fprintf(w, "  Ctrl-C ends it.\n\n")
}

// adminURL is how a person opens the admin address.
func adminURL(listen string) string {
	if strings.HasPrefix(listen, "unix:") || listen == "off" {
		return listen
	}
	return "http://" + listen + "/"
}

// adminFlag is what `sluice status` needs to find the demo.
func adminFlag(listen string) string {
	if listen == net.JoinHostPort("127.0.0.1", strconv.Itoa(adminPort)) {
		return ""
	}
	return " --admin " + listen
}

// Stop ends the app workers and returns when they are gone. The supervisor should
// have ended before, so that no request is in their hands.
func (d *Demo) Stop() {
	if d.farm != nil {
		d.farm.stop()
	}
	os.RemoveAll(d.logDir) // a log that nobody asked for; what is left is in the system's temporary directory
}
