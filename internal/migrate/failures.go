package migrate

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// repair reports whether a processor only handles failed messages, and returns its steps. at is the node for notes.
func (t *translator) repair(item *yaml.Node, c ctx) (repair []*yaml.Node, at *yaml.Node, ok bool) {
	opened, why := t.open("processor", item)
	if why != "" {
		return nil, nil, false
	}
	c.catch = true
	switch opened.key.Value {
	case "catch":
		t.res.Components.Whole++
		t.res.Components.Of++
		return t.processors(opened.config, c), opened.key, true
	case "mapping", "bloblang", "mutation":
		if dropsErrors().MatchString(opened.config.Value) {
			t.res.Components.Whole++
			t.res.Components.Of++
			return []*yaml.Node{short("filter", code("false"))}, opened.key, true
		}
	case "switch":
		cases := opened.config
		if inner := lookup(cases, "cases"); inner != nil {
			cases = inner
		}
		if all := items(cases); len(all) == 1 && strings.TrimSpace(text(all[0], "check")) == "errored()" {
			t.res.Components.Whole++
			t.res.Components.Of++
			return t.processors(lookup(all[0], "processors"), c), opened.key, true
		}
	}
	return nil, nil, false
}

// guard combines steps into one step with on_error. changed says that steps before the last processor change
// messages.
func (t *translator) guard(steps, repair []*yaml.Node, item *yaml.Node, changed bool) *yaml.Node {
	var on *yaml.Node
	switch {
	case len(repair) == 0:
		on = scalar("continue")
	case len(repair) == 1 && text(repair[0], "filter") == "false" && len(commentsOf(repair[0])) == 0:
		on = scalar("drop")
	default:
		on = list(repair...)
	}
	one := steps
	if len(steps) == 1 && lookup(steps[0], "on_error") == nil && !has(steps[0], "untranslated") {
		put(steps[0], "on_error", on)
	} else {
		one = []*yaml.Node{mapping("steps", list(steps...), "on_error", on)}
		if !dropsEverything(repair) && changed {
			t.differs(one[0], item, "a message that fails in one of these steps is repaired as it was before the first of "+
				"them, not as it was before the one that failed")
		}
	}
	adopt(one[0], item)
	return one[0]
}

func dropsEverything(repair []*yaml.Node) bool {
	return len(repair) > 0 && text(repair[len(repair)-1], "filter") == "false"
}

// changes reports whether steps change messages.
func changes(steps []*yaml.Node) bool {
	return slices.ContainsFunc(steps, func(s *yaml.Node) bool {
		return !slices.ContainsFunc([]string{"filter", "log", "metric", "fail", "rate_limit", "sleep", "let", "dedupe",
			"validate"}, func(same string) bool { return has(s, same) })
	})
}
