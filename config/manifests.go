package config

import (
	"path/filepath"
	"slices"

	"github.com/flowd-io/flowd/internal/program/manifest"
	"github.com/flowd-io/flowd/schema"
)

// manifests reads the manifests of plugins, so that the files can use their types.
func (l *loader) manifests() {
	var dirs []manifest.Dir
	for _, path := range l.options.Plugins {
		dirs = append(dirs, manifest.Dir{Path: path})
	}
	for _, f := range slices.Concat(l.files, l.parts) {
		n := f.root.Find("service", "plugins")
		if n == nil || f.managed {
			continue
		}
		at := schema.Place{Node: f.root}.At("service", "plugins")
		for at, path := range textsAt(schema.NewDecoder(l.options.Lookup), at) { // the decoder of the file reports problems
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(f.path), path)
			}
			dirs = append(dirs, manifest.Dir{Path: path, At: at})
		}
	}
	if len(dirs) == 0 {
		return
	}
	set, problems := manifest.Load(dirs)
	l.report(problems...)
	l.reads = append(l.reads, set.Files...)
	l.includes = append(l.includes, set.Files...)
	l.plugins = set
}

// sameManifests reports whether the types in a component have the manifests that they had when another file was read.
func (f *file) sameManifests(n *schema.Node, other *file) bool {
	for i, item := range n.Items {
		if i < len(n.Keys) && f.plugins[n.Keys[i].Text] != other.plugins[n.Keys[i].Text] {
			return false
		}
		if !f.sameManifests(item, other) {
			return false
		}
	}
	return true
}
