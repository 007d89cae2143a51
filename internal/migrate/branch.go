package migrate

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

var (
	intoField = pattern(`^\s*root\.([A-Za-z_][\w.]*)\s*=\s*(.+?)\s*$`)
	intoRoot  = pattern(`^\s*root\s*=\s*this\s*$`)
	emptyText = pattern(`^\s*root\s*=\s*""\s*$`)
)

// branch translates steps that run on a copy.
func branch(t *translator, c *component) ([]*yaml.Node, string) {
	return t.branch(c.config, c.label, c.ctx), ""
}

// hoist moves `retry` from steps to the step around them, which retries all of its inner steps.
func hoist(around *yaml.Node, steps []*yaml.Node) {
	for _, s := range steps {
		if r := lookup(s, "retry"); r != nil {
			drop(s, "retry")
			if around != nil && !has(around, "retry") {
				put(around, "retry", r)
			}
		}
		for _, p := range pairsOf(s) {
			switch p.key.Value {
			case "steps":
				hoist(around, items(p.value))
			case "branch", "while", "each":
				hoist(around, items(lookup(p.value, "do")))
			case "switch":
				for _, one := range items(p.value) {
					hoist(around, items(lookup(one, "do")))
				}
			case "parallel":
				for _, one := range pairsOf(p.value) {
					hoist(around, items(one.value))
				}
			}
		}
	}
}

// joins reports whether processors merge messages.
func joins(list []*yaml.Node) bool {
	return slices.ContainsFunc(list, func(n *yaml.Node) bool { return has(n, "archive") })
}

// request translates the mapping that makes the copy. document says that it is known to be a document.
func (t *translator) request(body, at *yaml.Node, document bool, where ctx) []*yaml.Node {
	if simple := !strings.Contains(at.Value, "deleted()") && !strings.Contains(at.Value, "meta") &&
		!strings.Contains(at.Value, "throw("); simple {
		expr, notes := bloblang.Query(at.Value, t.blob(where))
		if len(notes) == 0 && len(expr) < 200 {
			if emptyText().MatchString(at.Value) {
				expr = `""`
			}
			if document || expr == "this" || strings.HasPrefix(expr, "{") && closing(expr[1:]) == len(expr)-2 ||
				strings.HasPrefix(expr, "[") && closing(expr[1:]) == len(expr)-2 {
				put(body, "in", code(expr))
				return nil
			}
			return []*yaml.Node{short("payload", code(expr))} // text stays unchanged
		}
	}
	return t.blobSteps(at.Value, at, where, bloblang.NewDocument, "")
}

// result translates the mapping that puts the result into the message. after are steps after the branch.
func (t *translator) result(body, at *yaml.Node, do []*yaml.Node, label string, where ctx) (all, after []*yaml.Node) {
	src := strings.TrimSpace(at.Value)
	if intoRoot().MatchString(src) {
		return do, nil
	}
	if m := intoField().FindStringSubmatch(src); m != nil && !strings.Contains(m[2], "root") &&
		!strings.Contains(m[2], "\n") && !strings.Contains(m[2], "deleted()") {
		switch m[2] {
		case "this":
		case "content().string()", "content()":
			do = append(do, short("map", code("raw()")))
		default:
			head := mapping()
			expr := t.query(head, at, m[2], where)
			step := short("map", code(expr))
			step.HeadComment = head.HeadComment
			do = append(do, step)
		}
		put(body, "into", scalar(m[1]))
		return do, nil
	}
	field := "branch_result"
	if label != "" {
		field = label + "_result"
	}
	put(body, "into", scalar(field))
	if strings.Contains(src, "meta") || strings.Contains(src, "@") {
		t.differs(body, at, "metadata of the copy stays there: what is read here is that of the message")
	}
	after = t.blobSteps(at.Value, at, where, bloblang.InPlace, field)
	return do, append(after, short("unset", field))
}

// workflow translates branches that run in tiers.
func workflow(t *translator, c *component) ([]*yaml.Node, string) {
	branches := map[string]*yaml.Node{}
	var names []string
	for _, p := range pairsOf(lookup(c.config, "branches")) {
		branches[p.key.Value] = p.value
		names = append(names, p.key.Value)
	}
	for _, item := range items(lookup(c.config, "branch_resources")) {
		names = append(names, item.Value)
	}
	tiers := [][]string{}
	order := items(lookup(c.config, "order"))
	for _, tier := range order {
		var one []string
		for _, item := range items(tier) {
			one = append(one, item.Value)
		}
		tiers = append(tiers, one)
	}
	if len(order) == 0 {
		tiers = dependencies(names, func(name string) *yaml.Node {
			if b := branches[name]; b != nil {
				return b
			}
			return lookup(t.defined["processor"][name], "branch")
		})
	}
	of := func(name string) []*yaml.Node {
		if b := branches[name]; b != nil {
			steps := t.branch(b, name, c.ctx)
			adoptAll(steps, b)
			return steps
		}
		if t.use("processor", name) != nil {
			return []*yaml.Node{short("steps", name)}
		}
		return []*yaml.Node{t.lost(&yaml.Node{Kind: yaml.ScalarNode, Value: name, Line: c.key.Line, Column: c.key.Column},
			fmt.Sprintf("branch %s is not defined in this file", name))}
	}
	steps := []*yaml.Node{}
	for _, tier := range tiers {
		if len(tier) == 1 {
			steps = append(steps, of(tier[0])...)
			continue
		}
		all := mapping()
		step := mapping()
		for _, name := range tier {
			t.inner[name] = true
			inside := of(name)
			hoist(step, inside)
			put(all, name, list(inside...))
		}
		kept := step.Content
		step.Content = nil
		put(step, "parallel", all)
		step.Content = append(step.Content, kept...)
		steps = append(steps, step)
	}
	if path := lookup(c.config, "meta_path"); len(steps) > 0 && (path == nil || path.Value != "") {
		t.differs(steps[0], c.key, "the document does not get an account of which branches ran (meta_path)")
	}
	return steps, ""
}

var (
	readsPath  = pattern(`\bthis((?:\.\w+)+)`)
	writesPath = pattern(`(?m)^\s*root((?:\.\w+)+)\s*=`)
)

// dependencies puts branches into tiers: a branch that reads another's result comes after it.
func dependencies(names []string, of func(string) *yaml.Node) [][]string {
	paths := func(re *regexp.Regexp, text string) (all []string) {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
		}
		return all
	}
	needs := map[string][]string{}
	for _, name := range names {
		reads := paths(readsPath(), text(of(name), "request_map"))
		for _, other := range names {
			writes := paths(writesPath(), text(of(other), "result_map"))
			if other != name && slices.ContainsFunc(reads, func(r string) bool {
				return slices.ContainsFunc(writes, func(w string) bool {
					return strings.HasPrefix(r+".", w+".") || strings.HasPrefix(w+".", r+".")
				})
			}) {
				needs[name] = append(needs[name], other)
			}
		}
	}
	var tiers [][]string
	done := map[string]bool{}
	for len(done) < len(names) {
		var tier []string
		for _, name := range names {
			if !done[name] && !slices.ContainsFunc(needs[name], func(n string) bool { return !done[n] }) {
				tier = append(tier, name)
			}
		}
		if len(tier) == 0 { // a cycle: in the order written
			for _, name := range names {
				if !done[name] {
					tier = append(tier, name)
				}
			}
			for _, name := range tier {
				tiers = append(tiers, []string{name})
			}
			return tiers
		}
		for _, name := range tier {
			done[name] = true
		}
		tiers = append(tiers, tier)
	}
	return tiers
}
