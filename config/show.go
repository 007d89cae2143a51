package config

import (
	"slices"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// Show is the pipeline's configuration as it is in force, in YAML, each value
// with its origin: file and line, override, inherited, or default. Secrets are
// masked.
func (l Loaded) Show() string {
	d := l.document
	i := inheritor{origins: l.decoder.Origins(), timeout: d.Engine.Timeout}
	if i.origins["name"] == (schema.Origin{}) {
		i.note("name", "from the file's name")
	}
	d.Processors = i.steps(d.Processors, "processors")
	d.Inputs = eachEntry(d.Inputs, func(name string, in *engine.InputSpec) {
		in.Processors = i.steps(in.Processors, join("inputs", name)+".processors")
	})
	d.Batchers = eachEntry(d.Batchers, func(name string, b *engine.BatcherSpec) {
		b.Processors = i.steps(b.Processors, join("batchers", name)+".processors")
	})
	d.Outputs = eachEntry(d.Outputs, func(name string, out *engine.OutputSpec) {
		at := join("outputs", name)
		i.inherit(&out.Timeout, at+".timeout")
		out.Processors = i.steps(out.Processors, at+".processors")
	})
	return l.decoder.Dump(d)
}

// inheritor fills in what components take from the section `engine`.
type inheritor struct {
	origins map[string]schema.Origin // by path; nil when nothing was written
	timeout time.Duration
}

func (i inheritor) inherit(d *time.Duration, path string) {
	if *d == 0 {
		*d = i.timeout
		i.note(path, "inherited from engine.timeout")
	}
}

func (i inheritor) note(path, origin string) {
	if i.origins != nil {
		i.origins[path] = schema.Origin{Text: origin}
	}
}

func (i inheritor) steps(list engine.Steps, path string) engine.Steps {
	list = slices.Clone(list)
	for n := range list {
		i.inherit(&list[n].Timeout, path+"["+strconv.Itoa(n)+"].timeout")
	}
	return list
}

// eachEntry is a copy of m, each value edited.
func eachEntry[V any](m schema.Map[V], edit func(key string, v *V)) schema.Map[V] {
	entries := slices.Clone(m.Entries())
	for n := range entries {
		edit(entries[n].Key, &entries[n].Value)
	}
	return schema.MapOf(entries...)
}
