package app

import (
	"os/user"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/bench/overload/drive"
)

// TestCutOfTheShop: the application tells all that is read of a cut, by the same names.
func TestCutOfTheShop(t *testing.T) {
	for field := range reflect.TypeFor[drive.Cut]().Fields() {
		name := `\"` + field.Tag.Get("json") + `\": `
		if !strings.Contains(string(source), name) {
			t.Errorf("App.java does not tell %s", name)
		}
	}
}

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
	if err := command(t.Context(), "sh", "-c", "true"); err != nil {
		t.Error(err)
	}
	err := command(t.Context(), "sh", "-c", "echo no space; exit 3")
	if err == nil || !strings.Contains(err.Error(), "sh: exit status 3: no space") {
		t.Errorf("the error is %v", err)
	}
}
