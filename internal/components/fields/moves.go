package fields

import (
	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/schema"
)

// Moves is a config field with `{from: to}` pairs of paths, in the order written.
type Moves []Move

// Move is one pair.
type Move struct{ From, To doc.Path }

// UnmarshalConfig decodes a mapping of paths to paths.
func (m *Moves) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	var to schema.Map[target]
	d.Decode(n, &to)
	needsLine(d, n, "old.path: new.path")
	*m = make(Moves, 0, to.Len())
	for _, e := range to.Entries() {
		*m = append(*m, Move{From: inside(d, key(n, e.Key), e.Key), To: e.Value.Path})
	}
}

// target is the path of a part of the document, not of the whole.
type target struct{ doc.Path }

// UnmarshalConfig decodes a path.
func (t *target) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	if text, ok := d.Text(n); ok {
		t.Path = inside(d, n, text)
	}
}

// DescribeConfig describes text.
func (t *target) DescribeConfig() *schema.Type { return (&Path{}).DescribeConfig() }

// DescribeConfig describes a mapping of paths.
func (m *Moves) DescribeConfig() *schema.Type { return schema.Of(schema.Map[Path]{}) }

// needsLine reports an empty mapping.
func needsLine(d *schema.Decoder, n *schema.Node, form string) {
	if n.Kind == schema.MapNode && len(n.Keys) == 0 {
		d.Report(n, schema.Problem{Code: schema.Required, Message: "needs at least one line", Remedy: "write " + form})
	}
}
