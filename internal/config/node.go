package config

import (
	"slices"
	"strconv"
	"strings"
)

// Fixed gives the number of a node that is one.
func (n Node) Fixed() (node int, ok bool) { return numberOf(string(n)) }

// String gives the word or the number.
func (n Node) String() string { return string(n) }

// Points gives the percent points of a threshold that is not off.
func (t Threshold) Points() (points int, ok bool) { return numberOf(string(t)) }

// String gives the word or the number.
func (t Threshold) String() string { return string(t) }

func numberOf(text string) (n int, ok bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// parseNode reads a server's node. The range of a number is checked with the other
// ranges.
func parseNode(text string) (Node, *problem) {
	p := parseWordOrNumber(text, "leave the key out if you do not know", "auto", "off")
	if p != nil && slices.Contains([]string{"any", "all", "none"}, strings.ToLower(text)) {
		p = &problem{"a server of no node is written as a word", "write off"}
	}
	return Node(text), p
}

// parseThreshold reads a threshold, likewise.
func parseThreshold(text string) (Threshold, *problem) {
	number, percent := strings.CutSuffix(text, "%")
	share, err := strconv.ParseFloat(number, 64)
	p := parseWordOrNumber(text, "write percent points such as 20", "off")
	switch {
	case p == nil:
	case slices.Contains(noneWords, strings.ToLower(text)):
		p = &problem{"a node that requests do not leave is written as a word", "write off"}
	case percent && isDigits(strings.TrimSpace(number)):
		p = &problem{"percent points are written without a sign", "write " + strings.TrimSpace(number)}
	case err == nil && !percent && share > 0 && share < 1:
		p = &problem{"percent points, 0 to 100, not a share", "write " + strconv.Itoa(int(100*share+0.5))}
	}
	return Threshold(text), p
}

// parseWordOrNumber checks a value that is one of some words or a plain number.
func parseWordOrNumber(text, cure string, words ...string) *problem {
	if slices.Contains(words, text) {
		return nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err == nil && strconv.Itoa(n) == text:
		return nil
	case err == nil:
		return &problem{"another number to some readers of YAML", "write " + strconv.Itoa(n)}
	case isDigits(strings.TrimPrefix(text, "-")):
		return &problem{"larger than any number can be", ""}
	}
	p := &problem{"must be " + list(append(slices.Clone(words), "a number"), "or"), cure}
	if near, ok := nearest(text, words); ok {
		p.cure = "did you mean " + quote(near) + "?"
	}
	return p
}

// node checks a server's node. Only the machine knows which of them there are.
func (k *checker) node(n Node, at string) {
	if _, p := parseNode(string(n)); p != nil {
		k.fail(at, string(n), *p)
	}
	if number, fixed := n.Fixed(); fixed {
		checkBounds(k, strconv.Itoa, []bound[int]{{at, number, 0, maxNode}})
	}
}

// spill checks when requests leave their node.
func (k *checker) spill(t Threshold, at string) {
	if _, p := parseThreshold(string(t)); p != nil {
		k.fail(at, string(t), *p)
	}
	if points, on := t.Points(); on {
		checkBounds(k, strconv.Itoa, []bound[int]{{at, points, 0, 100}})
	}
}
