package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// listsFor returns the lists of steps that a file can use: those of all files or, for a test, those of its own
// resources.
func (l *loader) listsFor(f *file) map[string]*engine.StepListNode {
	if l.lists != nil {
		return l.lists
	}
	files := slices.Concat(l.files, l.parts)
	if l.options.Testing {
		files = []*file{l.resourcesOf(f)}
	}
	var lists engine.StepLists
	for _, f := range files {
		if n := f.root.Find("resources", "steps"); n != nil && n.Kind == schema.MapNode {
			for i, key := range n.Keys {
				lists.Define(key.Text, n.Items[i])
			}
		}
	}
	if !l.options.Testing {
		l.lists = lists.Defined
	}
	return lists.Defined
}

// stepLists returns the lists of steps that the file has used so far.
func (f *file) stepLists() *engine.StepLists { return schema.Shared[engine.StepLists](f.decoder) }

// checkLists rejects lists of steps that use themselves, and warns of parameters that their steps do not use.
func (l *loader) checkLists() {
	uses := map[string][]engine.StepListUse{} // by the list that contains them
	for _, f := range l.files {
		for _, u := range f.stepLists().Uses {
			if u.In != "" {
				uses[u.In] = append(uses[u.In], u)
			}
		}
	}
	done := map[string]bool{} // lists that have been searched
	for _, name := range slices.Sorted(maps.Keys(uses)) {
		l.cycles(uses, name, nil, done)
	}
	for _, f := range l.files {
		for name, list := range f.spec.Resources.Steps.All() {
			l.unusedParameters(f.place().At("resources", "steps", name), list)
			l.defaults(f, name)
		}
	}
}

// cycles follows the uses of lists from one list. trail leads to it.
func (l *loader) cycles(uses map[string][]engine.StepListUse, name string, trail []string, done map[string]bool) {
	if done[name] {
		return
	}
	trail = append(slices.Clip(trail), name)
	for _, u := range uses[name] {
		if i := slices.Index(trail, u.List.Name); i >= 0 {
			l.complain(u.At, schema.Problem{Code: "steps-cycle",
				Message: "these steps use themselves: " + strings.Join(append(slices.Clip(trail[i:]), u.List.Name), " → "),
				Remedy:  "remove one of the uses"})
			continue
		}
		l.cycles(uses, u.List.Name, trail, done)
	}
	done[name] = true
}

func (l *loader) unusedParameters(at schema.Place, list engine.StepList) {
	do := at.Node.Find("do")
	if do == nil {
		return
	}
	for name := range list.Parameters.All() {
		uses := func(n *schema.Node) bool { return strings.Contains(n.Text, "${param."+name+"}") }
		if anyText(do, uses) == nil {
			l.complain(at.Key("parameters", name), schema.Problem{Code: "unused-parameter", Warning: true,
				Message: "no step uses this parameter",
				Remedy:  fmt.Sprintf("write ${param.%s} where its value belongs, or remove it", name)})
		}
	}
}

// defaults checks the defaults of a list's parameters: a wrong default is wrong in every use.
func (l *loader) defaults(f *file, name string) {
	list := f.stepLists().Defined[name]
	if list == nil {
		return
	}
	for _, p := range list.Params {
		if p.Default == nil {
			continue
		}
		d := l.decoder(f)
		p.Fits(d, p.Default)
		for _, problem := range d.Problems() {
			problem.Path = schema.Join("resources.steps", name) + ".parameters." + p.Name + ".default"
			l.report(problem)
		}
	}
}

// anyText returns the first key or value at or below n for which is returns true, or nil.
func anyText(n *schema.Node, is func(*schema.Node) bool) *schema.Node {
	if n.Kind != schema.MapNode && n.Kind != schema.ListNode && is(n) {
		return n
	}
	for _, list := range [][]*schema.Node{n.Keys, n.Items} {
		for _, item := range list {
			if found := anyText(item, is); found != nil {
				return found
			}
		}
	}
	return nil
}

