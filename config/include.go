package config

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/schema"
)

// included is a file that another one includes.
type included struct {
	path string
	root *schema.Node
	into *file
}

// include adds to each file the resources of the files that it includes. A file that another one includes is not a
// pipeline, even if it is in the same directory.
func (l *loader) include() {
	parts := map[string]bool{}
	for _, f := range l.files {
		i := &includer{loader: l, into: f, seen: map[string]bool{}}
		i.all(f.path, f.root, []string{f.path})
		for path := range i.seen {
			parts[path] = true
		}
	}
	l.files = slices.DeleteFunc(l.files, func(f *file) bool { return parts[absolute(f.path)] && !pipeline(f.root) })
}

// pipeline reports whether a file has sections that an included file may not have.
func pipeline(root *schema.Node) bool {
	return slices.ContainsFunc(root.Keys, func(k *schema.Node) bool { return !includable(k.Text) })
}

func includable(section string) bool {
	return section == "resources" || section == "include" || strings.HasPrefix(section, "x-")
}

// absolute returns an absolute path, or path itself if that is not possible.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// includer collects what one file includes, directly or indirectly, each file once.
type includer struct {
	*loader
	into *file
	seen map[string]bool // absolute paths
}

// textsAt yields the texts of a list, or a single text, with their places. Empty texts are left out, and so are values that are
// not texts, which d reports.
func textsAt(d *schema.Decoder, at schema.Place) iter.Seq2[schema.Place, string] {
	return func(yield func(schema.Place, string) bool) {
		places := []schema.Place{at}
		if at.Node.Kind == schema.ListNode {
			places = nil
			for i := range at.Node.Items {
				places = append(places, at.Item(i))
			}
		}
		for _, at := range places {
			if text, ok := d.Text(at.Node); ok && text != "" && !yield(at, text) {
				return
			}
		}
	}
}

// all includes the files that a file names. trail leads to it from the pipeline's own file.
func (i *includer) all(path string, root *schema.Node, trail []string) {
	at := schema.Place{Node: root}.At("include")
	n := root.Lookup("include")
	if n == nil {
		return
	}
	d := schema.NewDecoder(i.options.Lookup)
	for at, name := range textsAt(d, at) {
		i.entry(filepath.Dir(path), name, at, trail)
	}
	if path == i.into.path {
		return // the decoder reports it
	}
	for _, p := range d.Problems() {
		p.Path = "include"
		i.report(p)
	}
}

// entry includes the files of one entry, which may be a pattern.
func (i *includer) entry(dir, name string, at schema.Place, trail []string) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if !strings.ContainsAny(name, "*?[") {
		i.one(name, at, trail)
		return
	}
	i.includes = append(i.includes, name)
	i.reads = append(i.reads, filepath.Dir(name)+"/")
	found, err := filepath.Glob(name)
	if err != nil {
		i.complain(at, schema.Problem{Code: "bad-include", Message: fmt.Sprintf("%q is not a valid pattern", at.Node.Text),
			Remedy: "write, for example, parts/*.yaml"})
		return
	}
	found = slices.DeleteFunc(found, func(path string) bool { // a pattern such as *.yaml does not mean the file itself
		return strings.HasPrefix(filepath.Base(path), ".") || absolute(path) == absolute(trail[len(trail)-1])
	})
	if len(found) == 0 {
		i.complain(at, schema.Problem{Code: "bad-include", Warning: true, Message: "no file matches",
			Remedy: "check the path: it is relative to this file"})
	}
	for _, path := range found {
		i.one(path, at, trail)
	}
}

