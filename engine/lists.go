package engine

import (
	"github.com/flowd-io/flowd/schema"
)

// StepList is an entry of `resources.steps`. The step `- steps: NAME` uses it.
type StepList struct {
	Parameters schema.Map[Parameter] `yaml:"parameters" doc:"Parameters that each use of the list gives, by name; the steps refer to them as ${param.NAME}."`
	Do         Steps                 `yaml:"do,main" check:"required" doc:"The steps."`
	Place      schema.Place          `yaml:",place"`
}

// Parameter is a parameter of a list of steps.
type Parameter struct {
	Type    string       `yaml:"type,main" check:"oneof=value|path|expression" default:"value" doc:"Kind of parameter: value (text, a number, a duration; never code), path (a field of the document) or expression."`
	Default *schema.Node `yaml:"default" doc:"Value for uses that do not give one; without it every use must."`
	Doc     string       `yaml:"doc" doc:"What it is for."`
}

var paramTypes = map[string]schema.ParamType{"value": schema.AsValue, "path": schema.AsPath,
	"expression": schema.AsCode}

// ShowConfig shows a list with parameters as it is written, since their values are only known where the list is used.
func (l StepList) ShowConfig() (instead any, comment string) {
	if l.Parameters.Len() > 0 && l.Place.Node != nil {
		return l.Place.Node, ""
	}
	return nil, ""
}

// Words are keys of other systems, with what to write instead.
func (*StepList) Words() map[string]string {
	return map[string]string{"params": "write `parameters`", "args": "write `parameters`", "steps": "write `do`",
		"processors": "write `do`"}
}

// StepLists are the lists of `resources.steps` while a configuration is decoded, and their uses. Fields get them with
// [schema.Shared].
type StepLists struct {
	Defined map[string]*StepListNode // by name; several decoders may share it
	Uses    []StepListUse            // so far, including uses inside lists that are used

	open []string // lists whose steps are being decoded, the outermost first
	size int      // how many nodes were decoded
	told bool     // that there are too many was reported
}

// StepListNode is the definition of a list, as nodes.
type StepListNode struct {
	Name, Path string       // Path is the path of the steps: "resources.steps.mask.do"
	Node       *schema.Node // the whole definition
	Do         *schema.Node // nil: it has no steps
	Params     []ParamNode

	nodes int
}

// ParamNode is a declared parameter, as nodes.
type ParamNode struct {
	Name    string
	Key     *schema.Node
	As      schema.ParamType
	Default *schema.Node // nil: every use must give a value
}

// StepListUse is a use of a list.
type StepListUse struct {
	At   schema.Place // of the use; the steps are below it: "processors[0].steps"
	List *StepListNode
	In   string                  // the list whose definition contains the use; "": a pipeline does, directly or through lists
	Args map[string]*schema.Node // as given, without defaults
}

// mostListNodes limits the keys and values of all expanded lists, since lists inside lists multiply.
const mostListNodes = 50_000

// Define adds a definition and binds its parameters to its steps.
func (l *StepLists) Define(name string, n *schema.Node) {
	list := &StepListNode{Name: name, Node: n, Path: schema.Join("resources.steps", name), Do: n}
	if n.Kind == schema.MapNode {
		list.Path, list.Do = list.Path+".do", n.Lookup("do")
		list.declare(n.Lookup("parameters"))
	}
	if l.Defined == nil {
		l.Defined = map[string]*StepListNode{}
	}
	l.Defined[name] = list
	if list.Do == nil {
		return
	}
	list.nodes = nodesIn(list.Do)
	params := &schema.Params{Of: name, By: map[string]schema.Param{}, Defines: true}
	for _, p := range list.Params {
		params.By[p.Name] = schema.Param{Value: p.Default, As: p.As, Bare: true}
	}
	list.Do.Params = params
}

// declare reads the parameters. It skips what is not valid; the decoder of the definition reports that.
func (l *StepListNode) declare(n *schema.Node) {
	if n == nil || n.Kind != schema.MapNode {
		return
	}
	for i, key := range n.Keys {
		p := ParamNode{Name: key.Text, Key: key}
		item, typ := n.Items[i], n.Items[i]
		if item.Kind == schema.MapNode {
			typ = item.Lookup("type")
			if p.Default = item.Lookup("default"); p.Default != nil && p.Default.Kind == schema.NullNode {
				p.Default = nil
			}
		}
		if typ != nil {
			p.As = paramTypes[typ.Text]
		}
		l.Params = append(l.Params, p)
	}
}

func (l *StepListNode) names() (names []string) {
	for _, p := range l.Params {
		names = append(names, p.Name)
	}
	return names
}

// nodesIn counts the values and keys at and below a node.
func nodesIn(n *schema.Node) int {
	all := 1 + len(n.Keys)
	for _, item := range n.Items {
		all += nodesIn(item)
	}
	return all
}