// placed moves a problem in a used list of steps to where the mistake is: to the definition, if the list has the
// problem by itself, or to the use whose value causes it.
func (l *loader) placed() {
	p := placer{uses: map[string]engine.StepListUse{}, first: map[string]schema.Pos{}, own: map[string]bool{},
		texts: map[placeInList]*schema.Node{}}
	for _, f := range slices.Concat(l.files, l.parts) {
		for _, u := range f.stepLists().Uses {
			if u.In == "" {
				p.uses[u.At.Path] = u
			}
		}
	}
	if len(p.uses) == 0 {
		return
	}
	for _, problem := range l.problems {
		if _, inside := p.around(problem.Path); !inside {
			p.own[problem.String()] = true
		}
	}
	for i := range l.problems {
		for {
			u, inside := p.around(l.problems[i].Path)
			if !inside || !p.move(&l.problems[i], u) {
				break
			}
		}
	}
}

// placer knows the uses of lists, and the problems of the lists themselves.
type placer struct {
	uses  map[string]engine.StepListUse // by path; files that use a list in the same way share one
	first map[string]schema.Pos         // position of the first use with the same problem
	own   map[string]bool               // problems of a definition, independent of its uses
	texts map[placeInList]*schema.Node
}

type placeInList struct {
	list *engine.StepListNode
	at   schema.Pos
}

// around returns the innermost use whose steps a path leads into.
func (p *placer) around(path string) (u engine.StepListUse, ok bool) {
	for i := strings.LastIndexByte(path, '['); i >= 0; i = strings.LastIndexByte(path[:i], '[') {
		if u, ok = p.uses[path[:i]]; ok {
			break
		}
	}
	return u, ok
}

// move changes the place of a problem inside a use to the definition or, if a value of the use causes the problem, to
// that value. Then again reports that the value may itself be inside another use.
func (p *placer) move(problem *schema.Problem, u engine.StepListUse) (again bool) {
	at := *problem
	at.Path = u.List.Path + strings.TrimPrefix(problem.Path, u.At.Path)
	if p.own[at.String()] {
		*problem = at
		return false
	}
	name, cause, ok := blamed(p.text(u.List, problem.Pos), problem, u)
	if !ok {
		if _, known := p.first[at.String()]; !known {
			p.first[at.String()] = u.At.Pos
		}
		at.Message += fmt.Sprintf(", as it is used at %v", p.first[at.String()])
		*problem = at
		return false
	}
	problem.Message += fmt.Sprintf(", in %s at %v", at.Path, problem.Pos)
	problem.Excerpt, problem.Caret = "", schema.Pos{}
	problem.Pos, problem.Path = u.At.Pos, schema.Join(u.At.Path, u.List.Name)
	if cause != nil {
		problem.Pos, problem.Path = cause.Pos, schema.Join(problem.Path, name)
	}
	return true
}

// text returns the text with parameters at a place of a list, or nil.
func (p *placer) text(list *engine.StepListNode, at schema.Pos) *schema.Node {
	key := placeInList{list, at}
	n, known := p.texts[key]
	if !known {
		n = anyText(list.Do, func(n *schema.Node) bool { return strings.Contains(n.Text, "${param.") && has(n, at) })
		p.texts[key] = n
	}
	return n
}

// blamed returns the parameter that causes a problem in a text, with the value that the use gives. value is nil if
// the use gives none, or if several parameters are possible. ok is false if the text itself is wrong.
func blamed(n *schema.Node, problem *schema.Problem, u engine.StepListUse) (name string, value *schema.Node, ok bool) {
	if n == nil {
		return "", nil, false
	}
	var found []string
	for _, p := range u.List.Params {
		i := strings.Index(n.Text, "${param."+p.Name+"}")
		switch {
		case i < 0:
		case n.At(i) == problem.Pos:
			return p.Name, u.Args[p.Name], true
		default:
			found = append(found, p.Name)
		}
	}
	switch {
	case problem.Code == "expression":
		return "", nil, false
	case len(found) != 1:
		return "", nil, true
	}
	return found[0], u.Args[found[0]], true
}

// has reports whether a place is inside the text of a scalar.
func has(n *schema.Node, at schema.Pos) bool {
	before := func(a, b schema.Pos) bool { return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col }
	return at.File == n.Pos.File && !before(at, n.Pos) && !before(n.At(len(n.Text)), at)
}
