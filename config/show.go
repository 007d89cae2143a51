package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Show returns the pipeline's configuration in force, in YAML, each value with its origin: file and line, override,
// inherited, or default. Secrets are masked.
func (l Loaded) Show() string {
	d := l.file.spec
	d.Tests = nil // not part of what runs
	i := inheritor{origins: l.file.decoder.Origins(), spec: d.Pipeline}
	if i.origins["name"] == (schema.Origin{}) {
		i.note("name", "from the file's name")
	}
	d.Processors = i.steps(d.Processors, "processors")
	d.Inputs = eachEntry(d.Inputs, func(name string, in *engine.InputSpec) {
		in.Processors = i.steps(in.Processors, schema.Join("inputs", name)+".processors")
	})
	for name, table := range l.file.tables {
		for _, field := range []string{"file", "url"} {
			at := schema.Join("resources.tables", name) + "." + field
			if o := i.origins[at]; o != (schema.Origin{}) {
				i.note(at, o.String()+": "+table)
			}
		}
	}
	d.Batchers = eachEntry(d.Batchers, func(name string, b *engine.BatcherSpec) {
		b.Processors = i.steps(b.Processors, schema.Join("batchers", name)+".processors")
	})
	d.Outputs = eachEntry(d.Outputs, func(name string, out *engine.OutputSpec) {
		at := schema.Join("outputs", name)
		i.timeout(&out.Timeout, at)
		if name != d.Engine.OnFailure.DeadLetter { // dead letters are retried without end
			i.retry(&out.Retry, at, inherited{d.Engine.OnFailure.Retry, "engine.on_failure.retry"})
		}
		out.Processors = i.steps(out.Processors, at+".processors")
	})
	return l.file.decoder.Dump(d)
}

// inheritor fills in what components inherit from the sections `engine` and `defaults`.
type inheritor struct {
	origins map[string]schema.Origin // by path; nil if nothing was written
	spec    engine.Pipeline
}

func (i inheritor) timeout(d *time.Duration, path string) {
	if *d == 0 {
		*d = i.spec.Engine.Timeout
		i.note(path+".timeout", "inherited from engine.timeout")
	}
}

// inherited is a retry that others inherit, and its path.
type inherited struct {
	*engine.Retry
	path string
}

// retry fills in the fields that a retry does not set, from the next one that sets them.
func (i inheritor) retry(r **engine.Retry, path string, from ...inherited) {
	from = slices.DeleteFunc(from, func(f inherited) bool { return f.Retry == nil })
	if len(from) == 0 {
		return
	}
	var all []*engine.Retry
	own := (*schema.Node)(nil)
	if *r != nil {
		all, own = append(all, *r), (*r).Place.Node
	}
	for _, f := range from {
		all = append(all, f.Retry)
	}
	full := engine.Inherited(all...)
	keys := []string{"max_attempts", "backoff", "max_backoff", "max_age"}
	for n := range full.Intervals {
		keys = append(keys, "intervals["+strconv.Itoa(n)+"]")
	}
	for _, key := range keys {
		field, _, _ := strings.Cut(key, "[")
		if own != nil && own.Lookup(field) != nil {
			continue
		}
		for _, f := range from {
			if i.origins[f.path+"."+key] != (schema.Origin{}) {
				i.note(path+".retry."+key, "inherited from "+f.path)
				break
			}
		}
	}
	*r = &full
}

func (i inheritor) note(path, origin string) {
	if i.origins != nil {
		i.origins[path] = schema.Origin{Text: origin}
	}
}

func (i inheritor) steps(list engine.Steps, path string) engine.Steps {
	list = slices.Clone(list)
	for n := range list {
		at := path + "[" + strconv.Itoa(n) + "]"
		switch list[n].Use.Config.(type) {
		case []engine.Case, engine.GroupConfig, engine.UsedSteps: // the steps in these inherit
			continue
		}
		if engine.TraitsOf(list[n].Use.Config).TriesItself {
			continue
		}
		if own := i.spec.Defaults.Processors.Timeout; list[n].Timeout == 0 && own != 0 {
			list[n].Timeout = own
			i.note(at+".timeout", "inherited from defaults.processors.timeout")
		}
		i.timeout(&list[n].Timeout, at)
		i.retry(&list[n].Retry, at, inherited{i.spec.Defaults.Processors.Retry, "defaults.processors.retry"},
			inherited{i.spec.Engine.OnFailure.Retry, "engine.on_failure.retry"})
	}
	return list
}

// eachEntry copies m with each value edited.
func eachEntry[V any](m schema.Map[V], edit func(key string, v *V)) schema.Map[V] {
	entries := slices.Clone(m.Entries())
	for n := range entries {
		edit(entries[n].Key, &entries[n].Value)
	}
	return schema.MapOf(entries...)
}
