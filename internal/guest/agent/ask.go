package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// ask sends one request on each of so many connections at once, and writes a line
// for each: status and the body's first line, or what failed.
func ask(address string, count int, target string) error {
	request := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n", target)
	lines := make([]string, count)
	var running sync.WaitGroup
	for i := range lines {
		running.Go(func() { lines[i] = once(address, request) })
	}
	running.Wait()
	fmt.Println(strings.Join(lines, "\n"))
	return nil
}

func once(address, request string) string {
	text, err := exchange("tcp", address, request, time.Time{})
	head, body, whole := strings.Cut(text, "\r\n\r\n")
	status := strings.Fields(head)
	switch {
	case err != nil:
		return "failed: " + err.Error()
	case !whole || len(status) < 2:
		return fmt.Sprintf("failed: cut off after %q", text)
	}
	first, _, _ := strings.Cut(body, "\n")
	return status[1] + " " + first
}
