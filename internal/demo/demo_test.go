package demo

import (
	"os"
	"strings"
	"testing"
)

func TestStart(t *testing.T) {
	d, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Stop()
	c := d.Config()
	if !c.Forward.Placement || c.Admin.Listen != "127.0.0.1:0" || len(c.Listeners) != 1 || len(c.Routes) != 1 {
		t.Errorf("%+v", c)
	}
	servers := c.Farms[0].Servers
	if len(servers) < 2 {
		t.Fatalf("%d servers: there is nothing to balance", len(servers))
	}
	for i, s := range servers {
		app := who(t, s.URL)
		if node, fixed := s.Node.Fixed(); !fixed || app.Node != node {
			t.Errorf("server %d: node %v in the configuration, and %d by its own word", i, s.Node, app.Node)
		}
	}

	var welcome strings.Builder
	d.Welcome(&welcome)
	for _, want := range []string{"http://localhost:", "curl -s ", "/whoami", "--admin 127.0.0.1:0", "Ctrl-C"} {
		if !strings.Contains(welcome.String(), want) {
			t.Errorf("the welcome lacks %q:\n%s", want, &welcome)
		}
	}
	d.Stop()
	if _, err := os.Stat(d.logDir); !os.IsNotExist(err) {
		t.Errorf("the log's directory is left: %v", err)
	}
}
