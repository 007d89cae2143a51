package config

import (
	"cmp"
	"reflect"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// eachStep calls f for every step in v, those inside of others included. Steps
// lie in lists, so that f may change them.
func eachStep(v any, f func(*engine.StepSpec)) {
	schema.Walk(v, func(x reflect.Value) {
		if x.Type() == stepType && x.CanAddr() {
			f(x.Addr().Interface().(*engine.StepSpec))
		}
	})
}

var stepType = reflect.TypeFor[engine.StepSpec]()

// stepName is the name of a step in errors and metrics.
func stepName(s *engine.StepSpec) string { return cmp.Or(s.Name, s.Use.Name) }
