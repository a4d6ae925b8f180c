package config

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxNodes bounds how many values are decoded, those that aliases repeat counted
// each time. Without it nine lines of nested aliases make a thousand million.
const maxNodes = 50_000

// decoder lays a tree of YAML nodes onto a Config that holds the defaults. It
// goes by the types and yaml tags of the Config, and notes the place of each
// value. A value at fault keeps its default, and decoding goes on.
type decoder struct {
	*report
	lookup func(string) (string, bool)
	open   map[*yaml.Node]bool // merged mappings being walked, to see one that holds itself
	nodes  int
}

// textTypes are the types written as one scalar.
var textTypes = map[reflect.Type]func(text string, into reflect.Value) *problem{
	reflect.TypeFor[Duration](): scalar(parseDuration),
	reflect.TypeFor[Size]():     scalar(parseSize),
	reflect.TypeFor[Prefix]():   scalar(parsePrefix),
	reflect.TypeFor[Limit]():    scalar(parseLimit),
	reflect.TypeFor[Node]():     scalar(parseNode),

	reflect.TypeFor[Threshold](): scalar(parseThreshold),
}

func scalar[T any](parse func(string) (T, *problem)) func(string, reflect.Value) *problem {
	return func(text string, into reflect.Value) *problem {
		value, p := parse(text)
		if p == nil {
			into.Set(reflect.ValueOf(value))
		}
		return p
	}
}

// value decodes n into a field or element. Nothing (null) leaves the default.
func (d *decoder) value(n *yaml.Node, into reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch d.nodes++; {
	case d.nodes > maxNodes:
		d.tooMany(path)
		return
	case isNull(n):
		return
	case n.Style&yaml.TaggedStyle != 0:
		d.fail(path, n.Tag, problem{"types are not written out here", "remove the tag"})
		return
	}
	set, isText := textTypes[into.Type()]
	switch {
	case isText:
		d.text(n, into, path, set)
	case into.Type() == reflect.TypeFor[Farms]():
		d.farms(n, into, path)
	case into.Kind() == reflect.Pointer:
		element := fresh(into.Type().Elem())
		d.value(n, element, path)
		into.Set(element.Addr())
	case into.Kind() == reflect.Slice:
		d.list(n, into, path)
	case into.Kind() == reflect.Struct:
		d.mapping(n, into, path)
	default:
		d.text(n, into, path, plainTypes[into.Kind()])
	}
}

// tooMany tells, once, that the file is beyond its bound; nothing that follows
// from it is told.
func (d *decoder) tooMany(path string) {
	d.add(path, "", problem{"too many values, aliases counted as often as they are used", "write " + strconv.Itoa(maxNodes) + " at most"})
	d.broken[""] = true
}

// isNull tells a value that is not there: "key:", "key: ~" or "key: null".
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// text decodes a scalar, after expansion.
func (d *decoder) text(n *yaml.Node, into reflect.Value, path string, set func(string, reflect.Value) *problem) {
	if n.Kind != yaml.ScalarNode {
		d.fail(path, "", problem{"one value belongs here, not " + kindName(n), pairAsText(n, into.Type(), path)})
		return
	}
	text, p := expand(n.Value, d.lookup)
	expanded := p == nil && text != n.Value
	d.places[path] = place{n.Line, n.Column, shown(n.Value, text, expanded)}
	if p == nil && !expanded {
		p = wrongScalar(n, into.Kind())
	}
	if p == nil {
		p = set(strings.TrimSuffix(text, rateUnit(path)), into)
	}
	if p != nil {
		d.fail(path, n.Value, *p)
	}
}

