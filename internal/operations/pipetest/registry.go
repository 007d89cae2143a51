package pipetest

import (
	"context"

	"github.com/flowd-io/flowd/engine"
)

// unasked replaces schema registries: tests do not call them.
func unasked(names []string) map[string]func(engine.Env) engine.SchemaRegistry {
	all := map[string]func(engine.Env) engine.SchemaRegistry{}
	for _, name := range names {
		all[name] = func(engine.Env) engine.SchemaRegistry { return registry(name) }
	}
	return all
}

type registry string

func (r registry) Schema(context.Context, int) (*engine.Schema, error) { return r.refuse() }

func (r registry) Newest(context.Context, string) (*engine.Schema, error) { return r.refuse() }

func (r registry) Find(context.Context, string, engine.Schema) (*engine.Schema, error) {
	return r.refuse()
}

func (r registry) Register(context.Context, string, engine.Schema) (*engine.Schema, error) {
	return r.refuse()
}

func (r registry) refuse() (*engine.Schema, error) {
	return nil, engine.Errorf(engine.Permanent, "tests do not call the registry %q (mock the step in the test)", string(r))
}
