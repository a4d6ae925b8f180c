package outcome

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// WriteAll writes results.md, .json and .csv into a directory, and the pictures of
// each scene as SCENE.svg and .png.
func WriteAll(dir string, r Results) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "results")
	errs := []error{
		writeFile(path+".md", func(w io.Writer) error { WriteMarkdown(w, r); return nil }),
		writeFile(path+".json", func(w io.Writer) error { return writeJSON(w, r) }),
		writeFile(path+".csv", func(w io.Writer) error { return writeCSV(w, r) }),
	}
	for i := range r.Scenes {
		s := &r.Scenes[i]
		errs = append(errs, s.writePictures(filepath.Join(dir, s.Name)))
	}
	return errors.Join(errs...)
}

func writeJSON(w io.Writer, r Results) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// writeCSV writes a line for each step and each second of each round.
func writeCSV(w io.Writer, r Results) error {
	out := csv.NewWriter(w)
	out.Write([]string{"scene", "contender", "round", "part", "users", "at_seconds", "seconds", "good_per_second", "errors_per_second",
		"mean_seconds", "p50_seconds", "p99_seconds", "backend_most_held", "backend_mean_held", "backend_connections"})
	for _, s := range r.Scenes {
		for _, e := range s.Entries {
			for i, round := range e.Rounds {
				for _, line := range round.lines() {
					out.Write(append([]string{s.Name, e.Name, strconv.Itoa(i + 1)}, line...))
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// lines are the steps and points of a round, from the column "part" on.
func (r Round) lines() [][]string {
	var all [][]string
	add := func(part string, s Step) {
		all = append(all, []string{part, strconv.Itoa(s.Users), "", float(s.Seconds), float(s.Rate), float(s.Errors),
			float(s.Mean), float(s.P50), float(s.P99), strconv.Itoa(s.MostHeld), float(s.MeanHeld), strconv.Itoa(s.MostConnections)})
	}
	for _, s := range r.Ramp {
		add("ramp", s)
	}
	if r.Held != nil {
		add("held", *r.Held)
	}
	for _, s := range r.Shares {
		add("share", s)
	}
	for _, p := range r.Course {
		all = append(all, []string{"course", "", float(p.At), "", float(p.Rate), "", "", "", "", "", float(p.Held), strconv.Itoa(p.Connections)})
	}
	return all
}

func float(f float64) string { return strconv.FormatFloat(f, 'g', 6, 64) }

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
