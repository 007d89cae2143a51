package singer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
)

// object is a JSON object in a catalog.
type object = map[string]any

// selectStreams returns a catalog in which the streams that match a pattern are selected, and no others.
func selectStreams(catalog []byte, patterns []string) ([]byte, error) {
	var root struct {
		Streams []object `json:"streams"`
	}
	d := json.NewDecoder(bytes.NewReader(catalog))
	d.UseNumber() // numbers keep their digits
	if err := d.Decode(&root); err != nil {
		return nil, engine.Errorf(engine.Decode, "the catalog is not valid: %w", err)
	}
	var names []string
	missing := slices.Clone(patterns)
	for _, s := range root.Streams {
		name, _ := s["stream"].(string)
		id, _ := s["tap_stream_id"].(string)
		names = append(names, cmp.Or(id, name))
		matches := func(pattern string) bool {
			byID, _ := path.Match(pattern, id)
			byName, _ := path.Match(pattern, name)
			return byID || byName
		}
		mark(s, slices.ContainsFunc(patterns, matches))
		missing = slices.DeleteFunc(missing, matches)
	}
	if len(missing) > 0 {
		if len(names) > 20 {
			names = append(names[:20], "…")
		}
		return nil, engine.Errorf(engine.Rejected, "select: no stream matches %q (the catalog has %s)", missing[0],
			cmp.Or(strings.Join(names, ", "), "no streams"))
	}
	return json.Marshal(root)
}

// mark selects or deselects a stream, in the metadata for newer taps and in the schema for older ones. The fields of a selected
// stream are selected as well, unless the catalog says otherwise.
func mark(stream object, selected bool) {
	entries, _ := stream["metadata"].([]any)
	known := map[string]bool{} // by breadcrumb
	for _, item := range entries {
		entry, _ := item.(object)
		metadata, _ := entry["metadata"].(object)
		at, _ := entry["breadcrumb"].([]any)
		switch known[breadcrumb(at)] = true; {
		case metadata == nil:
		case len(at) == 0:
			metadata["selected"] = selected
		case selected:
			choose(metadata)
		}
	}
	add := func(selected bool, at ...any) {
		if !known[breadcrumb(at)] {
			entries = append(entries, object{"breadcrumb": append([]any{}, at...), "metadata": object{"selected": selected}})
		}
	}
	add(selected)
	if old, ok := stream["schema"].(object); ok {
		old["selected"] = selected
		properties, _ := old["properties"].(object)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if property, ok := properties[name].(object); ok && selected {
				choose(property)
				add(property["selected"] == true, "properties", name)
			}
		}
	}
	stream["metadata"] = entries
}

// breadcrumb returns a key for the path of a field.
func breadcrumb(at []any) string {
	key, _ := json.Marshal(append([]any{}, at...))
	return string(key)
}

// choose selects a field, unless the catalog says otherwise.
func choose(field object) {
	if field["selected"] == nil && field["inclusion"] != "unsupported" {
		field["selected"] = true
	}
}
