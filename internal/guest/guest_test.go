package guest

import (
	"testing"
)

func TestShapes(t *testing.T) {
	g := Boot(t, Options{Nodes: 4, CPUsPerNode: 2})
	t.Log(g.Nodes(), g.Threads(1), g.AnonymousPages(1), g.Read("/proc/cmdline"))
	r := g.Run(Command{Path: Agent, Args: []string{"nonsense"}, CPUs: "3"})
	t.Logf("%+v", r)
}
