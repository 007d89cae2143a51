package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/schema"
)

// UsedSteps is a config field: the name of a list of `resources.steps`, with values for its parameters, or the steps
// themselves. Do has the steps in both cases.
type UsedSteps struct {
	Name  string // of the list; "": the steps are written here
	Do    Steps
	Found bool // there is such a list
	Place schema.Place
}

// UnmarshalConfig reads NAME, {NAME: {PARAMETER: value}} or a list of steps. It decodes the steps of a named list as if they
// were written at the place of use.
func (u *UsedSteps) UnmarshalConfig(d *schema.Decoder, n *schema.Node) {
	u.Place = d.Place(n)
	key, args := n, (*schema.Node)(nil)
	switch n.Kind {
	case schema.ListNode:
		u.Found = true
		d.Decode(n, &u.Do)
		return
	case schema.MapNode:
		if len(n.Keys) != 1 {
			d.Report(n, schema.Problem{Code: schema.WrongKind,
				Message: fmt.Sprintf("expected the name of one list, got a mapping of %d keys", len(n.Keys)),
				Remedy:  "write {NAME: {PARAMETER: value}}"})
			return
		}
		key, args = n.Keys[0], n.Items[0]
		u.Name = key.Text
		if strings.Contains(u.Name, "${") {
			d.Report(key, schema.Problem{Code: schema.PlaceholderInKey,
				Message: fmt.Sprintf("a placeholder in the key %q is not replaced", u.Name), Remedy: "write the name of the list"})
			u.Name = ""
			return
		}
	default:
		var ok bool
		if u.Name, ok = d.Text(n); !ok {
			return
		}
	}
	lists := schema.Shared[StepLists](d)
	list := lists.Defined[u.Name]
	if list == nil || list.Do == nil {
		return // the check of names, or building the step, reports it
	}
	u.Found = true
	lists.use(d, u, list, key, args)
}

// DescribeConfig describes a name, a name with values, or a list of steps.
func (u *UsedSteps) DescribeConfig() *schema.Type {
	return schema.AnyOf("NAME, {NAME: {PARAMETER: value}} or list of steps", "",
		map[string]map[string]*schema.Node(nil), Steps(nil))
}

// ShowConfig shows the steps.
func (u UsedSteps) ShowConfig() (instead any, comment string) {
	switch {
	case len(u.Do) == 0:
		return nil, ""
	case u.Name == "":
		return u.Do, ""
	}
	return u.Do, u.Name + ", " + schema.Origin{Pos: u.Place.Pos}.String()
}

// use decodes the steps of a list for one use of it.
func (l *StepLists) use(d *schema.Decoder, u *UsedSteps, list *StepListNode, key, args *schema.Node) {
	given := l.given(d, list, key, args)
	in := ""
	if d.Params() != nil && d.Params().Defines {
		in = d.Params().Of
	}
	l.Uses = append(l.Uses, StepListUse{At: u.Place, List: list, In: in, Args: given})
	if in != "" {
		return // the list is decoded where that definition is used
	}
	if slices.Contains(l.open, list.Name) {
		return // a cycle: the check of names reports it
	}
	if l.size += list.nodes; l.size > mostListNodes {
		if len(l.open) == 0 {
			l.reportSize(d, key)
		}
		return
	}
	l.open = append(l.open, list.Name)
	defer func() {
		if l.open = l.open[:len(l.open)-1]; l.size > mostListNodes && len(l.open) == 0 {
			l.reportSize(d, key)
		}
	}()
	d.DecodeAt(u.Place.Node, list.bound(d, given), &u.Do)
}

// bound are the steps of the list with values for its parameters.
func (l *StepListNode) bound(d *schema.Decoder, given map[string]*schema.Node) *schema.Node {
	params := &schema.Params{Of: l.Name, By: map[string]schema.Param{}, Outer: d.Params()}
	for _, p := range l.Params {
		v := schema.Param{Value: p.Default, As: p.As, Bare: true}
		if arg, ok := given[p.Name]; ok {
			v.Value, v.Bare = arg, false
		}
		params.By[p.Name] = v
	}
	if len(params.By) > 0 {
		return d.Bind(l.Do, params)
	}
	steps := *l.Do // a shallow copy: the nodes inside are shared
	steps.Params = params
	return &steps
}