// one includes one file.
func (i *includer) one(path string, at schema.Place, trail []string) {
	abs := absolute(path)
	bad := func(message, remedy string) {
		i.complain(at, schema.Problem{Code: "bad-include", Message: message, Remedy: remedy})
	}
	for k, outer := range trail {
		if absolute(outer) == abs {
			bad("these files include themselves: "+strings.Join(append(slices.Clip(trail[k:]), path), " → "),
				"remove one of the includes")
			return
		}
	}
	if i.seen[abs] {
		return
	}
	i.seen[abs] = true
	i.includes = append(i.includes, path)
	i.readsGiven(path)
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		bad(fmt.Sprintf("%s is a directory", path), "write "+filepath.Join(at.Node.Text, "*.yaml"))
		return
	}
	if err == nil && !info.Mode().IsRegular() {
		bad(fmt.Sprintf("%s is not a regular file", path), "give a file that can be read")
		return
	}
	data, err := readCapped(path, yamltext.MaxFile+1)
	if err != nil {
		p := unreadableBecause(path, err)
		bad(fmt.Sprintf("%s: %s", path, p.Message), p.Remedy)
		return
	}
	root, problems := yamltext.Parse(path, data)
	if root == nil {
		i.torn = true
		for k := range problems {
			if c := problems[k].Code; c == "empty-file" || c == "not-a-pipeline" {
				problems[k].Message, problems[k].Remedy = "the file contains no resources", "begin with `resources:`"
			}
		}
	}
	i.report(problems...)
	if root == nil {
		return
	}
	i.included = append(i.included, included{path, root, i.into})
	i.merge(root)
	i.all(path, root, append(slices.Clip(trail), path))
}

// merge adds the resources of a file to those of the pipeline's file.
func (i *includer) merge(root *schema.Node) {
	at := schema.Place{Node: root}
	for k, key := range root.Keys {
		if !includable(key.Text) {
			remedy := "write it in the pipeline's own file"
			if near := schema.Nearest(key.Text, []string{"resources", "include"}); near != "" {
				remedy = fmt.Sprintf("did you mean %q?", near)
			}
			i.complain(at.Key(key.Text), schema.Problem{Code: "bad-include", Remedy: remedy,
				Message: fmt.Sprintf("an included file may have `resources`, but not `%s`", key.Text)})
		}
		if key.Text != "resources" {
			continue
		}
		own := i.into.root.Lookup("resources")
		if own == nil {
			own = &schema.Node{Kind: schema.MapNode, Pos: root.Items[k].Pos, Excerpt: root.Items[k].Excerpt}
			i.into.root.Keys, i.into.root.Items = append(i.into.root.Keys, key), append(i.into.root.Items, own)
			i.into.resourcesOnlyIncluded = true
		}
		i.sections(own, root.Items[k])
	}
}

// sections adds sections of resources to the existing ones.
func (i *includer) sections(own, more *schema.Node) {
	if more.Kind != schema.MapNode || own.Kind != schema.MapNode {
		if len(own.Keys) == 0 { // the decoder reports it
			own.Kind, own.Keys, own.Items, own.Text = more.Kind, more.Keys, more.Items, more.Text
		}
		return
	}
	for k, key := range more.Keys {
		section, is := more.Items[k], own.Lookup(key.Text)
		switch {
		case is == nil:
			fresh := *section // a copy, so that additions do not appear in the other file
			fresh.Keys, fresh.Items = slices.Clone(section.Keys), slices.Clone(section.Items)
			own.Keys, own.Items = append(own.Keys, key), append(own.Items, &fresh)
		case is.Kind == schema.MapNode && section.Kind == schema.MapNode:
			i.names(key.Text, is, section)
		case section.Kind != schema.NullNode:
			i.report(section.Problem(schema.Problem{Code: schema.WrongKind, Path: "resources." + key.Text,
				Message: "expected a mapping, got " + section.Kind.String(), Remedy: "write {NAME: …}"}))
		}
	}
}

// names adds the entries of a section. Each name must be new.
func (i *includer) names(section string, own, more *schema.Node) {
	for k, key := range more.Keys {
		if n := slices.IndexFunc(own.Keys, func(o *schema.Node) bool { return o.Text == key.Text }); n >= 0 {
			i.report(key.Problem(twice(section, key, own.Keys[n])))
			continue
		}
		own.Keys, own.Items = append(own.Keys, key), append(own.Items, more.Items[k])
	}
}

// twice returns the problem of a second resource with the same name.
func twice(section string, key, first *schema.Node) schema.Problem {
	return schema.Problem{Code: "declared-twice", Path: schema.Join("resources."+section, key.Text),
		Message: fmt.Sprintf("resources.%s already has %q, at %v", section, key.Text, first.Pos),
		Remedy:  "rename or remove one of them: all pipelines of the process share them"}
}