// pairAsText is the cure for a text with a colon that YAML took for a mapping, or
// a list of numbers that was written as a list.
func pairAsText(n *yaml.Node, t reflect.Type, path string) string {
	if n.Kind == yaml.SequenceNode && (path == "workers.cpus" || path == "workers.nodes") {
		return "write it as one text: \"0-7,16\""
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 || n.Content[1].Kind != yaml.ScalarNode {
		return ""
	}
	left, right := n.Content[0].Value, n.Content[1].Value
	switch {
	case t == reflect.TypeFor[Key]():
		return "write " + quote(left+":"+right)
	case t == reflect.TypeFor[Limit]() && left == "fixed":
		return "write " + right
	case t.Kind() == reflect.String && strings.HasSuffix(path, "]"):
		return "put quotes around it: " + quote(left+": "+right)
	}
	return ""
}

// rateUnit gives what may stand after the size at path: rates are per second.
func rateUnit(path string) string {
	if path == "timeouts.rate" {
		return "/s"
	}
	return ""
}

// shown gives a scalar for faults; of one with variables both sides.
func shown(written, text string, expanded bool) string {
	switch {
	case expanded:
		return quote(written) + " = " + strconv.Quote(text)
	case written == "":
		return `""`
	}
	return quote(written)
}

// wrongScalar finds a scalar whose YAML type says that another was meant: true
// where a name belongs, or a quoted number.
func wrongScalar(n *yaml.Node, kind reflect.Kind) *problem {
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	switch {
	case kind == reflect.String && n.ShortTag() == "!!bool":
		return &problem{"text belongs here, not true or false", "quote it if the word is meant; to turn something off write off"}
	case quoted && kind == reflect.Int && isDigits(n.Value), quoted && kind == reflect.Bool && isBool(n.Value):
		return &problem{"text stands where " + scalarNames[kind] + " belongs", "write " + n.Value + " without quotes"}
	}
	return nil
}

var scalarNames = map[reflect.Kind]string{reflect.Int: "a whole number", reflect.Bool: "true or false"}

// boolWords are what people write, and other versions of YAML take, for a boolean.
var boolWords = map[string]string{
	"yes": "true", "y": "true", "on": "true", "1": "true", "true": "true", "enabled": "true",
	"no": "false", "n": "false", "off": "false", "0": "false", "false": "false", "disabled": "false",
}

func isBool(text string) bool { return text == "true" || text == "false" }

// plainTypes are the types that Go has itself.
var plainTypes = map[reflect.Kind]func(text string, into reflect.Value) *problem{
	reflect.String: func(text string, into reflect.Value) *problem {
		if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }); i >= 0 {
			return &problem{"holds the control character " + strconv.QuoteRune(rune(text[i])), "remove it"}
		}
		into.SetString(text)
		return nil
	},
	reflect.Bool: func(text string, into reflect.Value) *problem {
		if !isBool(text) {
			return &problem{"true or false belongs here", "write " + cmp.Or(boolWords[strings.ToLower(text)], "true or false")}
		}
		into.SetBool(text == "true")
		return nil
	},
	reflect.Int: func(text string, into reflect.Value) *problem {
		n, err := strconv.Atoi(text)
		switch {
		case err != nil && isDigits(strings.TrimPrefix(text, "-")):
			return &problem{"larger than any number can be", ""}
		case err != nil:
			return &problem{"a whole number belongs here", "write digits only, without a unit"}
		case strconv.Itoa(n) != text:
			return &problem{"another number to some readers of YAML", "write " + strconv.Itoa(n)}
		}
		into.SetInt(int64(n))
		return nil
	},
}

// kindName names what stands at n, for "X belongs here, not Y".
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "one value"
}

// list decodes a sequence; each element starts from its defaults. A list without
// elements is nil.
func (d *decoder) list(n *yaml.Node, into reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.fail(path, n.Value, problem{"a list belongs here, not " + kindName(n), `begin each element with "- "`})
		return
	}
	elements := reflect.Zero(into.Type())
	for i, item := range n.Content {
		if d.nodes > maxNodes {
			break
		}
		at := path + "[" + strconv.Itoa(i) + "]"
		element := fresh(into.Type().Elem())
		d.places[at] = place{line: item.Line, column: item.Column}
		d.value(item, element, at)
		elements = reflect.Append(elements, element)
	}
	into.Set(elements)
}

// fresh gives a new value with the defaults of its type.
func fresh(of reflect.Type) reflect.Value {
	pointer := reflect.New(of)
	if t, ok := pointer.Interface().(interface{ setDefaults() }); ok {
		t.setDefaults()
	}
	return pointer.Elem()
}

