package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/testkit"
)

// What `sluice check` says of files, with lines.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	root := testkit.NewAuthority(t, "root")
	now := time.Now()
	day := 24 * time.Hour
	testkit.WriteFile(t, dir, "good.pem", root.Issue(testkit.Wish{Names: []string{"good.example"}, To: now.Add(90 * day)}).Both())
	testkit.WriteFile(t, dir, "soon.pem", root.Issue(testkit.Wish{Names: []string{"soon.example"}, To: now.Add(5 * day)}).Both())
	testkit.WriteFile(t, dir, "past.pem", root.Issue(testkit.Wish{Names: []string{"past.example"}, From: now.Add(-2 * day), To: now.Add(-day)}).Both())
	for _, test := range []struct {
		certificates, routes string
		fault, warning       string // parts of what is said
	}{
		{"good.pem", "", "", ""},
		{"none.pem", "", ":3: listeners[0].tls.certificates[0].cert: ", ""},
		{"soon.pem", "", "", ":3: listeners[0].tls.certificates[0]: "},
		{"past.pem", "", "has expired on", ""},
		{"good.pem", "routes: [{host: good.example, farm: app}, {host: other.example, farm: app}]", "", `:5: routes[1].host: "other.example": no certificate covers it`},
	} {
		text := "listeners:\n  - address: \":1\"\n    tls: {certificates: [" + dir + "/" + test.certificates + "]}\nfarms: {app: {servers: [{url: \"http://a:1\"}]}}\n" + test.routes
		file := testkit.WriteFile(t, dir, "c.yaml", []byte(text))
		cfg, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		var warnings bytes.Buffer
		fault := ""
		if err := checkFiles(&warnings, file, cfg, now); err != nil {
			fault = err.Error()
		}
		if !strings.Contains(fault, test.fault) || (fault == "") != (test.fault == "") {
			t.Errorf("%s: fault %q, want %q", test.certificates, fault, test.fault)
		}
		if got := warnings.String(); !strings.Contains(got, test.warning) || (got == "") != (test.warning == "") {
			t.Errorf("%s: warning %q, want %q", test.certificates, got, test.warning)
		}
	}
}
