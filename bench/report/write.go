package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

// Directory names a place for results below root by date and shape of the machine.
func Directory(root string, r Results) string {
	shape := fmt.Sprintf("%s-%dcpu-%dnode", r.When.Format("2006-01-02"), len(r.Machine.CPUs), r.Machine.Nodes)
	return filepath.Join(root, shape)
}

// WriteAll writes results.txt, .md, .json, .svg and .png into a directory, and each
// row's latencies as latency-NAME.hgrm, which HdrHistogram's plotter reads.
func WriteAll(dir string, r Results) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, "results")
	return errors.Join(
		writeFile(path+".txt", func(w io.Writer) error { WriteText(w, r); return nil }),
		writeFile(path+".md", func(w io.Writer) error { WriteMarkdown(w, r); return nil }),
		writeFile(path+".json", func(w io.Writer) error { return writeJSON(w, r) }),
		WritePictures(path, r),
		writeLatencies(dir, r),
	)
}

// writeLatencies writes percentile distributions in microseconds.
func writeLatencies(dir string, r Results) error {
	var errs []error
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if row.Latency == nil || row.Latency.TotalCount() == 0 {
				continue
			}
			errs = append(errs, writeFile(filepath.Join(dir, "latency-"+fileName(row.Name)+".hgrm"), func(w io.Writer) error {
				_, err := row.Latency.PercentilesPrint(w, 5, float64(time.Microsecond))
				return err
			}))
		}
	}
	return errors.Join(errs...)
}

// fileName is a row's name as part of a file's.
func fileName(name string) string {
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}), "-")
}

func writeJSON(w io.Writer, r Results) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
