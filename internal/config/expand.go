package config

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// expand replaces ${NAME} and ${NAME:-default} in a value by the environment's.
// As in a shell, the default also stands in for a variable that is set but
// empty. $${ gives a literal ${; any other $ stands for itself. What a variable
// holds is text, never YAML: it cannot add keys.
func expand(text string, lookup func(string) (string, bool)) (string, *problem) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), nil
		}
		if literal, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(literal + "${")
			text = rest
			continue
		}
		inside, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", &problem{`"${" has no "}"`, `write "$${" if it is meant as it stands`}
		}
		value, p := variable(inside, lookup)
		if p != nil {
			return "", p
		}
		b.WriteString(before + value)
		text = after
	}
}

// escape writes a value so that expand gives it back.
func escape(text string) string {
	return strings.ReplaceAll(text, "${", "$${")
}

// variable gives the value of what stands between ${ and }.
func variable(inside string, lookup func(string) (string, bool)) (string, *problem) {
	name, fallback, hasFallback := strings.Cut(inside, ":-")
	if !isVariableName(name) {
		return "", &problem{quote("${"+inside+"}") + " is not a variable", `write "${NAME}" or "${NAME:-default}"`}
	}
	value, set := lookup(name)
	switch {
	case strings.Contains(fallback, "${"):
		return "", &problem{"a default holds no variable", `write the text that stands in for "${` + name + `}"`}
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return "", &problem{"the environment has no variable " + name, `set it, or give a default: "${` + name + `:-…}"`}
	case !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return "", &problem{"the variable " + name + " holds bytes that are not printable text", "set it without line breaks"}
	}
	return value, nil
}

func isVariableName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
