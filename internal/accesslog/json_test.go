package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// usual is a request as most are; tests and benchmarks start from it.
func usual() Entry {
	return Entry{
		Wall:     time.Date(2026, 11, 21, 23, 59, 58, 7_654_321, time.UTC).UnixNano(),
		Client:   netip.MustParseAddrPort("192.0.2.17:54321"),
		Listener: "web", Farm: "app", Server: "http://127.0.0.1:9000",
		Method: []byte("GET"), Scheme: []byte("http"), Host: []byte("www.example.com"),
		Target: []byte("/articles/2026/11?page=2"), Referer: []byte("https://www.example.com/"),
		UserAgent: []byte("Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"),
		RequestID: []byte("4bf92f3577b34da6a3ce929d0e0e4736"),
		Proto:     11, Status: 200, BytesIn: 0, BytesOut: 5321,
		HeadTime: 12 * time.Microsecond, ConnectTime: 0, FirstByteTime: 1_234_567 * time.Nanosecond,
		TotalTime: 1_345_678 * time.Nanosecond, Node: 0, Worker: 0, Loop: 3, Reused: true,
	}
}

func TestJSONLine(t *testing.T) {
	e := usual()
	var c clock
	want := `{"time":"2026-11-21T23:59:58.007Z","client":"192.0.2.17","peer":"192.0.2.17:54321","method":"GET","scheme":"http",` +
		`"host":"www.example.com","target":"/articles/2026/11?page=2","protocol":"HTTP/1.1","status":200,"bytes_in":0,"bytes_out":5321,` +
		`"request_id":"4bf92f3577b34da6a3ce929d0e0e4736","referer":"https://www.example.com/",` +
		`"user_agent":"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",` +
		`"head_time":0.000012,"queue_time":0.000000,"connect_time":0.000000,"first_byte_time":0.001234,"total_time":0.001345,` +
		`"listener":"web","farm":"app","server":"http://127.0.0.1:9000","node":0,"worker":0,"loop":3,"retries":0,"reused":true}` + "\n"
	if got := string(appendJSON(nil, &e, &c)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}

	e = Entry{
		Client: netip.MustParseAddrPort("[::ffff:10.0.0.1]:80"), RealClient: netip.MustParseAddr("2001:db8::1"),
		Status: 499, BytesIn: 17, Node: -1, Worker: 1, Retries: 2, QueueTime: 90 * time.Second,
		Party: "client", Phase: "response body", Reason: "client_gone", Err: errors.New("broken \"pipe\""),
		TLS: &TLS{Version: "TLSv1.3", Cipher: "TLS_AES_128_GCM_SHA256", Group: "X25519", SNI: "a\"b", ALPN: "h2", Resumed: true, Subject: "CN=ann", Fingerprint: "0a"},
	}
	want = `{"time":"1970-01-01T00:00:00.000Z","client":"2001:db8::1","peer":"10.0.0.1:80","method":"","scheme":"","host":"","target":"",` +
		`"protocol":"","status":499,"bytes_in":17,"bytes_out":0,"request_id":"","referer":"","user_agent":"",` +
		`"head_time":0.000000,"queue_time":90.000000,"connect_time":0.000000,"first_byte_time":0.000000,"total_time":0.000000,` +
		`"listener":"","farm":"","server":"","node":-1,"worker":1,"loop":0,"retries":2,"reused":false,` +
		`"tls_version":"TLSv1.3","tls_cipher":"TLS_AES_128_GCM_SHA256","tls_sni":"a\"b","tls_alpn":"h2","tls_group":"X25519","tls_resumed":true,` +
		`"tls_client_subject":"CN=ann","tls_client_fingerprint":"0a",` +
		`"failed_by":"client","phase":"response body","reason":"client_gone","error":"broken \"pipe\""}` + "\n"
	if got := string(appendJSON(nil, &e, &c)); got != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestClientAddress(t *testing.T) {
	for _, c := range []struct{ peer, real, client, wantPeer string }{
		{"192.0.2.1:1", "", "192.0.2.1", "192.0.2.1:1"},
		{"[2001:db8::9]:443", "", "2001:db8::9", "[2001:db8::9]:443"},
		{"[::ffff:192.0.2.1]:5", "", "192.0.2.1", "192.0.2.1:5"},
		{`[fe80::1%e"\0]:5`, "", "fe80::1", "[fe80::1]:5"},
		{"192.0.2.1:1", "::ffff:198.51.100.7", "198.51.100.7", "192.0.2.1:1"},
		{"192.0.2.1:1", "fe80::2%\n", "fe80::2", "192.0.2.1:1"},
		{"", "", "", ""},
	} {
		var e Entry
		if c.peer != "" {
			e.Client = netip.MustParseAddrPort(c.peer)
		}
		if c.real != "" {
			e.RealClient = netip.MustParseAddr(c.real)
		}
		line := decode(t, appendJSON(nil, &e, &clock{}))
		if line["client"] != c.client || line["peer"] != c.wantPeer {
			t.Errorf("%+v: client %q, peer %q", c, line["client"], line["peer"])
		}
	}
}

func TestProtocolNames(t *testing.T) {
	for proto, want := range map[uint8]string{
		0: "", 9: "", 10: "HTTP/1.0", 11: "HTTP/1.1", 20: "HTTP/2.0", 30: "HTTP/3.0", 255: "",
	} {
		e := Entry{Proto: proto}
		if got := e.protocol(); got != want {
			t.Errorf("%d: %q, want %q", proto, got, want)
		}
	}
}

func TestJSONString(t *testing.T) {
	for in, want := range map[string]string{
		"":                  `""`,
		"/a?b=c#~ ":         `"/a?b=c#~ "`,
		`say "hi" \ bye`:    `"say \"hi\" \\ bye"`,
		"tab\tnl\nret\r":    `"tab\tnl\nret\r"`,
		"\x00\x01\x1b[31m":  `"\u0000\u0001\u001b[31m"`,
		"del\x7f":           `"del\u007f"`,
		"C1 \u0085\u009b":   `"C1 \u0085\u009b"`,
		"\u00a0 ü € 😀":      "\"\u00a0 ü € 😀\"",
		"bad \xff\xc0\xaf":  `"bad \ufffd\ufffd\ufffd"`,
		"cut \xe2\x82":      `"cut \ufffd\ufffd"`,
		"lone \xed\xa0\x80": `"lone \ufffd\ufffd\ufffd"`, // a UTF-16 surrogate
		"real \ufffd":       "\"real \ufffd\"",
		"</script>\u2028":   "\"</script>\u2028\"",
	} {
		if got := string(appendJSONString(nil, []byte(in))); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

// plainPrefix works on eight bytes at once; here every byte value stands at every
// place of the word, beside neighbours that could lend it a carry.
func TestPlainPrefix(t *testing.T) {
	for c := range 256 {
		for _, around := range []byte{' ', 'a', '~'} {
			for at := range 19 {
				s := bytes.Repeat([]byte{around}, 19)
				s[at] = byte(c)
				want := len(s)
				if c < ' ' || c > '~' || c == '"' || c == '\\' {
					want = at
				}
				if got := plainPrefix(s); got != want {
					t.Fatalf("byte %#x at %d among %q: %d, want %d", c, at, around, got, want)
				}
			}
		}
	}
}

func TestFieldLimit(t *testing.T) {
	long := strings.Repeat("x", maxField)
	for _, c := range []struct{ name, in, json, hex string }{
		{"n plain", long, long, long},
		{"n+1 plain", long + "x", long + "...", long + "..."},
		{"quote at n", long[1:] + `"`, long[1:] + "...", long[1:] + "..."},
		{"quote before n", long[2:] + `"`, long[2:] + `\"`, long[2:] + "..."},
		{"quote far before n", long[4:] + `"`, long[4:] + `\"`, long[4:] + `\x22`},
		{"quote in front", `"` + long[2:], `\"` + long[2:], `\x22` + long[4:] + "..."},
		{"half a character", long[2:] + "€", long[2:] + "...", long[2:] + "..."},
		{"far more", strings.Repeat("y", 10*maxField), strings.Repeat("y", maxField) + "...", strings.Repeat("y", maxField) + "..."},
	} {
		if got := string(appendJSONString(nil, []byte(c.in))); got != `"`+c.json+`"` {
			t.Errorf("%s: JSON of %d bytes ends in %q, want %d ending in %q", c.name, len(got), got[len(got)-12:], len(c.json)+2, c.json[len(c.json)-12:])
		}
		if got := string(appendHex(nil, []byte(c.in))); got != c.hex {
			t.Errorf("%s: hex of %d bytes ends in %q, want %d ending in %q", c.name, len(got), got[len(got)-12:], len(c.hex), c.hex[len(c.hex)-12:])
		}
	}
}

// The longest possible line fits a chunk, so no client can hide by sending too much.
func TestLongestLineFitsChunk(t *testing.T) {
	worst := bytes.Repeat([]byte{0xff}, 64<<10)
	name := string(bytes.Repeat([]byte{'"'}, 64<<10))
	e := Entry{
		Client: netip.MustParseAddrPort("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
		Method: worst, Scheme: worst, Host: worst, Target: worst, Referer: worst, UserAgent: worst, RequestID: worst,
		Listener: name, Farm: name, Server: name, Party: name, Phase: name, Reason: name,
		TotalTime: 1<<63 - 1,
	}
	for name, line := range map[string][]byte{
		"json": appendJSON(nil, &e, &clock{}), "combined": appendCombined(nil, &e, &clock{}),
	} {
		if len(line) > chunkSize-chunkHead {
			t.Errorf("%s: a line of %d bytes does not fit a chunk of %d", name, len(line), chunkSize-chunkHead)
		}
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.000000", -time.Second: "0.000000", 999: "0.000000", 1000: "0.000001", 1999: "0.000001",
		time.Millisecond: "0.001000", time.Second - 1: "0.999999", time.Second: "1.000000",
		time.Hour + 23*time.Millisecond: "3600.023000", 1<<63 - 1: "9223372036.854775",
	} {
		if got := string(appendSeconds(nil, d)); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}

func TestClockKeepsSecond(t *testing.T) {
	var c clock
	for _, step := range []struct {
		wall int64
		want string
	}{
		{0, "1970-01-01T00:00:00.000Z"},
		{999_999_999, "1970-01-01T00:00:00.999Z"},
		{1_000_000_000, "1970-01-01T00:00:01.000Z"},
		{999_000_000, "1970-01-01T00:00:00.999Z"}, // a long request begins before a short one and ends after it
		{1_582_934_400_050_000_000, "2020-02-29T00:00:00.050Z"},
	} {
		if got := string(c.appendJSON(nil, step.wall)); got != step.want {
			t.Errorf("%d: %s, want %s", step.wall, got, step.want)
		}
	}
}

func decode(t testing.TB, line []byte) map[string]any {
	t.Helper()
	if bytes.Count(line, newline) != 1 || line[len(line)-1] != '\n' {
		t.Fatalf("not one line: %q", line)
	}
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return fields
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte("GET"), []byte("example.com"), []byte("/"), []byte("curl/8"), "app", 200, int64(5))
	f.Add([]byte{0}, []byte{0xff, '"'}, []byte("\\\n"), []byte("\u2028\u009b"), "\x7f", -1, int64(-5))
	f.Fuzz(func(t *testing.T, method, host, target, agent []byte, farm string, status int, wall int64) {
		e := Entry{Wall: wall & (1<<60 - 1), Method: method, Host: host, Target: target, UserAgent: agent, Farm: farm,
			Referer: agent, RequestID: target, Scheme: method, Server: farm, Party: farm, Reason: farm, Status: status}
		got := decode(t, appendJSON(nil, &e, &clock{}))
		for key, in := range map[string]string{
			"method": string(method), "host": string(host), "target": string(target), "user_agent": string(agent), "farm": farm,
		} {
			if 6*len(in) > maxField {
				continue
			}
			if want := viaEncodingJSON(t, in); got[key] != want {
				t.Errorf("%s %q came back as %q, encoding/json gives %q", key, in, got[key], want)
			}
		}
	})
}

// viaEncodingJSON is what encoding/json makes of a string that need not be UTF-8.
func viaEncodingJSON(t *testing.T, s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

func BenchmarkAppendJSON(b *testing.B) {
	e := usual()
	var c clock
	var line []byte
	for b.Loop() {
		e.Wall += 10_000
		line = appendJSON(line[:0], &e, &c)
	}
	b.SetBytes(int64(len(line)))
}
