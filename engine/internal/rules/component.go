package rules

import (
	"reflect"

	"github.com/flowd-io/flowd/schema"
)

// Component is a plugin that a configuration uses, at any depth: a step of a `switch`, an input of a `sequence`.
type Component struct {
	Kind   string // "input", "processor", "batcher", "output", "cache"
	Type   string // the type key: "steps"
	Config any
	Place  schema.Place
}

// Components finds every component in v, including those inside the configurations of others.
func Components(v any) (found []Component) {
	schema.Walk(v, func(x reflect.Value) {
		if c, ok := reflect.TypeAssert[interface {
			Component() (kind, name string, config any, at schema.Place)
		}](x); ok {
			if kind, name, config, at := c.Component(); name != "" || at.Node != nil {
				found = append(found, Component{kind, name, config, at})
			}
		}
	})
	return found
}

// Refers is the name that a component's configuration consists of, such as that of a pipe or of a list of steps; ""
// if it consists of something else. The configuration is text or a struct with a field Name. The text in the file
// counts if the configuration could not be decoded.
func (c Component) Refers() string {
	v := reflect.ValueOf(c.Config)
	if v.Kind() == reflect.Struct {
		v = v.FieldByName("Name")
	}
	if v.IsValid() && v.Kind() == reflect.String {
		return v.String()
	}
	if n := c.Place.Node; n != nil && n.Kind == schema.TextNode {
		return n.Text
	}
	return ""
}
