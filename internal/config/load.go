package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFileBytes bounds the file. Ten thousand routes take about one MiB.
const maxFileBytes = 4 << 20

// Load reads, decodes and checks the file at path. Its error is always Faults,
// also for a file that cannot be read.
func Load(path string) (*Config, error) {
	data, err := readBounded(path)
	if err != nil {
		var inner *fs.PathError
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return nil, Faults{{File: path, Rule: "cannot be read: " + err.Error(), Cure: "name a YAML file that Sluice may read"}}
	}
	return Parse(path, data)
}

func readBounded(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxFileBytes+1))
}

// Parse is Load for a file whose content is at hand; name stands in the faults.
// Variables come from the environment of this process.
func Parse(name string, data []byte) (*Config, error) {
	return ParseEnv(name, data, os.LookupEnv)
}

// ParseEnv is Parse with variables from lookup, which works as os.LookupEnv.
//
//  1. YAML to a tree of nodes, which know their lines
//  2. the tree onto the defaults: unknown keys, wrong types, wrong units
//  3. values that follow from others
//  4. rules: ranges, addresses, references, relations
//
// The faults of 2 and 4 come together. A file that is not YAML has one fault.
func ParseEnv(name string, data []byte, lookup func(string) (string, bool)) (*Config, error) {
	report := &report{file: name, places: map[string]place{}, broken: map[string]bool{}}
	root, fault := document(data)
	if fault != nil {
		fault.File = name
		return nil, Faults{*fault}
	}
	c := Default()
	if root != nil {
		d := decoder{report: report, lookup: lookup, open: map[*yaml.Node]bool{}}
		d.value(root, reflect.ValueOf(c).Elem(), "")
	}
	c.derive(report)
	(&checker{Config: c, report: report}).all()
	if err := report.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// Locate gives faults that were found elsewhere, as in files that a configuration names,
// their places in its file, and its name. The file has passed Load.
func Locate(path string, faults Faults) Faults {
	data, err := readBounded(path)
	if err != nil {
		return faults
	}
	root, fault := document(data)
	if fault != nil || root == nil {
		return faults
	}
	report := &report{file: path, places: map[string]place{}, broken: map[string]bool{}}
	d := decoder{report: report, lookup: os.LookupEnv, open: map[*yaml.Node]bool{}}
	d.value(root, reflect.ValueOf(Default()).Elem(), "")
	located := make(Faults, len(faults))
	for i, f := range faults {
		at := report.nearestPlace(f.Path)
		f.File, f.Line, f.Column = path, at.line, at.column
		located[i] = f
	}
	located.sort()
	return located
}

// document gives the root of the only document in data; nil if there is nothing
// but white space and comments.
func document(data []byte) (*yaml.Node, *Fault) {
	if len(data) > maxFileBytes {
		return nil, &Fault{Rule: "larger than " + Size(maxFileBytes).String()}
	}
	var root, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	switch err := decoder.Decode(&root); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, syntaxFault(err, data)
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		return nil, &Fault{Line: second.Line, Column: second.Column,
			Rule: "a second YAML document begins here", Cure: `put everything into one and remove the "---"`}
	case !errors.Is(err, io.EOF):
		return nil, syntaxFault(err, data)
	}
	return root.Content[0], nil
}

var (
	syntaxLine    = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)
	unknownAnchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)
	tabIndent     = regexp.MustCompile(`^ *\t`)
	bareWildcard  = regexp.MustCompile(`[:\[,-] *(\*[^ ,}\]]*)`)
)

// syntaxFault turns the parser's error into a fault, with a cure for the slips
// that are common and that the parser explains badly.
func syntaxFault(err error, data []byte) *Fault {
	found := syntaxLine.FindStringSubmatch(err.Error())
	fault := &Fault{Line: 1, Rule: "not YAML: " + found[2]}
	if n, err := strconv.Atoi(found[1]); err == nil {
		fault.Line = n
	}
	anchor := unknownAnchor.FindStringSubmatch(found[2])
	switch {
	case anchor != nil:
		fault.Line = lineOf(data, bytes.Index(data, []byte("*"+anchor[1])))
		fault.Cure = "define &" + anchor[1] + " above, or quote a value that begins with *"
	case strings.Contains(found[2], "control characters"):
		fault.Line = lineOf(data, bytes.IndexFunc(data, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }))
		fault.Cure = "remove what is not printable text"
	case !utf8.Valid(data):
		fault.Line = lineOf(data, len(data)-len(bytes.TrimLeftFunc(data, func(r rune) bool { return r != utf8.RuneError })))
		fault.Cure = "save the file as UTF-8"
	default:
		mendSyntax(fault, strings.Split(string(data), "\n"))
	}
	return fault
}

// lineOf gives the line, from 1, of a place in data; of none the first.
func lineOf(data []byte, offset int) int {
	return 1 + bytes.Count(data[:max(offset, 0)], []byte("\n"))
}

// mendSyntax looks for the slip itself. The parser names the line where a value
// began: the slip is there or a little below.
func mendSyntax(fault *Fault, lines []string) {
	from := min(fault.Line-1, len(lines))
	for i, line := range lines[from:min(from+3, len(lines))] {
		switch {
		case tabIndent.MatchString(line):
			fault.Line, fault.Cure = from+i+1, "indent with spaces, not with tabs"
			return
		case strings.Contains(fault.Rule, "expected alphabetic") && bareWildcard.MatchString(line):
			fault.Line, fault.Cure = from+i+1, "put quotes around "+bareWildcard.FindStringSubmatch(line)[1]
			return
		case strings.ContainsAny(line, "{[") && strings.Contains(line, ": ${"):
			fault.Line, fault.Cure = from+i+1, `within { } and [ ] quote a variable: "${NAME}"`
			return
		}
	}
	switch {
	case strings.Contains(fault.Rule, "mapping values are not allowed"), strings.Contains(fault.Rule, "expected key"):
		fault.Cure = `align the keys of one mapping here and below, and quote a value that holds ": "`
	case strings.Contains(fault.Rule, "end of stream"):
		fault.Cure = "close the quote that is open above"
	case strings.Contains(fault.Rule, "expected ','"):
		fault.Cure = "close each { and [ that opens here, and put commas between the elements"
	case strings.Contains(fault.Rule, "expected ':'"):
		fault.Cure = `write "key: value"`
	default:
		fault.Cure = `quote a value that begins with one of * & ! % @ [ { or that holds ": " or " #"`
	}
}
