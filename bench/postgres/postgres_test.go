package postgres

import (
	"os/user"
	"slices"
	"strings"
	"testing"
)

// TestAccount: root gives its rights away for the database; others have none to give.
func TestAccount(t *testing.T) {
	root := &Tools{setpriv: "/bin/setpriv", account: &user.User{Uid: "7", Gid: "8"}}
	want := []string{"/bin/setpriv", "--reuid=7", "--regid=8", "--clear-groups", "--pdeathsig=INT", "postgres", "-D", "x"}
	if got := root.as("postgres", "-D", "x"); !slices.Equal(got, want) {
		t.Errorf("as root: %q", got)
	}
	if got := (&Tools{}).as("postgres", "-D", "x"); !slices.Equal(got, []string{"postgres", "-D", "x"}) {
		t.Errorf("as another: %q", got)
	}
}

func TestCommand(t *testing.T) {
	if err := Command(t.Context(), "sh", "-c", "true"); err != nil {
		t.Error(err)
	}
	err := Command(t.Context(), "sh", "-c", "echo no space; exit 3")
	if err == nil || !strings.Contains(err.Error(), "sh: exit status 3: no space") {
		t.Errorf("the error is %v", err)
	}
}

// TestMissing: what is not installed is named.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), "setpriv") {
		t.Errorf("without a path: %v", err)
	}
	if path := find("no-such-program"); path != "" {
		t.Errorf("found %s", path)
	}
}
