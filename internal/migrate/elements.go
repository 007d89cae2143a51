package migrate

import (
	"slices"

	"gopkg.in/yaml.v3"
)

// elements is the key of processors that work on each element of an array. No component has such a name.
const elements = "unarchive … archive"

// arrays reports whether a processor splits an array into messages, or makes an array of messages.
func (t *translator) arrays(kind string, n *yaml.Node) bool {
	c, why := t.open("processor", n)
	return why == "" && c.key.Value == kind && text(c.config, "format") == "json_array"
}

// paired replaces processors on a copy that split an array and join it again by one.
func (t *translator) paired(all []*yaml.Node) []*yaml.Node {
	var done []*yaml.Node
	packed := false // archive has made the array
	for i := 0; i < len(all); i++ {
		n := all[i]
		if t.arrays("unarchive", n) && !packed {
			if size := slices.IndexFunc(all[i:], func(n *yaml.Node) bool { return t.arrays("archive", n) }); size > 0 {
				one := short(elements, seq(all[i:i+size+1]))
				one.Content[0].Line, one.Content[0].Column = n.Line, n.Column
				one.Line, one.Column = n.Line, n.Column
				done = append(done, one)
				i += size
				continue
			}
		}
		packed = t.arrays("archive", n) || packed && !t.arrays("unarchive", n)
		done = append(done, n)
	}
	return done
}

// eachElement translates such a group.
func eachElement(t *translator, c *component) ([]*yaml.Node, string) {
	all := items(c.config)
	if len(all) < 2 {
		return nil, "an array is taken apart and put together"
	}
	t.res.Components.Of++
	t.res.Components.Whole++
	do := t.processors(seq(all[1:len(all)-1]), c.ctx)
	if len(do) == 0 {
		return []*yaml.Node{}, ""
	}
	step := short("each", mapping("in", code("this"), "do", list(do...)))
	hoist(step, do)
	return []*yaml.Node{step}, ""
}
