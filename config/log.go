package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/otlp"
	"github.com/flowd-io/flowd/schema"
)

// Log is `service.log`.
type Log struct {
	Level      string            `yaml:"level" check:"oneof=debug|info|warn|error" doc:"The lowest level that is logged; info by default. --log-level overrides it."`
	Format     string            `yaml:"format" check:"oneof=text|json|logfmt" doc:"text is for people. With json or logfmt, everything on standard error is a record, the summary at the end included. By default it is text on a terminal; elsewhere log lines are logfmt, and the rest is text. --log-format overrides it."`
	OTLP       *otlp.Sender      `yaml:"otlp" doc:"A receiver of OTLP that gets each line of the log, too. Lines that wait for it are limited; it never slows a pipeline."`
	Components map[string]string `yaml:"components" check:"oneof=debug|info|warn|error" doc:"The lowest level of components, by the name of an input, step, batcher, output, cache or registry. It applies to this name in all pipelines of the process."`
}

// checkLog rejects levels of components that don't exist.
func (l *loader) checkLog() {
	known := map[string]bool{}
	for _, f := range l.files {
		f.componentNames(known)
	}
	names := slices.Sorted(maps.Keys(known))
	for _, f := range l.files {
		for _, name := range slices.Sorted(maps.Keys(f.spec.Service.Log.Components)) {
			if known[name] {
				continue
			}
			l.complain(f.place().Key("service", "log", "components", name), schema.Problem{Code: "unknown-component",
				Message: fmt.Sprintf("there is no component %q", name),
				Remedy:  schema.Suggest(name, names, "remove it")})
		}
	}
}

// componentNames adds the names that the log has for the components of a file.
func (f *file) componentNames(known map[string]bool) {
	for name := range f.spec.Inputs.All() {
		known[name] = true
	}
	for name := range f.spec.Batchers.All() {
		known[name] = true
	}
	for name := range f.spec.Outputs.All() {
		known[name] = true
	}
	for name := range f.spec.Resources.Caches.All() {
		known[name] = true
	}
	for name := range f.spec.Resources.Registries.All() {
		known[name] = true
	}
	addStep := func(x reflect.Value) {
		if s, ok := reflect.TypeAssert[engine.StepSpec](x); ok {
			used, _ := s.Use.Config.(engine.UsedSteps)
			known[cmp.Or(s.Name, used.Name, s.Use.Name)] = true
		}
	}
	schema.Walk(f.spec.Pipeline, addStep)
	schema.Walk(f.spec.Resources.Steps, addStep)
}
