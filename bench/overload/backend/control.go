package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/bench/overload/sharing"
)

// lie is an answer without the work.
type lie struct {
	share float64 // of the requests, 0 to 1
	tell  func(http.ResponseWriter)
}

// trickleBytes is the length of a trickle; trickleFor the time that it takes.
const (
	trickleBytes = 20
	trickleFor   = 2 * time.Second
)

// lies are those that can be told.
var lies = map[string]func(http.ResponseWriter){
	"error": func(w http.ResponseWriter) { // a fast 500
		http.Error(w, "not today", http.StatusInternalServerError)
	},
	"quiet": func(w http.ResponseWriter) { // a fast 200 that means failure
		w.Header().Set("X-Status", "degraded")
		io.WriteString(w, answer)
	},
	"trickle": func(w http.ResponseWriter) { // a fast head, and a byte now and then
		w.Header().Set("Content-Length", strconv.Itoa(trickleBytes))
		tick := time.NewTicker(trickleFor / trickleBytes)
		defer tick.Stop()
		for range trickleBytes {
			if _, err := io.WriteString(w, "."); err != nil {
				return
			}
			http.NewResponseController(w).Flush()
			<-tick.C
		}
	},
}

// parseLie reads error:0.2, quiet:0.2, trickle:0.2, or none.
func parseLie(text string) (lie, error) {
	if text == "none" {
		return lie{}, nil
	}
	name, share, _ := strings.Cut(text, ":")
	tell, ok := lies[name]
	part, err := strconv.ParseFloat(share, 64)
	if !ok || err != nil || !(part >= 0 && part <= 1) {
		return lie{}, fmt.Errorf("lie %q: write error:, quiet: or trickle: and a share from 0 to 1, or none", text)
	}
	return lie{part, tell}, nil
}

// control is the experiment's handler.
func (b *backend) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /cut", func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		c := b.figures.cut(b.now())
		b.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(c)
	})
	mux.HandleFunc("POST /set", func(w http.ResponseWriter, r *http.Request) {
		if err := b.set(r.URL.Query()); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})
	return mux
}

// set changes what is named; all of it or, if one is faulty, nothing.
func (b *backend) set(values url.Values) error {
	var changes []func()
	for name, v := range values {
		switch text := v[0]; name {
		case "curve":
			c, err := sharing.Parse(text)
			if err != nil {
				return err
			}
			changes = append(changes, func() { b.change(c) })
		case "lie":
			l, err := parseLie(text)
			if err != nil {
				return err
			}
			changes = append(changes, func() { b.setLie(l) })
		case "delay":
			d, err := time.ParseDuration(text)
			if err != nil || d < 0 {
				return fmt.Errorf("delay %q: write a duration as 400ms", text)
			}
			changes = append(changes, func() { b.setDelay(d) })
		default:
			return fmt.Errorf("%q cannot be set", name)
		}
	}
	for _, change := range changes {
		change()
	}
	return nil
}

func (b *backend) setLie(l lie) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lie = l
}

func (b *backend) setDelay(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.delay = d
}
