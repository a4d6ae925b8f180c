package reactor

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// teller is a session as protocol code writes one: it reads lines in one task
// and answers them from another, and knows neither loop nor goroutine.
//
//	add N    adds to the sum
//	sum      answers with the sum
//	wait     answers only when nothing has come for a while
//	fail     is answered, and the session aborts
//	end      is answered, and the session lingers
type teller struct {
	Stream
	exec    Executor
	quiet   time.Duration
	sum     int
	answers []string // handed from the reading task to the writing one, by turn
	turn    Signal   // the writer's turn
	done    Signal   // the reader's turn
}

func startTeller(exec Executor, s Stream, quiet time.Duration) {
	t := &teller{Stream: s, exec: exec, quiet: quiet, turn: exec.NewSignal(), done: exec.NewSignal()}
	exec.Go(jobFunc(t.read))
	exec.Go(jobFunc(t.write))
}

// read takes one line after another; a line has less than 64 bytes.
func (t *teller) read() {
	var held []byte
	for {
		line, rest, ok := strings.Cut(string(held), "\n")
		if ok {
			held = []byte(rest)
			if t.answer(line) {
				return
			}
			continue
		}
		if err := t.Await(); err != nil {
			t.tell(fmt.Sprint("ended: ", cause(err)), "")
			return
		}
		p := make([]byte, 64)
		n, err := t.Read(p)
		if err != nil {
			t.tell("")
			return
		}
		held = append(held, p[:n]...)
	}
}

// answer reports whether that was the last line.
func (t *teller) answer(line string) bool {
	var n int
	switch {
	case line == "wait":
		t.SetReadTimeout(t.quiet)
		err := t.Await()
		t.SetReadTimeout(0)
		t.tell("quiet: " + cause(err))
	case line == "fail":
		t.tell("failing")
		t.Abort(errors.New("as told"))
		_, err := t.Read(make([]byte, 1))
		_, writeErr := t.Write([]byte("x"))
		t.tell("")
		if fmt.Sprint(err, writeErr) != "as told as told" {
			panic(fmt.Sprint("after Abort: ", err, writeErr))
		}
		return true
	case line == "end":
		t.tell("bye", "")
		return true
	case line == "sum":
		t.tell(fmt.Sprint("sum ", t.sum))
	default:
		fmt.Sscanf(line, "add %d", &n)
		t.sum += n
	}
	return false
}

// tell hands answers to the writing task and waits until it has sent them. An
// empty one ends it.
func (t *teller) tell(answers ...string) {
	t.answers = answers
	t.turn.Set()
	t.done.Wait(0)
}

func (t *teller) write() {
	defer t.done.Set()
	defer t.Linger(time.Second)
	for {
		if !t.turn.Wait(0) {
			return
		}
		for _, a := range t.answers {
			if a == "" {
				return
			}
			io.WriteString(t, a+"\n")
		}
		t.done.Set()
	}
}

func cause(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "deadline"
	case err == nil:
		return "data"
	}
	return err.Error()
}

// transcripts: what the client says (>) and hears (<), line by line.
var transcripts = map[string]string{
	"sums": `
		> add 1
		> add 2
		> sum
		< sum 3
		> add 39
		> sum
		< sum 42
		> end
		< bye`,
	"quiet": `
		> wait
		< quiet: deadline
		> add 5
		> sum
		< sum 5
		> end
		< bye`,
	"aborts": `
		> fail
		< failing`,
	"closes": `
		> sum
		< sum 0`,
}

// play has a client go through a transcript, then end.
func playTranscript(t *testing.T, c net.Conn, transcript string) {
	t.Helper()
	defer c.Close()
	in := bufio.NewReader(c)
	for line := range strings.Lines(transcript) {
		switch what, text, _ := strings.Cut(strings.TrimSpace(line), " "); what {
		case ">":
			if _, err := io.WriteString(c, text+"\n"); err != nil {
				t.Errorf("saying %q: %v", text, err)
				return
			}
		case "<":
			if got, err := in.ReadString('\n'); got != text+"\n" {
				t.Errorf("heard %q, %v; want %q", got, err, text)
				return
			}
		}
	}
}

// The same session, unchanged, over a loop's connection in real time and over
// net.Pipe on plain goroutines in virtual time.
func TestSameSessionOnLoopAndGoroutines(t *testing.T) {
	for name, transcript := range transcripts {
		t.Run(name+" on a loop", func(t *testing.T) {
			l := startLoop(t, Options{})
			_, addr := serveOn(t, l, func(c *Conn) { startTeller(l, c, 20*time.Millisecond) })
			playTranscript(t, dial(t, addr), transcript)
			eventually(t, l, "the session's tasks end", func() bool { return len(l.tasks) == len(l.spare) })
		})
		t.Run(name+" on goroutines", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGoroutines()
				near, far := net.Pipe()
				startTeller(g, Blocking(near), time.Hour)
				playTranscript(t, far, transcript)
				g.Wait()
			})
		})
	}
}

// A byte that Await has read is not lost, whatever comes between it and Read.
func TestBlockingAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		b := Blocking(near)
		go func() { far.Write([]byte("abc")); far.Close() }()
		var got []byte
		for {
			b.Await()
			b.Await()
			p := make([]byte, 2)
			n, err := b.Read(p)
			if got = append(got, p[:n]...); err != nil {
				mustFail(t, "the end", err, io.EOF)
				break
			}
		}
		if string(got) != "abc" {
			t.Errorf("read %q", got)
		}
	})
}

// Time on goroutines is that of the bubble, and Submit is a task of its own.
func TestGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGoroutines()
		began := g.Now()
		s := g.NewSignal()
		s.Set()
		s.Set()
		if !s.Wait(time.Second) || s.Wait(time.Second) {
			t.Error("two Sets count as one")
		}
		if took := time.Duration(g.Now() - began); took != time.Second {
			t.Errorf("a wait of a second took %v", took)
		}
		g.Submit(s.Set)
		if !s.Wait(0) {
			t.Error("the Set of another goroutine was not seen")
		}
		g.Wait()
	})
}

// What a Stream over a plain net.Conn cannot do it says, and harms nobody.
func TestBlockingCannot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		b := Blocking(near)
		if !b.Ready() || b.Idle(jobFunc(func() { t.Error("ran") })) {
			t.Error("a blocking stream seems to know its readiness")
		}
		b.OnHangup(jobFunc(func() { t.Error("ran") }))
		b.SetWriteTimeout(time.Second)
		_, err := b.Write([]byte("nobody reads"))
		mustFail(t, "write", err, os.ErrDeadlineExceeded)
		b.Linger(time.Second)
		_, err = b.Read(make([]byte, 1))
		mustFail(t, "read", err, io.ErrClosedPipe)
	})
}
