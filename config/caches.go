package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// checkCaches checks the names in fields of type engine.CacheName against
// resources.caches.
func (l *loader) checkCaches() {
	var names []string
	owner := map[string]*file{}
	for _, f := range l.files {
		for _, e := range f.spec.Resources.Caches.Entries() {
			names = append(names, e.Key)
			owner[e.Key] = f
		}
	}
	used := map[string]bool{}
	for _, f := range l.files {
		for _, u := range append(engine.Components(f.spec.Pipeline), engine.Components(f.spec.Resources.Steps)...) {
			for _, r := range cacheUses(u) {
				used[schema.Meant(r.name, names)] = true
				if owner[r.name] == nil {
					l.complain(r.at, schema.Problem{Code: "unknown-cache", Message: fmt.Sprintf("resources.caches has no %q", r.name), Remedy: schema.Suggest(r.name, names, fmt.Sprintf("add %q to `resources.caches`", r.name))})
				}
			}
		}
	}
	for _, name := range names {
		if !used[name] {
			l.complain(owner[name].top().Key("resources", "caches", name), schema.Problem{Code: "unused-cache", Warning: true, Message: "no step uses this cache", Remedy: fmt.Sprintf("use it by `dedupe: {cache: %s, …}` or `cache: {get: %s, …}`, or remove it", name, name)})
		}
	}
}

// cacheUse is a field of a component that names a cache.
type cacheUse struct {
	at   schema.Place
	name string
}

var cacheName = reflect.TypeFor[engine.CacheName]()

// cacheUses are the fields of a component's configuration that name a cache.
func cacheUses(c engine.Component) (found []cacheUse) {
	v := reflect.ValueOf(c.Config)
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if sf := v.Type().Field(i); sf.Type == cacheName && v.Field(i).String() != "" {
			key, _, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
			found = append(found, cacheUse{c.Place.At(key), v.Field(i).String()})
		}
	}
	return found
}