// reportSize reports once that the expanded lists are too large.
func (l *StepLists) reportSize(d *schema.Decoder, key *schema.Node) {
	if !l.told {
		d.Report(key, schema.Problem{Code: "steps-expand",
			Message: fmt.Sprintf("these steps, with named lists expanded, have more than %d values", mostListNodes),
			Remedy:  "lists that use lists multiply: use fewer lists inside others"})
	}
	l.told = true
}

// given are the values that a use gives, by name. A value that is not valid is nil.
func (l *StepLists) given(d *schema.Decoder, list *StepListNode, key, args *schema.Node) map[string]*schema.Node {
	given := map[string]*schema.Node{}
	switch {
	case args == nil || args.Kind == schema.NullNode:
	case args.Kind != schema.MapNode:
		d.Report(args, schema.Problem{Code: schema.WrongKind,
			Message: "expected values for parameters, got " + args.Kind.String(),
			Remedy:  fmt.Sprintf("write {%s: {PARAMETER: value}}", list.Name)})
		return given
	default:
		for i, k := range args.Keys {
			l.readArg(d, list, k, args.Items[i], given)
		}
	}
	for _, p := range list.Params {
		if _, ok := given[p.Name]; !ok && p.Default == nil {
			given[p.Name] = nil
			if args == nil || args.Kind == schema.NullNode || !misspelt(args, p.Name, list) {
				d.Report(key, schema.Problem{Code: schema.Required,
					Message: fmt.Sprintf("steps %s need a value for %q, declared at %v", list.Name, p.Name, p.Key.Pos),
					Remedy:  fmt.Sprintf("write {%s: {%s: …}}", list.Name, p.Name)})
			}
		}
	}
	return given
}

// misspelt says whether one of the keys is most likely a misspelt parameter.
func misspelt(args *schema.Node, name string, list *StepListNode) bool {
	return slices.ContainsFunc(args.Keys, func(k *schema.Node) bool {
		return schema.Meant(k.Text, list.names()) == name
	})
}

// readArg reads the value of one parameter into given.
func (l *StepLists) readArg(d *schema.Decoder, list *StepListNode, key, item *schema.Node, given map[string]*schema.Node) {
	i := slices.IndexFunc(list.Params, func(p ParamNode) bool { return p.Name == key.Text })
	_, twice := given[key.Text]
	switch {
	case i < 0:
		d.Report(key, schema.Problem{Code: "unknown-parameter",
			Message: fmt.Sprintf("steps %s have no parameter %q", list.Name, key.Text),
			Remedy:  schema.Suggest(key.Text, list.names(), "declare it under `parameters` of the list")})
		return
	case twice:
		d.Report(key, schema.Problem{Code: schema.DuplicateKey, Message: fmt.Sprintf("key %q is given twice", key.Text),
			Remedy: "remove one"})
		return
	case item.Kind == schema.NullNode && list.Params[i].As == schema.AsValue:
		return // like an omitted value
	}
	given[key.Text] = nil
	if list.Params[i].Fits(d, item) {
		given[key.Text] = item
	}
}

// Fits checks a value for the parameter, and reports what is wrong with it.
func (p ParamNode) Fits(d *schema.Decoder, item *schema.Node) bool {
	if p.As == schema.AsCode {
		return d.Decode(item, new(expr.Expr))
	}
	if item.Kind == schema.ListNode || item.Kind == schema.MapNode {
		d.Report(item, schema.Problem{Code: schema.WrongKind,
			Message: fmt.Sprintf("expected one value, got %v", item.Kind),
			Remedy:  "a parameter is a single value; use one parameter for each"})
		return false
	}
	text, ok := d.Text(item)
	if !ok || p.As == schema.AsValue {
		return ok
	}
	if _, err := doc.ParsePath(text); err != nil || text == "" {
		d.Report(item, schema.Problem{Code: schema.BadValue, Message: fmt.Sprintf("%q is not a valid path", text),
			Remedy: fmt.Sprintf("%s is a path, such as user.name or items[0], as declared at %v", p.Name, p.Key.Pos)})
		return false
	}
	return true
}
