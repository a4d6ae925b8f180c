package config

import (
	"slices"
	"strconv"
	"strings"
)

// Parts takes a key apart: client and host have no name, header and cookie have
// one. The empty key gives two empty texts.
func (k Key) Parts() (kind, name string) {
	kind, name, _ = strings.Cut(string(k), ":")
	return kind, name
}

// keyForms is how each kind of key is written.
var keyForms = map[string]string{"client": "client", "host": "host", "header": "header:NAME", "cookie": "cookie:NAME"}

// otherKinds are words of other proxies for our kinds.
var otherKinds = map[string]string{
	"ip": "client", "address": "client", "src": "client", "source": "client", "remoteaddr": "client", "authority": "host",
}

// key checks a key that may be of these kinds. An empty one is nowhere.
func (k *checker) key(at string, key Key, kinds ...string) {
	if key != "" {
		if p := checkKey(key, kinds); p != nil {
			k.add(at, string(key), *p)
		}
	}
}

func checkKey(key Key, kinds []string) *problem {
	kind, name, hasName := strings.Cut(string(key), ":")
	form := keyForms[kind]
	switch {
	case form == "" || !slices.Contains(kinds, kind):
		return otherKind(key, kinds)
	case form == kind && hasName:
		return &problem{kind + " takes no name", "write " + kind}
	case form == kind:
		return nil
	case strings.TrimSpace(name) == "":
		return &problem{"which " + kind + "?", "write " + form}
	case name != strings.TrimSpace(name):
		return &problem{"no space belongs around a name", "write " + quote(kind+":"+strings.TrimSpace(name))}
	case !isToken(name):
		return &problem{"the name of a " + kind + " is a token: letters, digits and !#$%&'*+-.^_`|~", "write " + form}
	}
	return nil
}

// otherKind is the fault of a key whose kind is not among those that fit.
func otherKind(key Key, kinds []string) *problem {
	var forms []string
	for _, kind := range kinds {
		forms = append(forms, keyForms[kind])
	}
	p := problem{rule: "must be " + list(forms, "or")}
	kind, name, hasName := strings.Cut(string(key), ":")
	near, slip := nearest(kind, kinds)
	if other := otherKinds[plainName(kind)]; slices.Contains(kinds, other) {
		near, slip = other, true
	}
	switch {
	case key == "off" || key == "none":
		p.cure = "leave the key out"
	case slip && hasName && keyForms[near] != near:
		p.cure = "did you mean " + quote(near+":"+strings.TrimSpace(name)) + "?"
	case slip:
		p.cure = "did you mean " + quote(keyForms[near]) + "?"
	case !hasName && isToken(kind) && keyForms[kind] == "":
		p.cure = "write " + quote("header:"+kind) + " if that is its name"
	}
	return &p
}

// Failure is one of Admission.Failures, taken apart: a range of statuses, or a
// field of the response.
type Failure struct {
	From, To int    // statuses, both included; 0 if it is a field
	Field    string // name, compared without regard to case
	Value    string // the field's whole value, compared as it is; empty: any, the field is there
}

// ParseFailure reads a status (429), a class of them (5xx), the name of a response
// field (X-Overload), or a name with its value (X-Status: degraded).
func ParseFailure(text string) (Failure, error) {
	f, p := parseFailure(text)
	if p != nil {
		return Failure{}, p
	}
	return f, nil
}

func parseFailure(text string) (Failure, *problem) {
	const form = "write 503, 5xx, X-Overload or \"X-Status: degraded\""
	name, value, hasValue := strings.Cut(text, ":")
	value = strings.Trim(value, " \t")
	class, isClass := strings.CutSuffix(strings.ToLower(text), "xx")
	isClass = isClass && len(class) == 1 && isDigits(class)
	switch {
	case isDigits(text):
		n, _ := strconv.Atoi(text)
		return statuses(n, n, strconv.Itoa(n) == text)
	case isClass:
		n, _ := strconv.Atoi(class)
		return statuses(100*n, 100*n+99, true)
	case text == "":
		return Failure{}, &problem{"no response is named", form}
	case strings.IndexByte("0123456789-", text[0]) >= 0: // 500-599, 50x
		return Failure{}, &problem{"statuses stand one by one, or as a class", "write 503, or 5xx"}
	case !isToken(name):
		return Failure{}, &problem{"neither a status nor a response field", form}
	case hasValue && value == "":
		return Failure{}, &problem{"a field without its value", "write " + quote(name) + " if it is enough that the field is there"}
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return Failure{}, &problem{"the value of a field holds ASCII", form}
	}
	return Failure{Field: name, Value: value}, nil
}

// statuses makes a Failure of a range. Interim responses, 1xx, are no answers.
func statuses(from, to int, plain bool) (Failure, *problem) {
	if from < 200 || to > 599 || !plain {
		return Failure{}, &problem{"the status of an answer is 200 to 599", "write one such as 503, or a class such as 5xx"}
	}
	return Failure{From: from, To: to}, nil
}

// failures checks the responses by which a server says that it has too much to do.
func (k *checker) failures(texts []string, at string) {
	if len(texts) > maxFailures {
		k.add(at, "", problem{"more than " + strconv.Itoa(maxFailures), "write classes such as 5xx"})
	}
	for i, text := range texts {
		if _, p := parseFailure(text); p != nil {
			k.add(at+"["+strconv.Itoa(i)+"]", text, *p)
		}
	}
}
