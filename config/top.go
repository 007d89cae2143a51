package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// sectionWords are names that other systems give to a section of the same shape.
var sectionWords = map[string]string{
	"input": "inputs", "source": "inputs", "sources": "inputs", "output": "outputs", "sink": "outputs",
	"sinks":     "outputs",
	"processor": "processors", "transforms": "processors", "steps": "processors", "batcher": "batchers",
}

// top removes the top-level keys for anchors, x-NAME. It reads a misspelt section under the name that is meant, so
// that its content is checked, too.
func (l *loader) top(f *file) {
	n := f.root
	if n.Kind != schema.MapNode {
		return
	}
	for i := len(n.Keys) - 1; i >= 0; i-- {
		if strings.HasPrefix(n.Keys[i].Text, "x-") {
			n.Keys, n.Items = slices.Delete(n.Keys, i, i+1), slices.Delete(n.Items, i, i+1)
		}
	}
	known := schema.Of(document{}).Keys()
	for _, key := range n.Keys {
		if slices.Contains(known, key.Text) {
			continue
		}
		meant := cmp.Or(sectionWords[key.Text], schema.Nearest(key.Text, known))
		if meant == "" || n.Lookup(meant) != nil {
			continue // the decoder reports it
		}
		p := schema.Problem{Code: schema.UnknownField, Message: fmt.Sprintf("unknown field %q", key.Text),
			Remedy: fmt.Sprintf("did you mean %q?", meant)}
		peerWord(&p, key.Text)
		l.report(key.Problem(p))
		key.Text = meant
	}
}
