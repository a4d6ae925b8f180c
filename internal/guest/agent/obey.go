package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/guest/order"
)

// askPatience bounds an exchange, since no other order is followed meanwhile. The
// test itself waits longer for an answer.
const askPatience = 20 * time.Second

// agent follows orders. It has one goroutine of its own, and one for each process
// that it has started.
type agent struct {
	children map[int]*child // by process id
}

// obey follows the orders that come in, until there are no more.
func obey(in io.Reader, out io.Writer) error {
	a := &agent{children: map[int]*child{}}
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	if err := answers.Encode(order.Answer{Text: order.Ready}); err != nil {
		return err
	}
	for {
		var o order.Order
		if err := orders.Decode(&o); err != nil {
			return err
		}
		answer, err := a.do(o)
		if err != nil {
			answer = order.Answer{Error: err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func (a *agent) do(o order.Order) (order.Answer, error) {
	keep, err := regexp.Compile(o.Keep)
	if err != nil {
		return order.Answer{}, err
	}
	switch o.Do {
	case order.Read:
		text, err := readOnly(o.Path, keep)
		return order.Answer{Text: text}, err
	case order.Match:
		return match(o.Path, keep)
	case order.List:
		return list(o.Path)
	case order.Write:
		return order.Answer{}, os.WriteFile(o.Path, []byte(o.Text), 0o644)
	case order.Mkdir:
		return order.Answer{}, os.MkdirAll(o.Path, 0o755)
	case order.Start:
		return a.start(o)
	case order.Ended:
		return a.ended(o.PID)
	case order.Signal:
		return order.Answer{}, unix.Kill(o.PID, unix.Signal(o.Number))
	case order.Ask:
		text, err := exchange(o.Network, o.Address, o.Text, time.Now().Add(askPatience))
		return order.Answer{Text: text}, err
	}
	return order.Answer{}, fmt.Errorf("no such order: %q", o.Do)
}

// match reads the files of a pattern. One that goes away meanwhile, as a thread's
// in /proc may, is left out.
func match(pattern string, keep *regexp.Regexp) (order.Answer, error) {
	paths, err := filepath.Glob(pattern)
	files := map[string]string{}
	for _, path := range paths {
		if text, err := readOnly(path, keep); err == nil {
			files[path] = text
		}
	}
	return order.Answer{Files: files}, err
}

// readOnly reads of a file what is to be kept: a serial port is slow.
func readOnly(path string, keep *regexp.Regexp) (string, error) {
	text, err := os.ReadFile(path)
	if keep.String() == "" || err != nil {
		return string(text), err
	}
	return strings.Join(keep.FindAllString(string(text), -1), "\n"), nil
}

func list(dir string) (order.Answer, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return order.Answer{Names: names}, err
}

// exchange sends bytes and reads all that comes back, until a time if it is not
// zero.
func exchange(network, address, text string, until time.Time) (string, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(until); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	back, err := io.ReadAll(conn)
	return string(back), err
}
