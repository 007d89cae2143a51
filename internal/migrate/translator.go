package migrate

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/flowd-io/flowd/internal/migrate/bloblang"
)

// translator is one call of [Benthos].
type translator struct {
	file string
	src  *source
	o    Options
	res  *Result

	defined   map[string]map[string]*yaml.Node // resources by kind ("input", "cache" …) and label
	inside    map[string]bool                  // resources that are being looked into, as "input x"
	entered   int                              // how often one was
	numbers   map[string]int                   // the last behind a name that several have
	used      map[string]bool                  // resources that something names, as "cache foo"
	metadata  map[string]string                // names of metadata that inputs tell: theirs, ours
	texts     map[string]bool                  // caches that hold texts, not documents
	names     map[string]bool                  // of inputs and of outputs, as "input x"
	inputs    *yaml.Node
	steps     []*yaml.Node
	batchers  *yaml.Node
	outputs   *yaml.Node
	engine    *yaml.Node
	resources map[string]*yaml.Node // caches, rate_limits, steps, registries
	service   *yaml.Node
	tests     *yaml.Node

	batches    []inputBatch          // of the inputs, until something takes them
	policyOf   *yaml.Node            // how the input that is being translated batches
	stepsOf    *yaml.Node            // its processors, if they are not in it
	window     *yaml.Node            // of a buffer that makes windows
	front      []inputSteps          // in front of the pipeline's
	bulk       bool                  // some inputs give several messages at once
	replies    bool                  // an output answers requests
	connected  *yaml.Node            // the section redpanda: how its components connect
	grouped    *grouping             // how batches are parted
	groupedOf  []string              // inputs that say so
	behind     []*yaml.Node          // steps for the batches
	inner      map[string]bool       // processors that are used inside a step of one message
	unit       int                   // where the steps of the last processor begin in what processors gave
	ordered    bool                  // what becomes of an order was said
	pending    string                // comments of processors that became no step
	heads      []string              // what the head of the file says
	extra      []pair                // sections that are not known
	mappings   map[string]*yaml.Node // processors for files of mappings, by the file
	deadLater  string                // output for messages that failed
	forFailed  bool                  // what is translated is an output for them
	sharesHTTP bool                  // an input has the address of http
	emptied    bool                  // what becomes of empty lines was said
	rejects    bool                  // what has failed is not written there, either
	parts      int                   // how deep what is translated is among several outputs
	copied     int                   // how many copies of outputs were asked for
	again      bool                  // what is translated is a copy
	whole      map[string]route      // outputs that are resources, with what belongs to them
}

func newTranslator(file string, src *source, o Options) *translator {
	fillTables()
	t := &translator{file: file, src: src, o: o, res: &Result{File: file, Notes: []Note{}}}
	t.reset()
	return t
}

// reset forgets the pipeline that was made, but not what is defined.
func (t *translator) reset() {
	t.inside, t.numbers = map[string]bool{}, map[string]int{}
	t.used, t.names, t.texts = map[string]bool{}, map[string]bool{}, map[string]bool{}
	t.inputs, t.outputs, t.batchers, t.engine, t.service = mapping(), mapping(), mapping(), mapping(), mapping()
	t.steps, t.tests, t.batches, t.window, t.front, t.groupedOf = nil, nil, nil, nil, nil, nil
	t.replies, t.bulk, t.deadLater = false, false, ""
	t.resources = map[string]*yaml.Node{}
	t.ordered, t.emptied, t.sharesHTTP = false, false, false
	t.grouped, t.behind, t.extra, t.heads, t.inner = nil, nil, nil, nil, map[string]bool{}
	t.forFailed, t.rejects, t.parts, t.copied, t.whole = false, false, 0, 0, map[string]route{}
}

// note records something at a place of the file.
func (t *translator) note(kind Kind, at *yaml.Node, text string) {
	n := Note{Kind: kind, File: t.file, Line: max(at.Line, 1), Col: max(at.Column, 1), Text: t.src.env.original(text)}
	if !slices.Contains(t.res.Notes, n) {
		t.res.Notes = append(t.res.Notes, n)
	}
}

// differs notes, at a place and in a comment above what was made of it, how that behaves otherwise.
func (t *translator) differs(made, at *yaml.Node, text string) {
	t.note(Differs, at, text)
	comment(made, "Differs: "+text)
}

// lost returns what stands in the place of a component that can't be translated: the component as a comment, above a key
// that lint refuses.
func (t *translator) lost(at *yaml.Node, why string) *yaml.Node {
	t.note(Untranslated, at, why)
	n := mapping("untranslated", why)
	bare := *at
	bare.HeadComment, bare.LineComment, bare.FootComment = "", "", ""
	if len(at.Content) > 0 {
		bare.Content = slices.Clone(at.Content)
		first := *at.Content[0]
		first.HeadComment = ""
		bare.Content[0] = &first
	}
	n.HeadComment = quoted(&bare, t.src.env)
	return n
}

// says notes how the whole behaves otherwise, which has no place but the head of the file.
func (t *translator) says(at *yaml.Node, text string) {
	t.note(Differs, at, text)
	if !slices.Contains(t.heads, text) {
		t.heads = append(t.heads, text)
	}
}

