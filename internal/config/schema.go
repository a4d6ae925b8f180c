package config

import (
	"reflect"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// field is one key of a mapping.
type field struct {
	key   string
	index int // of the struct's field
}

// fieldsOf gives the keys of a type, in the order of its fields.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" {
			fields = append(fields, field{key, i})
		}
	}
	return fields
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.key)
	}
	return keys
}

// notYet are keys that the documentation names for later versions. To call them
// unknown would send the operator looking for a slip of the pen.
var notYet = map[reflect.Type][]string{
	reflect.TypeFor[Farm](): {"balance", "health", "pool", "affinity"},
}

// unknownKey tells what key probably was to be.
func (d *decoder) unknownKey(key string, in reflect.Type, path string) {
	at := join(path, key)
	for _, later := range notYet[in] {
		if key == later {
			d.fail(at, "", problem{"not supported by this version yet", "remove it"})
			return
		}
	}
	cure := "known here: " + list(keysOf(in), "and")
	near, found := nearest(key, keysOf(in))
	home, elsewhere := homes()[plainName(key)]
	switch {
	case in == reflect.TypeFor[Workers]() && looksLikeList(key):
		cure = "between braces a list with commas needs quotes: {cpus: \"0-7,16\"}"
	case found && elsewhere:
		cure = "did you mean " + quote(near) + "? (" + quote(key) + " belongs in " + home + ")"
	case found:
		cure = "did you mean " + quote(near) + "?"
	case elsewhere:
		cure = "it belongs in " + home
	}
	d.fail(at, "", problem{"unknown key", cure})
	if found {
		d.broken[join(path, near)] = true // so that it is not told missing as well
	}
}

// homes gives each key, in its plain spelling, that stands in one place only,
// with that place.
var homes = sync.OnceValue(func() map[string]string {
	found := map[string]string{}
	visitKeys(reflect.TypeFor[Config](), "", func(key, in string) {
		key = plainName(key)
		if _, several := found[key]; several || in == "" {
			found[key] = ""
			return
		}
		found[key] = in
	})
	for key, in := range found {
		if in == "" {
			delete(found, key)
		}
	}
	return found
})

// visitKeys calls visit for every key below t with the path of its mapping.
func visitKeys(t reflect.Type, path string, visit func(key, in string)) {
	for _, f := range fieldsOf(t) {
		visit(f.key, path)
		at, below := join(path, f.key), t.Field(f.index).Type
		if below == reflect.TypeFor[Farms]() {
			at, below = at+".NAME", reflect.TypeFor[Farm]()
		} else if below.Kind() == reflect.Slice {
			at, below = at+"[]", below.Elem()
		} else if below.Kind() == reflect.Pointer {
			below = below.Elem()
		}
		if _, isText := textTypes[below]; !isText && below.Kind() == reflect.Struct {
			visitKeys(below, at, visit)
		}
	}
}

// aloneKeys are the keys whose value may stand for a whole mapping: "admission: 50".
var aloneKeys = map[reflect.Type]string{
	reflect.TypeFor[Admission](): "limit", reflect.TypeFor[Spill](): "threshold",
	reflect.TypeFor[Certificate](): "cert", reflect.TypeFor[ClientAuth](): "mode", reflect.TypeFor[HSTS](): "max_age",
}

// mainKeys are the keys that one probably means who writes a value in place of a
// mapping.
var mainKeys = map[reflect.Type]string{
	reflect.TypeFor[Workers]():     "per",
	reflect.TypeFor[Admin]():       "listen",
	reflect.TypeFor[Log]():         "level",
	reflect.TypeFor[AccessLog]():   "path",
	reflect.TypeFor[Listener]():    "address",
	reflect.TypeFor[Server]():      "url",
	reflect.TypeFor[Route]():       "farm",
	reflect.TypeFor[Connections](): "max",
}

// shorthand is the cure for something other than a mapping where one belongs.
func shorthand(n *yaml.Node, t reflect.Type) string {
	if key := mainKeys[t]; key != "" && n.Kind == yaml.ScalarNode && !strings.ContainsAny(n.Value, "\n") {
		return "write {" + key + ": " + quote(n.Value) + "}"
	}
	return "its keys are " + list(keysOf(t), "and")
}
