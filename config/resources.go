package config

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// reference is a place that names a resource.
type reference struct {
	at   schema.Place
	name string
}

// section is a section of `resources`, with the problems of its names.
type section struct {
	name    string                  // "caches"
	unknown string                  // the code of a name that does not exist
	unused  schema.Problem          // of a name that nobody uses; %[1]s is the name
	uses    func(v any) []reference // the references in a pipeline or a list of steps
}

var sectionsOfResources = []section{
	{"caches", "unknown-cache", schema.Problem{Code: "unused-cache", Message: "no step uses this cache",
		Remedy: "use it in `dedupe: {cache: %[1]s, …}` or `cache: {get: %[1]s, …}`, or remove it"}, cacheUses},
	{"registries", "unknown-registry", schema.Problem{Code: "unused-registry", Message: "no step uses this registry",
		Remedy: "use it in `decode: {avro: {registry: %[1]s}}`, or remove it"}, registryUses},
	{"rate_limits", "unknown-limit", schema.Problem{Code: "unused-limit", Message: "nothing uses this limit",
		Remedy: "name it with `rate_limit: %[1]s` in an input, an output, a step or `engine`, or remove it"},
		limitUses},
	{"steps", "unknown-steps", schema.Problem{Code: "unused-steps", Message: "no pipeline uses these steps",
		Remedy: "use them with `- steps: %[1]s`, or remove them"}, stepUses},
}

// checkResources checks that every name exists and that every resource is used. Steps are used if a pipeline uses
// them, directly or through other steps.
func (l *loader) checkResources(s section) {
	var names []string
	var keys []schema.Place // of the names
	for _, f := range l.files {
		if n := f.root.Find("resources", s.name); n != nil {
			for _, key := range n.Keys {
				at := f.place().Key("resources", s.name, key.Text)
				if i := slices.Index(names, key.Text); i < 0 {
					names, keys = append(names, key.Text), append(keys, at)
				} else if first := keys[i].Node; first.Pos.File != key.Pos.File {
					l.report(key.Problem(twice(s.name, key, first)))
				}
			}
		}
	}
	used := map[string]bool{}
	use := func(v any) {
		for _, r := range s.uses(v) {
			used[schema.Meant(r.name, names)] = true
		}
	}
	for _, f := range l.files {
		use(f.spec.Pipeline)
		if s.name != "steps" {
			use(f.spec.Resources.Steps)
		}
		for _, r := range append(s.uses(f.spec.Pipeline), s.uses(f.spec.Resources.Steps)...) {
			if !slices.Contains(names, r.name) {
				l.complain(r.at, schema.Problem{Code: s.unknown,
					Message: fmt.Sprintf("resources.%s has no %q", s.name, r.name),
					Remedy: cmp.Or(asRate(s.name, r.name),
						schema.Suggest(r.name, names, fmt.Sprintf("add %q to `resources.%s`", r.name, s.name)))})
			}
		}
	}
	for i, name := range names {
		if !used[name] {
			p := s.unused
			p.Warning, p.Remedy = true, fmt.Sprintf(p.Remedy, name)
			l.complain(keys[i], p)
		}
	}
}

// stepUses returns the places in v that use a named list of steps.
func stepUses(v any) (found []reference) {
	for _, c := range runtime.Components(v) {
		if c.Kind == engine.Processors.Kind() && c.Type == "steps" && c.Refers() != "" {
			found = append(found, reference{c.Place, c.Refers()})
		}
	}
	return found
}

var (
	cacheName    = reflect.TypeFor[engine.CacheName]()
	registryName = reflect.TypeFor[engine.RegistryName]()
)

// cacheUses returns the fields in v that name a cache.
func cacheUses(v any) (found []reference) {
	for _, c := range runtime.Components(v) {
		found = append(found, fieldsOf(cacheName, reflect.ValueOf(c.Config), c.Place)...)
	}
	return found
}

// registryUses returns the fields in v that name a registry.
func registryUses(v any) (found []reference) {
	for _, c := range runtime.Components(v) {
		found = append(found, fieldsOf(registryName, reflect.ValueOf(c.Config), c.Place)...)
	}
	return found
}

// fieldsOf returns the fields of a type in config, including embedded and nested structs.
func fieldsOf(of reflect.Type, config reflect.Value, at schema.Place) (found []reference) {
	if config.Kind() != reflect.Struct {
		return nil
	}
	for field, value := range config.Fields() {
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch {
		case field.Type == of && value.String() != "":
			found = append(found, reference{at.At(key), value.String()})
		case field.Anonymous && field.Type.Kind() == reflect.Struct: // inlined
			found = append(found, fieldsOf(of, value, at)...)
		case field.Type.Kind() == reflect.Pointer && field.IsExported() && !value.IsNil():
			found = append(found, fieldsOf(of, value.Elem(), at.At(key))...)
		}
	}
	return found
}

// limitUses returns the places in v that name a rate limit.
func limitUses(v any) (found []reference) {
	schema.Walk(v, func(x reflect.Value) {
		if r, ok := reflect.TypeAssert[engine.RateLimit](x); ok && r.Place.Node != nil && r.Name != "" {
			at := r.Place
			if at.Node.Find("name") != nil {
				at = at.At("name")
			}
			found = append(found, reference{at, r.Name})
		}
	})
	return found
}

// rate matches a limit in short, which is not the name of one: 100/s.
var rate = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\d+)(?:\s*/\s*(?:(s)|(m)|(h))\w*)?$`) })

// asRate is the remedy for a rate in place of the name of a rate limit, or "".
func asRate(section, name string) string {
	m := rate().FindStringSubmatch(name)
	if section != "rate_limits" || m == nil {
		return ""
	}
	return fmt.Sprintf("write {messages: %s, per: 1%s}", m[1], cmp.Or(m[2], m[3], m[4], "s"))
}
