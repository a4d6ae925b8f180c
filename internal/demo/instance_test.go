package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/placement"
)

// The test binary plays the roles of the real one: an app worker, and for one
// test a program that starts app workers and is killed.
const roleParent = "demo-parent"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Role:
			os.Exit(Main(os.Args[2:]))
		case roleParent:
			parent()
		}
	}
	os.Exit(m.Run())
}

func parent() {
	f, err := startFarm(anywhere(1))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(f.instances[0].url)
	select {}
}

// anywhere is n places without a wish.
func anywhere(n int) []placement.Worker {
	places := make([]placement.Worker, n)
	for i := range places {
		places[i] = placement.Worker{Index: i, Node: 0, Memory: placement.MemoryDefault}
	}
	return places
}

// who asks an app worker for itself, over a connection of its own.
func who(t *testing.T, url string) identity {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url + "/whoami")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a.App
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestFarmLives(t *testing.T) {
	f, err := startFarm(anywhere(2))
	if err != nil {
		t.Fatal(err)
	}
	first, second := who(t, f.instances[0].url), who(t, f.instances[1].url)
	if first.Name != "demo-0" || second.Name != "demo-1" || first.PID == second.PID {
		t.Errorf("%+v and %+v", first, second)
	}

	// One dies. The socket is ours, so the next connection waits for the next process.
	if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	again := who(t, f.instances[0].url)
	if again.Name != "demo-0" || again.PID == first.PID {
		t.Errorf("after its death: %+v", again)
	}

	// Ctrl-C reaches all processes of a terminal; the apps leave it to us.
	if err := syscall.Kill(second.PID, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if still := who(t, f.instances[1].url); still.PID != second.PID {
		t.Errorf("SIGINT ended %+v", second)
	}

	f.stop()
	if !gone(again.PID) || !gone(second.PID) {
		t.Error("an app worker outlived stop")
	}
}

// However the program dies, its app workers go with it. They share its standard
// error, so its end is theirs.
func TestFarmEndsWithItsParent(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", roleParent)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	cmd.Stderr = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	who(t, strings.TrimSpace(url)) // it lives
	cmd.Process.Kill()
	cmd.Wait()
	if _, err := io.Copy(io.Discard, ours); err != nil { // returns when the last holder has gone
		t.Fatal(err)
	}
}

func TestNextPause(t *testing.T) {
	short, long := goodLife-1, goodLife
	for _, c := range []struct {
		last, lived, want time.Duration
	}{
		{0, short, firstPause},
		{firstPause, short, 2 * firstPause},
		{lastPause - 1, short, lastPause},
		{lastPause, short, lastPause},
		{lastPause, long, 0},
		{0, long, 0},
	} {
		if got := nextPause(c.last, c.lived); got != c.want {
			t.Errorf("after a pause of %s and a life of %s: %s, want %s", c.last, c.lived, got, c.want)
		}
	}
}

func TestRoleRefusesOtherArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"demo-0"}, {"demo-0", "x"}, {"demo-0", "0", "more"}} {
		if err := serve(args, strings.NewReader("")); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

func TestFreePortPassesOverATakenOne(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, text, _ := net.SplitHostPort(taken.Addr().String())
	first, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := freePort("127.0.0.1", first)
	if err != nil || got <= first || got >= first+portsTried {
		t.Errorf("from %d on: %d, %v", first, got, err)
	}
}
