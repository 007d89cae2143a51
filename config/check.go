package config

import (
	"fmt"
	"slices"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// check applies the rules that no single field can know: those of a file, then
// those of all files together.
func (l *loader) check() {
	for _, f := range l.files {
		c := checker{file: f, report: l.report}
		c.routes()
		c.failures()
		c.retries()
		c.fill()
		c.middleware()
	}
	l.checkTests()
	if l.options.Testing || len(l.parts) > 0 {
		return // each file is tested alone; what a part lacks is not known
	}
	l.checkNames()
	l.checkProcess("resources")
	l.checkProcess("service")
	l.checkSteps()
	l.checkCaches()
	l.checkLimits()
	l.checkPipes()
	l.checkReplies()
	l.checkEarly()
	l.checkListeners()
	l.checkStdin()
}

// checker applies the rules of one file. It goes by the names in the nodes, so
// that a component with a mistake inside is still one that can be named.
type checker struct {
	*file
	report func(...schema.Problem)
}

// complain reports a problem of the node at a path, such as "engine", "workers"; or, if
// there is none, of the nearest node around it.
func (c *checker) complain(path []string, p schema.Problem) {
	n, at := c.root, ""
	for _, key := range path {
		at = join(at, key)
		if n != nil && n.Kind == schema.MapNode {
			if item := n.Lookup(key); item != nil {
				n = item
			}
		}
	}
	p.Path = at
	c.report(problemAt(n, p))
}

// complainKey is complain, shown at the key instead of the value.
func (c *checker) complainKey(path []string, p schema.Problem) {
	p.Path = ""
	for _, key := range path {
		p.Path = join(p.Path, key)
	}
	c.report(problemAt(keyAt(c.root, path), p))
}

// keyAt is the last key of a path, or the node of the way that there is.
func keyAt(n *schema.Node, path []string) *schema.Node {
	at := n
	for _, name := range path {
		i := keyIndex(n, name)
		if i < 0 {
			return at
		}
		at, n = n.Keys[i], n.Items[i]
	}
	return at
}

func keyIndex(n *schema.Node, name string) int {
	for i, k := range n.Keys {
		if k.Text == name {
			return i
		}
	}
	return -1
}

// names are the keys of a section, in order.
func (c *checker) names(section string) []string {
	n := c.root.Lookup(section)
	if n == nil {
		return nil
	}
	var names []string
	for _, k := range n.Keys {
		names = append(names, k.Text)
	}
	return names
}

// checkNames refuses two pipelines of one name: metrics and logs go by it.
func (l *loader) checkNames() {
	first := map[string]*file{}
	for _, f := range l.files {
		other := first[f.spec.Name]
		if other == nil {
			first[f.spec.Name] = f
			continue
		}
		c := checker{file: f, report: l.report}
		c.complain([]string{"name"}, schema.Problem{Code: "duplicate-name",
			Message: fmt.Sprintf("two pipelines are called %q, this one and the one in %s", f.spec.Name, other.path),
			Remedy:  "rename one of them with `name`; the default is the file's base name"})
	}
}

// checkProcess refuses a second declaration of what belongs to the process.
func (l *loader) checkProcess(section string) {
	var first *schema.Node
	for _, f := range l.files {
		if f.root.Lookup(section) == nil {
			continue
		}
		key := keyAt(f.root, []string{section})
		if first == nil {
			first = key
			continue
		}
		c := checker{file: f, report: l.report}
		c.complainKey([]string{section}, schema.Problem{Code: "declared-twice",
			Message: fmt.Sprintf("`%s` belongs to the process and is already declared, at %v", section, first.Pos),
			Remedy:  "keep it in one file: all pipelines of the process share it"})
	}
}

// middleware refuses names under which nothing is registered.
func (c *checker) middleware() {
	known := engine.Middlewares.Names()
	list := find(c.root, "engine", "middleware")
	for i, name := range c.spec.Engine.Middleware {
		if name == "" || slices.Contains(known, name) || list == nil || i >= len(list.Items) {
			continue // known, or the decoder has complained
		}
		c.report(problemAt(list.Items[i], schema.Problem{Path: fmt.Sprintf("engine.middleware[%d]", i), Code: "unknown-middleware",
			Message: fmt.Sprintf("this build has no middleware %q", name), Remedy: didYouMean(name, known, "use a build that registers it")}))
	}
}

// find is the value at a path, or nil.
func find(n *schema.Node, path ...string) *schema.Node {
	for _, key := range path {
		if n == nil {
			return nil
		}
		n = n.Lookup(key)
	}
	return n
}
