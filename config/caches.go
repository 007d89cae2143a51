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
		for _, u := range append(uses(f.spec.Pipeline), uses(f.spec.Resources.Steps)...) {
			for _, r := range cacheUses(u) {
				used[meant(r.name, names)] = true
				if owner[r.name] == nil {
					l.report(r.complaint(schema.Problem{Code: "unknown-cache", Message: fmt.Sprintf("resources.caches has no %q", r.name), Remedy: didYouMean(r.name, names, fmt.Sprintf("add %q to `resources.caches`", r.name))}))
				}
			}
		}
	}
	for _, name := range names {
		if !used[name] {
			c := checker{file: owner[name], report: l.report}
			c.complainKey([]string{"resources", "caches", name}, schema.Problem{Code: "unused-cache", Warning: true, Message: "no step uses this cache", Remedy: fmt.Sprintf("use it in `dedupe: {cache: %s, …}` or `cache: {get: %s, …}`, or remove it", name, name)})
		}
	}
}

// cacheUse is a field of a component that names a cache.
type cacheUse struct {
	use
	key, name string
}

var cacheName = reflect.TypeFor[engine.CacheName]()

// cacheUses are the fields of a component's configuration that name a cache.
func cacheUses(u use) (found []cacheUse) {
	v := reflect.ValueOf(u.config)
	if v.Kind() != reflect.Struct {
		return nil
	}
	for i := range v.NumField() {
		if sf := v.Type().Field(i); sf.Type == cacheName && v.Field(i).String() != "" {
			key, _, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
			found = append(found, cacheUse{u, key, v.Field(i).String()})
		}
	}
	return found
}

// complaint is a problem of the field.
func (c cacheUse) complaint(p schema.Problem) schema.Problem { return under(c.place, c.key, p) }
