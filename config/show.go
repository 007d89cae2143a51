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
	i := inheritor{origins: l.file.decoder.Origins(), timeout: d.Engine.Timeout, all: d.Engine.OnFailure.Retry}
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
		i.inherit(&out.Timeout, at+".timeout")
		if name != d.Engine.OnFailure.DeadLetter { // dead letters are retried without end
			i.retry(&out.Retry, at+".retry")
		}
		out.Processors = i.steps(out.Processors, at+".processors")
	})
	return l.file.decoder.Dump(d)
}

// inheritor fills in what components inherit from the section `engine`.
type inheritor struct {
	origins map[string]schema.Origin // by path; nil if nothing was written
	timeout time.Duration
	all     *engine.Retry // of all steps and outputs; nil if not set
}

func (i inheritor) inherit(d *time.Duration, path string) {
	if *d == 0 {
		*d = i.timeout
		i.note(path, "inherited from engine.timeout")
	}
}

// retry fills in fields that a retry does not set.
func (i inheritor) retry(r **engine.Retry, path string) {
	if i.all == nil {
		return
	}
	full, own := *i.all, (*schema.Node)(nil)
	if *r != nil {
		full, own = (*r).Over(*i.all), (*r).Place.Node
	}
	keys := []string{"max_attempts", "backoff", "max_backoff", "max_age"}
	for n := range full.Intervals {
		keys = append(keys, "intervals["+strconv.Itoa(n)+"]")
	}
	for _, key := range keys {
		field, _, _ := strings.Cut(key, "[")
		if i.origins["engine.on_failure.retry."+key] != (schema.Origin{}) && (own == nil || own.Lookup(field) == nil) {
			i.note(path+"."+key, "inherited from engine.on_failure.retry")
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
		if engine.TraitsOf(list[n].Use.Config).TriesItself {
			continue
		}
		i.inherit(&list[n].Timeout, at+".timeout")
		i.retry(&list[n].Retry, at+".retry")
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
