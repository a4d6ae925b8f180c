// Ledger is an application that scales badly, and is always there: all its requests
// post to the same accounts under one lock. The more CPUs they run on, the more the
// lock and the accounts' cache lines travel between them.
//
//	ledger -listen 127.0.0.1:8080 [-entries 200]
//
// It stands for servers that were written for few CPUs; bench/split runs two of it.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"sync"
	"time"
)

// accounts is how many there are, each in a cache line of its own.
const accounts = 64

// ledger is the accounts and their lock.
type ledger struct {
	mu      sync.Mutex
	account [accounts]struct {
		balance int64
		_       [56]byte
	} // guarded by mu
	posted int64 // entries, since the start; guarded by mu
}

// post makes so many entries, each under the lock: one account gives, another takes.
// It returns the number of entries since the start.
func (l *ledger) post(entries int) (posted int64) {
	for i := range entries {
		l.mu.Lock()
		l.account[i%accounts].balance--
		l.account[(i*7+3)%accounts].balance++
		l.posted++
		posted = l.posted
		l.mu.Unlock()
	}
	return posted
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` to listen on")
	entries := flag.Int("entries", 200, "entries that a request posts")
	flag.Parse()
	l := &ledger{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, l.post(*entries))
	})
	server := &http.Server{Addr: *listen, Handler: handler, IdleTimeout: 10 * time.Minute}
	log.Fatal(server.ListenAndServe())
}
