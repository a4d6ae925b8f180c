package plan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/cmd/hb/client"
)

// maxWeights bounds the sum of weights, so that a choice is one small number.
const maxWeights = 1_000_000

// Defaults are what a target has that does not say otherwise.
type Defaults struct {
	Method string // empty: POST with a body, else GET
	Fields []client.Field
	Body   []byte
	// ReadFile gives the content of a body's file.
	ReadFile func(name string) ([]byte, error)
}

// ParseTarget reads one kind of request: [WEIGHT] [METHOD] URL [@FILE], like
// "3 POST http://127.0.0.1:8080/orders @order.json". A URL without a scheme is http.
func ParseTarget(text string, d Defaults) (Target, error) {
	words := strings.Fields(text)
	t := Target{Weight: 1, Method: d.Method, Fields: d.Fields, Body: d.Body}
	var err error
	if len(words) > 1 && isNumber(words[0]) {
		if t.Weight, err = strconv.Atoi(words[0]); err != nil || t.Weight < 1 || t.Weight > maxWeights {
			return Target{}, fmt.Errorf("%q: a weight is from 1 to %d", text, maxWeights)
		}
		words = words[1:]
	}
	if len(words) > 1 && isMethod(words[0]) {
		t.Method, words = words[0], words[1:]
	}
	if n := len(words); n > 1 && strings.HasPrefix(words[n-1], "@") {
		if t.Body, err = d.ReadFile(words[n-1][1:]); err != nil {
			return Target{}, err
		}
		words = words[:n-1]
	}
	if len(words) != 1 {
		return Target{}, fmt.Errorf("%q: write [WEIGHT] [METHOD] URL [@FILE], like \"3 POST http://127.0.0.1:8080/ @body.json\"", text)
	}
	if t.Method == "" {
		t.Method = defaultMethod(t.Body)
	}
	t.URL, err = parseURL(words[0])
	return t, err
}

// ParseTargets reads a target from each line. Empty lines and those that begin
// with # are passed over.
func ParseTargets(r io.Reader, d Defaults) ([]Target, error) {
	var all []Target
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		t, err := ParseTarget(line, d)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, t)
	}
	return all, lines.Err()
}

// ParseField reads "Name: value".
func ParseField(text string) (client.Field, error) {
	name, value, found := strings.Cut(text, ":")
	if !found || name == "" || strings.ContainsFunc(name, notToken) || strings.ContainsAny(value, "\r\n\x00") {
		return client.Field{}, fmt.Errorf("%q: write a header field as \"Name: value\"", text)
	}
	return client.Field{Name: name, Value: strings.TrimSpace(value)}, nil
}

func defaultMethod(body []byte) string {
	if len(body) > 0 {
		return "POST"
	}
	return "GET"
}

// parseURL refuses what a request cannot be sent to.
func parseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q: only http and https", text)
	case u.Hostname() == "":
		return nil, fmt.Errorf("%q: the host is missing", text)
	case u.User != nil:
		return nil, errors.New("a URL with a password shows it to everyone; use --auth NAME:PASSWORD")
	}
	return u, nil
}

func isNumber(word string) bool {
	return !strings.ContainsFunc(word, func(c rune) bool { return c < '0' || c > '9' })
}

// isMethod tells a method from a host: it has no dot, colon or slash. Methods are
// case-sensitive, and those of the standard are in capitals (RFC 9110, section 9.1).
func isMethod(word string) bool {
	return !strings.ContainsFunc(word, func(c rune) bool { return c < 'A' || c > 'Z' })
}

// notToken finds what no name of a field may have (RFC 9110, section 5.6.2).
func notToken(c rune) bool {
	return c <= ' ' || c >= 0x7f || slices.Contains([]rune(`"(),/:;<=>?@[\]{}`), c)
}
