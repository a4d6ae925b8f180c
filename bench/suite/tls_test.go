package suite

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/bench/load"
	"sluice/bench/peers"
	"sluice/bench/proc"
	"sluice/bench/secure"
)

// foundRig has peers as they are found, whatever is installed here: HAProxy is built with
// QUIC, nginx without.
func foundRig(t *testing.T) *Rig {
	r, dir := testRig(), t.TempDir()
	for name, says := range map[string]string{peers.Nginx: "--with-http_v2_module", peers.HAProxy: "Feature list: -PTHREAD +QUIC +RT", peers.Caddy: ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho '"+says+"'\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	found, err := peers.Find(t.Context(), []string{peers.Sluice, peers.Nginx, peers.HAProxy, peers.Caddy, peers.GoProxy, peers.Floor}, peers.Tools{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i].Missing = ""
	}
	r.Peers = found
	return r
}

// TestSpeaking: who takes part, and who is told to be absent.
func TestSpeaking(t *testing.T) {
	all := foundRig(t).entrants(nil)
	for _, c := range []struct {
		protocol secure.Protocol
		want     string
		absent   string
	}{
		{"", "sluice; sluice again (A/A); nginx; haproxy; caddy; reverseproxy; floor", ""},
		{secure.HTTP2, "sluice; sluice again (A/A); nginx; haproxy; caddy; reverseproxy", ""},
		{secure.HTTP3, "sluice; sluice again (A/A); haproxy; caddy", "nginx reverseproxy"},
	} {
		those, notes := speaking(all, c.protocol, secure.P256)
		if got := names(those); got != c.want {
			t.Errorf("%s: %s, want %s", c.protocol, got, c.want)
		}
		for _, e := range those {
			if e.Protocol != c.protocol || e.Key != secure.P256 {
				t.Errorf("%s speaks %q with %s", e.Name, e.Protocol, e.Key)
			}
		}
		absent := strings.Fields(c.absent)
		for i, n := range notes {
			if len(notes) != len(absent) || !strings.HasPrefix(n, absent[i]+" takes no part: ") {
				t.Errorf("%s: notes %q", c.protocol, notes)
			}
		}
		if len(notes) != len(absent) {
			t.Errorf("%s: %d notes, want %d", c.protocol, len(notes), len(absent))
		}
	}
}

// TestOverTLS: each workload over TLS is known by its name, has an identity of its own, and
// a certificate.
func TestOverTLS(t *testing.T) {
	for name := range overTLS {
		if !slices.Contains(Names, name) {
			t.Errorf("%s is no workload", name)
		}
	}
	all := append(append([]closed{w2, w3, w4}, w5...), w6tls...)
	ids := map[string]bool{}
	for _, c := range all {
		name := strings.Join(strings.Split(c.id, "-")[:1], "")
		if name == "W6" {
			name = "W6-TLS"
		}
		if overTLS[name] != c.protocol || c.protocol == "" || c.key == "" || ids[c.id] {
			t.Errorf("%s speaks %q with %q", c.id, c.protocol, c.key)
		}
		ids[c.id] = true
	}
}

func TestSecured(t *testing.T) {
	large := w6large.secured("W6-TLS")
	base := testRig().entrants(nil)
	if got := names(large.more(base)); got != nginxLarge {
		t.Errorf("for large bodies over TLS: %s", got)
	}
	if got := names(w6large.more(base)); got != nginxLarge+"; "+haproxyLarge {
		t.Errorf("for plain ones: %s", got)
	}
	if large.goals[peers.HAProxy] != 0 || w6large.goals[peers.HAProxy] == 0 || large.protocol != secure.HTTP1 || w6large.protocol != "" {
		t.Errorf("the two are not apart: %+v", large)
	}
}

func TestHandshakeTable(t *testing.T) {
	entrants := []Entrant{{Name: peers.Sluice, Base: peers.Sluice}}
	tallies := make([]Tally, 1)
	tallies[0].Add(round(0.5, 5_000), nil)
	table := handshakes("W0", secure.P256, load.Full, nil).table(entrants, tallies)
	if !strings.Contains(table.Metric, "per handshake") || table.Extras[0] != "handshakes/s" || math.Abs(table.Rows[0].Value.Mean-100) > 1e-9 {
		t.Errorf("%s, %v, %+v", table.Metric, table.Extras, table.Rows)
	}
}

func TestIdleTablesOverTLS(t *testing.T) {
	results := [][]idleRound{{{proc.Memory{PSS: 10e6}, proc.Memory{PSS: 210e6}}}}
	tables := w7tls.tables([]Entrant{{Name: peers.Sluice, Base: peers.Sluice}}, results, [][]string{nil})
	per, whole := tables[0].Rows[0], tables[1].Rows[0]
	if tables[0].ID != "W7-TLS" || tables[1].ID != "W7-TLS-whole" || per.Goal.Max != 12<<10 || math.Abs(per.Value.Mean-20_000) > 1e-6 || whole.Goal != nil {
		t.Errorf("%s: %+v, %s: %+v", tables[0].ID, per, tables[1].ID, whole)
	}
}

// TestSecure: what is missing or refused is told before a round, and names the workload.
func TestSecure(t *testing.T) {
	dir := t.TempDir()
	refusing := filepath.Join(dir, "sluice")
	script := "#!/bin/sh\n[ $1 = --http3 ] && exit 0\necho listeners: not supported\nexit 1\n"
	if err := os.WriteFile(refusing, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	found, err := peers.Find(t.Context(), []string{peers.Sluice}, peers.Tools{Sluice: refusing})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		names []string
		peers []peers.Peer
		hb    string
		wants []string
	}{
		{[]string{"W1", "W9"}, found, "", nil},
		{[]string{"W1", "W3"}, nil, "", nil},
		{[]string{"W1", "W3"}, found, "", []string{"W3: sluice refuses its configuration for HTTP/2 over TLS", "listeners: not supported", "-w"}},
		{[]string{"W4"}, nil, dir + "/none", []string{"W4 is HTTP/3", "make build"}},
		{[]string{"W4"}, found, refusing, []string{"refuses its configuration for HTTP/3"}},
	} {
		r := testRig()
		r.Dir, r.Peers = t.TempDir(), c.peers
		err := r.Secure(t.Context(), c.names, c.hb)
		if (err != nil) != (c.wants != nil) {
			t.Errorf("%v: %v", c.names, err)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.names, err, want)
			}
		}
		if tls := len(r.methodOverTLS()) > 0; tls != (overTLS[c.names[len(c.names)-1]] != "") {
			t.Errorf("%v: the method tells of TLS: %v", c.names, tls)
		}
	}
}
