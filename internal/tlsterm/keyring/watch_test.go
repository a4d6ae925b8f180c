package keyring

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/testkit"
)

// A script of what happens to files, and what the watcher says at each look.
func TestWatcher(t *testing.T) {
	dir := t.TempDir()
	root := testkit.NewAuthority(t, "root")
	old, next, third := root.Issue(testkit.Wish{Names: []string{"a.example"}}), root.Issue(testkit.Wish{Names: []string{"a.example"}}), root.Issue(testkit.Wish{Names: []string{"b.example"}})
	// An old file's time is not that of its successor, however coarse the file system's clock.
	write := func(name string, content []byte, age time.Duration) {
		path := testkit.WriteFile(t, dir, name, content)
		at := time.Now().Add(-age)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("a.crt", old.Chain, 9*time.Hour)
	write("a.key", old.Key, 9*time.Hour)
	cfg := configure(t, dir, `[{address: ":1", tls: {certificates: [{cert: $/a.crt, key: $/a.key}]}}]`)
	ring, err := Read(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var w Watcher
	look := func(when string, want bool) {
		t.Helper()
		if got := w.Changed(ring); got != want {
			t.Errorf("%s: changed %v, want %v", when, got, want)
		}
	}
	look("nothing has happened", false)
	look("nor since", false)
	write("a.crt", next.Chain, 8*time.Hour)
	look("the certificate has just come", false)
	look("it is there for a while", true)
	if _, err := Read(cfg); err == nil {
		t.Fatal("a certificate without its key was read")
	}
	look("what cannot be read is told once", false)
	write("a.key", next.Key, 8*time.Hour)
	look("the key has just come", false)
	look("it is there for a while", true)
	if ring, err = Read(cfg); err != nil || ring.Keys.Certificates[0].Chain != string(next.Chain) {
		t.Fatal(err)
	}
	look("the new ones are in use", false)
	look("and stay so", false)

	// As certbot does, and Kubernetes: a link is moved, by a rename.
	write("b.crt", third.Chain, 7*time.Hour)
	write("b.key", third.Key, 7*time.Hour)
	for _, kind := range []string{"crt", "key"} {
		link := filepath.Join(dir, "link."+kind)
		if err := os.Symlink("b."+kind, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "a."+kind)); err != nil {
			t.Fatal(err)
		}
	}
	look("links have just come", false)
	look("they are there for a while", true)
	if ring, err = Read(cfg); err != nil || ring.Certs[0].Leaf.DNSNames[0] != "b.example" {
		t.Fatal(err)
	}
	look("what they lead to is in use", false)
	os.Remove(filepath.Join(dir, "b.key"))
	look("the key has just gone", false)
	look("it is gone for a while", true)
	look("that is told once", false)
	write("b.key", third.Key, 6*time.Hour)
	look("it is back", false)
	look("for a while", true)
	// A ring that takes the place of the one that was looked at, and was read before.
	again := *ring
	ring = &again
	look("another ring, as old", false)
	look("is looked at like the first", true)
}
