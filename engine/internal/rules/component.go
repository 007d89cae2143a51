package rules

import (
	"reflect"

	"github.com/flowd-io/flowd/schema"
)

// Component is a plugin found somewhere in what is configured: the steps of a `switch`,
// the inputs of a `sequence`.
type Component struct {
	Kind   string // "input", "processor", "batcher", "output", "cache"
	Type   string // the type key: "steps"
	Config any
	Place  schema.Place
}

// Components finds every component in v, those in the configurations of others included.
func Components(v any) (found []Component) {
	schema.Walk(v, func(x reflect.Value) {
		if c, ok := reflect.TypeAssert[interface {
			Component() (kind, name string, config any, at schema.Place)
		}](x); ok {
			kind, name, config, at := c.Component()
			found = append(found, Component{kind, name, config, at})
		}
	})
	return found
}

// Refers is what a component's configuration names, such as a pipe or a list of steps: it
// is text, or a struct with a field Name, or was at least written as text.
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
