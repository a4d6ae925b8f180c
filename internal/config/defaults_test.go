package config

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"
)

// What Print shows for the least file there can be: this is the list of defaults.
func TestDefaults(t *testing.T) {
	want, err := os.ReadFile("testdata/defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing but a farm": `farms: {app: {servers: [{url: "http://127.0.0.1:3000"}]}}`,
		"empty sections": "workers:\nadmin: {}\nlog: {access: }\nstate:\noverload: {}\nlimits: ~\ntimeouts: null\nforward: {}\ntrust: []\nlisteners:\n" +
			"farms: {app: {servers: [{url: \"http://127.0.0.1:3000/\", node: }], connections: {}, timeouts: , admission: }}\nroutes: []\n",
		"the defaults themselves": string(want),
	} {
		c, err := Parse("f", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got bytes.Buffer
		if err := c.Print(&got); err != nil || got.String() != string(want) {
			t.Errorf("%s: %v\n%s", name, err, got.String())
		}
	}
}

func TestSimple(t *testing.T) {
	c, err := Simple("127.0.0.1:80", "http://127.0.0.1:3000/")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse("f", []byte(`{listeners: [{address: "127.0.0.1:80"}], farms: {app: {servers: [{url: "http://127.0.0.1:3000"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, parsed) {
		t.Errorf("the flags say\n%+v\nthe file says\n%+v", c, parsed)
	}
	if c, err := Simple("", "http://a"); err != nil || c.Listeners[0].Address != ":8080" {
		t.Errorf("no --listen: %+v, %v", c, err)
	}
}

func TestSimpleFaults(t *testing.T) {
	for _, c := range []struct{ listen, to, want string }{
		{":1", "", `--to: no URL; write "http://127.0.0.1:3000", "https://127.0.0.1:3443", "h2://127.0.0.1:3000" or "http+unix:///run/app.sock"`},
		{":1", "127.0.0.1:3000", `--to: "127.0.0.1:3000": a URL begins with its scheme; write "http://127.0.0.1:3000"`},
		{"80", "3000", `--listen: "80": a port without its colon; write ":80"
--to: "3000": a URL names its scheme and host; write "http://127.0.0.1:3000"`},
		{"127.0.0.1:9900", "http://a", `--listen: "127.0.0.1:9900": taken by admin.listen; use another port`},
	} {
		got, err := Simple(c.listen, c.to)
		if got != nil || err == nil || err.Error() != c.want {
			t.Errorf("Simple(%q, %q):\n%v\nwant\n%s", c.listen, c.to, err, c.want)
		}
	}
}

// Where one of two related values is set, the default of the other gives way.
func TestDefaultsGiveWay(t *testing.T) {
	c, err := Parse("f", []byte("limits: {head: 1KiB}\nfarms: {app: {servers: [{url: \"http://a\"}], connections: {max: 7}, timeouts: {first_byte: 20ms}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := c.Farms[0]
	if c.Limits.Line != 1<<10 || f.Connections.Idle != 7 || f.Timeouts.Continue != f.Timeouts.FirstByte {
		t.Errorf("line %v, idle %d, continue %v", c.Limits.Line, f.Connections.Idle, f.Timeouts.Continue)
	}
}

// So do those of min and max, to each other and to a limit that is a number.
func TestLimitBoundsGiveWay(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                "adaptive 2 10000",
		"1":                                 "1 1 10000",
		"2":                                 "2 2 10000",
		"20000":                             "20000 2 20000",
		"{limit: 1000000}":                  "1000000 2 1000000",
		"{max: 1}":                          "adaptive 1 1",
		"{min: 20000}":                      "adaptive 20000 20000",
		"{min: 20000, limit: 30000}":        "30000 20000 30000",
		"{min: 3, max: 3}":                  "adaptive 3 3",
		"{max: 1, limit: 1}":                "1 1 1",
		"{min: 5, max: 9, limit: off}":      "off 5 9",
		"{limit: gradient2, max: , min: ~}": "gradient2 2 10000",
	} {
		c, err := Parse("f", []byte("farms: {app: {servers: [{url: \"http://a\"}], admission: "+text+"}}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		a := c.Farms[0].Admission
		if got := fmt.Sprintf("%v %d %d", a.Limit, a.Min, a.Max); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		var printed strings.Builder
		if line := "limit: " + a.Limit.String() + "\n"; c.Print(&printed) != nil || !strings.Contains(printed.String(), line) {
			t.Errorf("%s: printed without a line %q", text, line) // a number is no quoted text
		}
	}
}

// Any valid Config is the same after Print and Parse, and after JSON.
func TestPrintParsesAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		c := randomConfig(random)
		c.Normalize()
		checkAgrees(t, c)
	}
}

// randomConfig makes a valid Config with as many odd values as the rules allow.
func randomConfig(r *rand.Rand) *Config {
	c := Default()
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	span := func() Duration { return minWait + Duration(r.Int64N(int64(maxWait-minWait))) }
	size := func(least, most int64) Size { return Size(least + r.Int64N(most-least+1)) }
	c.Workers = Workers{pick("node", "cluster", "machine", "1", "64"), pick("hard", "soft", "none"), pick("prefer", "bind", "default"), r.IntN(maxLoops + 1),
		pick("none", "cpu", "sibling"), pick("", "0", "0-7,16", "3,1,8-8191"), pick("", "0", "0-1,1023")}
	c.Admin = Admin{pick("off", "unix:/run/a b's \"sock\"", "[::1]:9", "localhost:0"), r.IntN(2) == 0}
	c.Log.Access.Path = pick("off", "stdout", "/var/log/é: #1", "./${x}", "~/$${y}.log", "/- a", "./true", "/!x,&y*z")
	c.Log.Access.Buffer = size(4<<10, 1<<30)
	c.Limits.Head = size(minHead, maxHead)
	c.Limits.Line = size(minLine, int64(c.Limits.Head))
	c.Limits.Body, c.Limits.Fields = size(0, maxBytes), 1+r.IntN(maxFields)
	c.Timeouts.Header, c.Timeouts.Body, c.Timeouts.Idle = span(), span(), span()
	c.Timeouts.Rate, c.Timeouts.Linger = size(0, 1<<30), 0
	c.Forward.Via = pick("off", "1.0", "0x1", "null", "~", "true", "!#$%&'*+-.^_`|~", "a:1", "12e3", "-", "yes")
	for range r.IntN(3) {
		prefix, _ := parsePrefix(pick("10.0.0.0/8", "::1", "0.0.0.0/0", "2001:db8::/33"))
		c.Trust = append(c.Trust, prefix)
	}
	for i := range r.IntN(3) {
		header := ProxyOff
		if len(c.Trust) > 0 {
			header = pick(ProxyOff, ProxyOn)
		}
		c.Listeners = append(c.Listeners, Listener{ProxyProtocol: header,
			Name: pick("", "- ", "# ", "null: ", "'\"") + fmt.Sprint(i), Address: fmt.Sprintf("10.0.0.1:%d", i+1), Backlog: 1 + r.IntN(maxBacklog),
			Steering: pick(SteerAuto, SteerNode, SteerCPU, SteerHash), Away: pick(AwayWait, AwaySpread),
			Protocols: []string{pick(HTTP1, HTTP2)}, AltSvc: span(), TLS: randomTLS(r)})
	}
	if r.IntN(2) == 0 {
		c.Listeners = append(c.Listeners, newListener(":1"))
		c.Listeners[len(c.Listeners)-1].TCP = &TCP{Connections: r.IntN(maxConnections + 1), Routes: []TCPRoute{{"*.a.B", "a0"}, {pick("true", "null", "_.x"), "a0"}, {"", "a0"}}}
		c.Farms = append(c.Farms, NewFarm("a0", "http://a"))
	}
	for i := range 1 + r.IntN(3) {
		farm := NewFarm(pick("b", "1.", "null", "true", "-", ".", "0x")+fmt.Sprint(i), "http://a", "http://[::1]:2", "http+unix:///run/~a'b")
		farm.Host = pick("preserve", "server", "1.2.3.4", "[::1]:5", "off")
		farm.Timeouts.FirstByte = seconds(1) + span()/2
		farm.Admission = randomAdmission(r)
		farm.FailFor, farm.Retries = Duration(r.Int64N(int64(maxWait))), r.IntN(maxRetries+1)
		farm.Servers[0].Node = Node(pick("auto", "off", "0", fmt.Sprint(maxNode)))
		farm.ProxyProtocol = pick(ProxyOff, ProxyV1, ProxyV2)
		farm.Spill.Threshold = Threshold(pick("off", "0", "20", "100"))
		if r.IntN(2) == 0 {
			farm.Servers = append(farm.Servers, Server{"https://a", 1, "auto"})
			farm.TLS = &FarmTLS{Name: pick("", "a.b"), Cert: pick("~", "true"), Key: pick("'", "${x}"), Insecure: r.IntN(2) == 0,
				Pins: []string{"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="}}
		}
		c.Farms = append(c.Farms, farm)
		route := Route{Host: pick("", "*.a.b", "1.2.3.4", "::1", "null", "true"), Farm: farm.Name, Admission: pick("", "off"), Priority: defaultPriority,
			Path: fmt.Sprintf("/%d/%s", i, pick("", "${x}", "$$", "~", "%20", "'\"`"))}
		if route.Admission == "" && farm.Admission.Limit != "off" && farm.Admission.Queue > 0 {
			route.Priority, route.Deadline = r.IntN(8), span()
		}
		c.Routes = append(c.Routes, route)
	}
	c.State = pick("auto", "off", "/${x}/a b", "/'\"")
	c.TLS.Tickets = Tickets{pick("", "${x}", "- a", "null"), seconds(60) + Duration(r.Int64N(int64(seconds(50*3600))))}
	c.Overload = Overload{span() / 2000, r.IntN(101), r.IntN(101)}
	return c
}

// randomTLS makes valid wishes for TLS, or none.
func randomTLS(r *rand.Rand) *ListenerTLS {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	if r.IntN(2) == 0 {
		return nil
	}
	t := &ListenerTLS{
		Certificates: []Certificate{{pick("${x}", "null", "- a"), pick("true", "~", "'"), pick("auto", "off", "null")}},
		MinVersion:   pick("1.2", "1.3"), Curves: []string{pick(curveNames...)},
		Handshake: minWait + Duration(r.Int64N(int64(maxHandshake-minWait))), Handshakes: r.IntN(maxConnections),
		ClientAuth: ClientAuth{Mode: "off"}, HSTS: HSTS{MaxAge: Duration(r.Int64N(int64(maxAge)))},
	}
	if r.IntN(2) == 0 {
		t.ClientAuth = ClientAuth{pick("request", "require"), pick("a b", "#")}
	}
	return t
}

// randomAdmission makes valid wishes for holding requests.
func randomAdmission(r *rand.Rand) Admission {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	least := 1 + r.IntN(maxLimit)
	most := least + r.IntN(maxLimit-least+1)
	a := Admission{
		Limit: Limit(pick("adaptive", "gradient2", "off", fmt.Sprint(least+r.IntN(most-least+1)))), Min: least, Max: most,
		Queue: r.IntN(maxQueue + 1), Timeout: minWait + Duration(r.Int64N(int64(maxWait-minWait))), ServerTiming: r.IntN(2) == 0,
	}
	for range r.IntN(4) {
		a.Failures = append(a.Failures, pick("429", "5xx", "X-A", "x: ${y}", "null", "true", "~", "!: - #", "y:'\""))
	}
	if a.Limit == "off" || a.Queue == 0 {
		return a
	}
	a.Target = Duration(r.IntN(2)) * seconds(1)
	a.Tenant = Key(pick("", "client", "host", "header:$", "cookie:~"))
	a.Deadline = Key(pick("", "header:!#$%&'*+-.^_`|~"))
	return a
}
