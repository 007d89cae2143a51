package config

import (
	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/inputs"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

// Stand-ins for built-ins, where this build lacks them.
func init() {
	type named struct {
		Name string `yaml:"name,main"`
	}
	standIn(engine.Inputs, "pipe", named{})
	standIn(engine.Inputs, "http_server", named{})
	standIn(engine.Inputs, "sequence", named{})
	standIn(engine.Outputs, "pipe", named{})
	standIn(engine.Outputs, "http", struct {
		URL string `yaml:"url"`
	}{})
}

func standIn[T, C any](r *engine.Registry[T], name string, defaults C) {
	if r.Lookup(name) == nil {
		engine.Register(r, name, "A stand-in.", defaults, func(C, engine.Env) (none T, err error) { return none, nil })
	}
}
