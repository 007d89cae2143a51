package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/runtime"
	"github.com/flowd-io/flowd/schema"
)

// Reload is like Load for a process that already runs a set. It keeps what has not changed, and the new plans replace
// those of the same name. If one of the problems is an error, nothing is changed. accept is called with valid files before
// anything changes, and its error is a problem, too.
func (s *Set) Reload(paths []string, o Options, accept func(Service) error) (*Set, []schema.Problem) {
	set, problems := Load(paths, o) // built separately, so that nothing of it remains
	if failed(problems) {
		return set, problems
	}
	if err := accept(set.Service); err != nil {
		return set, append(problems, set.loader.placeOf("service").Problem(schema.Problem{Code: "bad-config", Message: err.Error()}))
	}
	o.instead = s
	return Load(paths, o)
}

// placeOf returns the place of a section that belongs to the process.
func (l *loader) placeOf(section string) (at schema.Place) {
	for _, f := range l.files {
		if f.root.Lookup(section) != nil {
			at = f.place().Key(section)
		}
	}
	return at
}

func failed(problems []schema.Problem) bool {
	return slices.ContainsFunc(problems, func(p schema.Problem) bool { return !p.Warning })
}

// before returns the running pipeline with a name, or nil.
func (s *Set) before(name string) *Loaded {
	if s == nil {
		return nil
	}
	for i := range s.Pipelines {
		if p := &s.Pipelines[i]; p.Spec.Name == name && p.Plan != nil {
			return p
		}
	}
	return nil
}

// instead sets the options with which a plan replaces a running one.
func (l *loader) instead(f *file, o runtime.Options) runtime.Options {
	old := l.options.instead.before(f.spec.Name)
	if old == nil {
		return o
	}
	o.Instead = old.Plan
	if c := l.options.change; c != nil && c.afresh {
		return o
	}
	o.Same = func(kind, name string) bool {
		section := kind + "s"
		was, is := old.file.root.Find(section, name), f.root.Find(section, name)
		return was != nil && is != nil && connection(was, old.file.decoder) == connection(is, f.decoder) && f.sameManifests(is, old.file)
	}
	return o
}

// beside are the keys of a component that do not affect its connection.
var beside = map[string]bool{
	"processors": true, "rate_limit": true, "schema": true, "retry": true, "timeout": true, "breaker": true,
	"on_failure": true,
}

// connection returns a text of everything that a component's instance is made of, with placeholders resolved. Equal
// texts make equal instances.
func connection(n *schema.Node, d *schema.Decoder) string {
	var b strings.Builder
	var walk func(n *schema.Node, top bool)
	walk = func(n *schema.Node, top bool) {
		switch n.Kind {
		case schema.MapNode:
			b.WriteByte('{')
			for i, k := range n.Keys {
				if !top || !beside[k.Text] {
					fmt.Fprintf(&b, "%q:", k.Text)
					walk(n.Items[i], false)
				}
			}
			b.WriteByte('}')
		case schema.ListNode:
			b.WriteByte('[')
			for _, x := range n.Items {
				walk(x, false)
			}
			b.WriteByte(']')
		default:
			text, _ := d.Text(n)
			fmt.Fprintf(&b, "%q,", text)
		}
	}
	walk(n, true)
	return b.String()
}
