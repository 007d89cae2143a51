package config

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// checkCalls checks the names that functions are called with.
func (l *loader) checkCalls() {
	kept := l.kept()
	for _, f := range l.files {
		l.checkEnv(f)
		for _, c := range *schema.Shared[expr.Calls](f.decoder) {
			if slices.Contains(c.Scopes, "expected") && slices.Contains(underWay, c.Name) {
				l.report(c.Problem(c.Offset, schema.Problem{Code: "expression",
					Message: c.Name + "() is only known while a message is processed, not when it has arrived",
					Remedy:  "keep it in a field or in metadata, and compare that"}))
				continue
			}
			switch c.Name {
			case "vars":
				l.checkVars(c, kept)
			case "env":
				l.checkEnvCall(c, f.spec.Engine.Env)
			case "counter":
				if len(c.Args) == 0 && !slices.Contains(c.Scopes, "generate") {
					l.report(c.Problem(c.Offset, schema.Problem{Code: "no-name", Message: "counter() needs a name here",
						Remedy: `write counter("orders"); only generate numbers messages without one`}))
				}
			}
		}
	}
}

// underWay are functions that a test can't use for a message that has arrived.
var underWay = []string{"input", "batcher", "attempt", "received_at", "vars"}

// kept returns the names that steps `let` keep, in all files: a list of steps may be used by other files.
func (l *loader) kept() (names []string) {
	for _, f := range l.files {
		for _, c := range append(runtime.Components(f.spec.Pipeline), runtime.Components(f.spec.Resources.Steps)...) {
			if lines, ok := c.Config.(schema.Map[expr.Value]); ok && c.Type == "let" {
				for name := range lines.All() {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (l *loader) checkVars(c expr.Call, kept []string) {
	name, ok := c.Text(0)
	if !ok || slices.Contains(kept, name) {
		return
	}
	at := c.Args[0]
	p := schema.Problem{Code: "unknown-var", Message: fmt.Sprintf("no step `let` keeps %q", name),
		Remedy: schema.Suggest(name, kept, fmt.Sprintf("write `- let: {%s: …}` before this", name))}
	if at.Secret {
		p.Message, p.Remedy = "no step `let` keeps a value of this name", "write one before this"
	}
	l.report(c.Problem(at.Offset, p))
}

func (l *loader) checkEnvCall(c expr.Call, allowed []string) {
	at := c.Args[0]
	name, ok := c.Text(0)
	switch {
	case !at.Const || !ok:
		l.report(c.Problem(at.Offset, schema.Problem{Code: "unknown-env",
			Message: "env() takes a fixed name: a message must not choose what is read", Remedy: `write env("NAME")`}))
	case at.Secret:
		l.report(c.Problem(at.Offset, schema.Problem{Code: "unknown-env",
			Message: "the name of a variable can't come from a placeholder", Remedy: `write env("NAME")`}))
	case !slices.Contains(allowed, name):
		l.report(c.Problem(at.Offset, schema.Problem{Code: "unknown-env",
			Message: fmt.Sprintf("expressions may not read the environment variable %s", name),
			Remedy:  schema.Suggest(name, allowed, fmt.Sprintf("write `engine: {env: [%s]}`", name))}))
	}
}

// variable matches the names of environment variables.
var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// checkEnv checks the names in `engine.env`.
func (l *loader) checkEnv(f *file) {
	for _, name := range f.spec.Engine.Env {
		if !variable().MatchString(name) {
			l.complain(f.spec.Engine.Place.At("env"), schema.Problem{Code: schema.BadValue,
				Message: fmt.Sprintf("%q is not a valid name of a variable", name), Remedy: "use letters, digits and _"})
		}
	}
}

// environment returns the part of the environment that expressions of the file may read. Values of variables whose names
// indicate a secret are masked everywhere.
func (f *file) environment() engine.Environment {
	env := engine.Environment{}
	lookup := f.decoder.Lookup()
	for _, name := range f.spec.Engine.Env {
		if !variable().MatchString(name) {
			continue
		}
		value, ok, err := lookup(name)
		if err != nil || !ok {
			continue
		}
		env[name] = value
		if patterns := secretPattern(); patterns.isName(name) {
			f.decoder.Secrets().Add(value)
		}
	}
	return env
}
