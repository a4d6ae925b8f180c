package config

import (
	"fmt"
	"io"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Print writes the configuration as YAML, defaults and all. Parsed again it
// gives an equal Config.
func (c *Config) Print(w io.Writer) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(node(reflect.ValueOf(c).Elem())); err != nil {
		return err
	}
	return encoder.Close()
}

// node makes the YAML of a value: the way back of decoder.value. A nil pointer
// gives nil.
func node(v reflect.Value) *yaml.Node {
	if _, isText := textTypes[v.Type()]; isText {
		return plain(v.Interface().(fmt.Stringer).String())
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return node(v.Elem())
	case reflect.Struct:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range fieldsOf(v.Type()) {
			addKey(n, f.key, node(v.Field(f.index)))
		}
		return n
	case reflect.Slice:
		return listNode(v)
	case reflect.String:
		n := &yaml.Node{}
		n.SetString(escape(v.String()))
		return n
	case reflect.Int:
		return plain(strconv.FormatInt(v.Int(), 10))
	}
	return plain(strconv.FormatBool(v.Bool()))
}

func plain(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// listNode makes a sequence, or of farms a mapping; an empty one in flow style,
// which is the only way to write it.
func listNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	if farms, ok := v.Interface().(Farms); ok {
		n.Kind = yaml.MappingNode
		for i := range farms {
			addKey(n, farms[i].Name, node(v.Index(i)))
		}
	} else {
		for i := range v.Len() {
			n.Content = append(n.Content, node(v.Index(i)))
		}
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// addKey adds a key to a mapping; one without a value is left out.
func addKey(n *yaml.Node, key string, value *yaml.Node) {
	if value == nil {
		return
	}
	name := &yaml.Node{}
	name.SetString(key)
	n.Content = append(n.Content, name, value)
}
