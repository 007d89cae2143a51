package migrate

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// writeResources writes the resources in use. all: also unused ones of the file itself.
func (t *translator) writeResources(all bool) {
	own := func(kind, name string) bool { return all && t.own(kind, name) }
	for _, kind := range []string{"input", "output"} {
		for _, name := range t.order(kind) {
			if own(kind, name) && !t.used[kind+" "+name] {
				t.says(t.defined[kind][name], fmt.Sprintf("nothing uses the %s %s: it is left out", kind, name))
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, name := range t.order("processor") {
			if !(t.used["processor "+name] || own("processor", name)) || lookup(t.resources["steps"], name) != nil {
				continue
			}
			changed = true
			t.resource("steps", name, t.defineSteps(t.defined["processor"][name]))
		}
	}
	for _, name := range t.order("cache") {
		if t.used["cache "+name] || own("cache", name) {
			t.resource("caches", name, t.cache(name))
		}
	}
	for _, name := range t.order("rate_limit") {
		if t.used["rate_limit "+name] || own("rate_limit", name) {
			t.resource("rate_limits", name, t.rateLimit(name))
		}
	}
	for key := range t.used {
		kind, name, _ := strings.Cut(key, " ")
		if t.defined[kind][name] == nil && (kind == "cache" || kind == "rate_limit") {
			t.note(Untranslated, t.src.root, fmt.Sprintf("the %s %s is not defined in this file",
				strings.ReplaceAll(kind, "_", " "), name))
		}
	}
}

// own reports whether the file itself defines a resource, not another file.
func (t *translator) own(kind, name string) bool {
	for _, item := range items(lookup(t.src.root, kind+"_resources")) {
		if text(item, "label") == name {
			return true
		}
	}
	return lookup(t.src.root, "resources", kind+"s", name) != nil
}

func (t *translator) resource(section, name string, made *yaml.Node) {
	if t.resources[section] == nil {
		t.resources[section] = mapping()
	}
	key := scalar(name)
	key.HeadComment, made.HeadComment = made.HeadComment, ""
	t.resources[section].Content = append(t.resources[section].Content, key, made)
}

// defineSteps translates a processor that is a resource.
func (t *translator) defineSteps(n *yaml.Node) *yaml.Node {
	steps := t.processor(without(n, "label"), ctx{alone: t.inner[text(n, "label")]})
	if t.inner[text(n, "label")] {
		if retried(steps) {
			hoist(nil, steps)
			t.differs(steps[0], n, "it is not tried again by itself, but with the step that it is used in")
		}
	}
	if len(steps) == 0 {
		steps = []*yaml.Node{short("let", mapping("handled", code("true")))}
	}
	made := list(steps...)
	made.HeadComment, steps[0].HeadComment = steps[0].HeadComment, ""
	made.HeadComment = join(made.HeadComment, lostComments(n, []*yaml.Node{made}))
	return made
}

// retried reports whether steps, or steps inside them, are retried.
func retried(steps []*yaml.Node) bool {
	return slices.ContainsFunc(steps, func(s *yaml.Node) bool {
		return has(s, "retry") || slices.ContainsFunc(s.Content, func(n *yaml.Node) bool { return retried(n.Content) })
	})
}

func (t *translator) cache(name string) *yaml.Node {
	n := t.defined["cache"][name]
	t.res.Components.Of++
	before := t.untranslated()
	made := t.cacheParts(name, n)
	adopt(made, n)
	if t.untranslated() == before {
		t.res.Components.Whole++
	}
	return made
}

func (t *translator) cacheParts(name string, n *yaml.Node) *yaml.Node {
	c, why := t.open("cache", n)
	if why != "" {
		return t.lost(n, why)
	}
	c.label = name
	c.entry = components().Caches[c.key.Value]
	if c.entry == nil {
		return t.missing(c, lacking["cache "+c.key.Value])
	}
	t.fill(c)
	return t.close(c)
}

func (t *translator) rateLimit(name string) *yaml.Node {
	n := t.defined["rate_limit"][name]
	t.res.Components.Of++
	c, why := t.open("rate_limit", n)
	if why == "" {
		c.entry = components().RateLimits[c.key.Value]
		if c.entry == nil {
			return t.missing(c, "")
		}
	}
	if why != "" {
		return t.lost(n, why)
	}
	t.res.Components.Whole++
	t.fill(c)
	adopt(c.out, n)
	return c.out
}