// mapping decodes onto a struct; one value alone where the type takes that.
func (d *decoder) mapping(n *yaml.Node, into reflect.Value, path string) {
	fields := fieldsOf(into.Type())
	alone := slices.IndexFunc(fields, func(f field) bool { return f.key == aloneKeys[into.Type()] })
	if alone >= 0 && n.Kind == yaml.ScalarNode {
		d.value(n, into.Field(fields[alone].index), join(path, fields[alone].key))
		return
	}
	if n.Kind != yaml.MappingNode {
		d.fail(path, n.Value, problem{"a mapping belongs here, not " + kindName(n), shorthand(n, into.Type())})
		return
	}
	for _, e := range d.entries(n, path) {
		at := join(path, e.key.Value)
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key.Value })
		d.places[at] = place{line: e.key.Line, column: e.key.Column}
		if i < 0 {
			d.unknownKey(e.key.Value, into.Type(), path)
			continue
		}
		d.value(e.value, into.Field(fields[i].index), at)
	}
}

// farms decodes the mapping of names to farms, in the order of the file.
func (d *decoder) farms(n *yaml.Node, into reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.fail(path, n.Value, problem{"a mapping of names to farms belongs here, not " + kindName(n), `write "farms: {app: {servers: …}}"`})
		return
	}
	var farms Farms
	for _, e := range d.entries(n, path) {
		farm := NewFarm(e.key.Value)
		at := join(path, farm.Name)
		d.places[at] = place{line: e.key.Line, column: e.key.Column}
		d.value(e.value, reflect.ValueOf(&farm).Elem(), at)
		farms = append(farms, farm)
	}
	into.Set(reflect.ValueOf(farms))
}

// entry is one key of a mapping with its value.
type entry struct{ key, value *yaml.Node }

// entries gives the keys of a mapping: its own, each once, then those merged in
// by "<<" that it does not have itself.
func (d *decoder) entries(n *yaml.Node, path string) []entry {
	var found []entry
	first := map[string]int{} // key → its line
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := join(path, key.Value)
		line, again := first[key.Value]
		switch {
		case isMerge(key):
			continue
		case key.Kind != yaml.ScalarNode:
			at = join(path, "?")
			d.places[at] = place{line: key.Line, column: key.Column}
			d.add(at, "", problem{"a key is one word, not " + kindName(key), ""})
		case again:
			kept := d.places[at]
			d.places[at] = place{line: key.Line, column: key.Column}
			d.add(at, "", problem{"this key stands here twice, first on line " + strconv.Itoa(line), "remove one"})
			d.places[at] = kept
		default:
			first[key.Value] = key.Line
			found = append(found, entry{key, n.Content[i+1]})
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if isMerge(n.Content[i]) {
			found = d.merge(found, first, n.Content[i+1], path)
		}
	}
	return found
}

func isMerge(key *yaml.Node) bool { return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" }

// merge adds the keys of the mapping from, or of a list of them, that are not
// there yet: the first to name a key wins.
func (d *decoder) merge(found []entry, have map[string]int, from *yaml.Node, path string) []entry {
	if from.Kind == yaml.AliasNode {
		from = from.Alias
	}
	switch d.nodes++; {
	case d.nodes > maxNodes:
		d.tooMany(path)
		return found
	case d.open[from]:
		d.fail(path, "", problem{"the merge (<<) goes round in a circle", "write the keys out"})
		return found
	}
	d.open[from] = true
	defer delete(d.open, from)
	switch from.Kind {
	case yaml.MappingNode:
		d.nodes += len(from.Content) / 2 // looking at a key costs, also at one that is there already
		for _, e := range d.entries(from, path) {
			if _, there := have[e.key.Value]; !there {
				have[e.key.Value] = e.key.Line
				found = append(found, e)
			}
		}
	case yaml.SequenceNode:
		for _, item := range from.Content {
			found = d.merge(found, have, item, path)
		}
	default:
		d.add(path, "", problem{`"<<" merges a mapping, not ` + kindName(from), "write <<: *NAME"})
	}
	return found
}

// join makes the path of a key. One that is more than a word is quoted, so that
// a path can be taken apart again, and printed.
func join(path, key string) string {
	if strings.Trim(key, wordBytes) != "" || key == "" {
		key = strconv.Quote(key[:min(len(key), maxShownBytes)])
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