// missing returns lost, of a component that flowd does not have at all.
func (t *translator) missing(c *component, why string) *yaml.Node {
	if name := c.kind + " " + c.key.Value; !slices.Contains(t.res.Missing, name) {
		t.res.Missing = append(t.res.Missing, name)
	}
	what := fmt.Sprintf("%s %s has no counterpart", strings.ReplaceAll(c.kind, "_", " "), c.key.Value)
	if why != "" {
		what += ": " + why
	}
	return t.lost(c.node, what)
}

// lostField says in a mapping that a field of it has no counterpart.
func (t *translator) lostField(in *yaml.Node, p pair, why string) {
	t.note(Untranslated, p.key, why)
	item := scalar(why)
	item.HeadComment = quoted(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{p.key, p.value}}, t.src.env)
	all := lookup(in, "untranslated")
	if all == nil {
		all = list()
		put(in, "untranslated", all)
	}
	all.Content = append(all.Content, item)
}

// blobNotes records what the translation of a mapping has to say, and puts it above what was made.
func (t *translator) blobNotes(made, at *yaml.Node, notes []bloblang.Note) {
	for _, n := range notes {
		place := *at
		if at.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			place.Line, place.Column = at.Line+n.Line, n.Column
		} else {
			place.Line, place.Column = at.Line+n.Line-1, at.Column
		}
		if n.Kind == bloblang.Untranslated {
			t.note(Untranslated, &place, n.Text)
			comment(made, "Untranslated: "+n.Text)
			continue
		}
		t.differs(made, &place, n.Text)
	}
}

// reader reads files that mappings import, relative to the configuration.
func (t *translator) reader(path string) (string, error) {
	data, err := t.o.Read(path)
	return string(data), err
}

func (t *translator) blob(c ctx) bloblang.Options {
	return bloblang.Options{Batch: c.batch, Import: t.reader, Unescaped: true}
}

// query translates a Bloblang query into an expression.
func (t *translator) query(made, at *yaml.Node, src string, c ctx) string {
	if strings.TrimSpace(src) == "" {
		return "nil"
	}
	expr, notes := bloblang.Query(src, t.blob(c))
	t.blobNotes(made, at, notes)
	return expr
}

// template translates an interpolated text.
func (t *translator) template(made, at *yaml.Node, src string, c ctx) string {
	if !strings.Contains(src, "${!") {
		return strings.ReplaceAll(src, "$(", "$$(")
	}
	text, notes := bloblang.Template(src, t.blob(c))
	t.blobNotes(made, at, notes)
	return text
}

var interpolation = pattern(`(?s)^\$\{!(.*)\}$`)

// templateExpr translates an interpolated text into an expression that gives it.
func (t *translator) templateExpr(made, at *yaml.Node, src string, c ctx) string {
	if m := interpolation().FindStringSubmatch(src); m != nil && !strings.Contains(m[1], "${!") {
		return t.query(made, at, m[1], c)
	}
	if !strings.Contains(src, "${!") {
		return quote(src)
	}
	var parts []string
	for _, piece := range pieces(t.template(made, at, src, c)) {
		if !piece.code {
			parts = append(parts, quote(piece.text))
			continue
		}
		parts = append(parts, "string("+piece.text+")")
	}
	return strings.Join(parts, " + ")
}

// quote returns a text as a literal of expressions.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s) + `"`
}

// piece is literal text, or the code of an expression in a template.
type piece struct {
	text string
	code bool
}

// pieces cuts a template of flowd's.
func pieces(template string) (all []piece) {
	literal := ""
	for template != "" {
		switch {
		case strings.HasPrefix(template, "$$("):
			literal, template = literal+"$(", template[3:]
		case strings.HasPrefix(template, "$("):
			end := closing(template[2:])
			if literal != "" {
				all = append(all, piece{literal, false})
			}
			all = append(all, piece{template[2 : 2+end], true})
			literal, template = "", template[min(len(template), 3+end):]
		default:
			literal, template = literal+template[:1], template[1:]
		}
	}
	if literal != "" {
		all = append(all, piece{literal, false})
	}
	return all
}

// closing returns where the bracket ends that is open before text.
func closing(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c != '`' {
					i++
				}
			}
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth == 0 {
				return i
			}
			depth--
		}
	}
	return len(text)
}

// name finds a free name for a component.
func (t *translator) name(kind, wanted string) string {
	name := wanted
	for t.names[kind+" "+name] {
		t.numbers[kind+" "+wanted]++
		name = fmt.Sprintf("%s_%d", wanted, t.numbers[kind+" "+wanted]+1)
	}
	t.names[kind+" "+name] = true
	return name
}

// enter reports whether a resource may be looked into: not from inside itself, and not so often that resources that name
// others twice, and these others twice, never end.
func (t *translator) enter(kind, label string) bool {
	const most = 10_000
	if t.entered++; t.entered > most || t.inside[kind+" "+label] {
		return false
	}
	t.inside[kind+" "+label] = true
	return true
}

func (t *translator) leave(kind, label string) { delete(t.inside, kind+" "+label) }

// use notes that a resource is named, and says whether the file defines it.
func (t *translator) use(kind, label string) *yaml.Node {
	t.used[kind+" "+label] = true
	return t.defined[kind][label]
}
