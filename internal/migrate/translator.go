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
	inside    map[string]bool                  // resources being searched, as "input x"
	entered   int                              // number of searches
	numbers   map[string]int                   // last number appended to a name
	used      map[string]bool                  // resources in use, as "cache foo"
	metadata  map[string]string                // names of metadata of inputs, from the source's to flowd's
	texts     map[string]bool                  // caches that contain texts, not documents
	names     map[string]bool                  // of inputs and outputs, as "input x"
	inputs    *yaml.Node
	steps     []*yaml.Node
	batchers  *yaml.Node
	outputs   *yaml.Node
	engine    *yaml.Node
	resources map[string]*yaml.Node // caches, rate_limits, steps, registries
	service   *yaml.Node
	tests     *yaml.Node

	batches    []inputBatch          // batches of the inputs that are not used yet
	policyOf   *yaml.Node            // batching of the current input
	stepsOf    *yaml.Node            // processors of the current input, if they are not in it
	window     *yaml.Node            // of a buffer that makes windows
	front      []inputSteps          // steps before the pipeline's
	bulk       bool                  // some inputs read several messages at once
	replies    bool                  // an output answers requests
	connected  *yaml.Node            // the section redpanda, with its connection
	grouped    *grouping             // how batches are split
	groupedOf  []string              // inputs with that grouping
	behind     []*yaml.Node          // steps for the batches
	inner      map[string]bool       // processors used inside a step on one message
	unit       int                   // index of the last processor's first step
	ordered    bool                  // the note about order was written
	pending    string                // comments of processors without a step
	heads      []string              // comments at the head of the file
	extra      []pair                // unknown sections
	mappings   map[string]*yaml.Node // processors for mapping files, by file
	deadLater  string                // output for failed messages
	forFailed  bool                  // the current output is for failed messages
	sharesHTTP bool                  // an input has the address of http
	emptied    bool                  // the note about empty lines was written
	rejects    bool                  // failed messages are not written there, either
	parts      int                   // nesting of the current output among several outputs
	copied     int                   // copies of outputs so far
	again      bool                  // the current output is a copy
	whole      map[string]route      // outputs that are resources, with what belongs to them
}

func newTranslator(file string, src *source, o Options) *translator {
	fillTables()
	t := &translator{file: file, src: src, o: o, res: &Result{File: file, Notes: []Note{}}}
	t.reset()
	return t
}

// reset discards the pipeline, but keeps definitions.
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

// differs records, at a place and in a comment above its translation, how that behaves differently.
func (t *translator) differs(made, at *yaml.Node, text string) {
	t.note(Differs, at, text)
	comment(made, "Differs: "+text)
}

// lost returns a replacement for a component that can't be translated: a comment with the component, above a key that
// lint rejects.
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

// says records a difference of the whole file in its head.
func (t *translator) says(at *yaml.Node, text string) {
	t.note(Differs, at, text)
	if !slices.Contains(t.heads, text) {
		t.heads = append(t.heads, text)
	}
}

// missing is lost for a component that flowd does not have.
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

// lostField records in a mapping that one of its fields has no counterpart.
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

// blobNotes records the notes of a mapping's translation, and puts them above it.
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

// templateExpr translates an interpolated text to an expression.
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

// piece is literal text, or an expression in a template.
type piece struct {
	text string
	code bool
}

// pieces splits a template.
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

// closing returns the end of the bracket that is open at the beginning of text.
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

// enter reports whether a resource may be searched: not from inside itself, and not so often that nested references
// take for ever.
func (t *translator) enter(kind, label string) bool {
	const most = 10_000
	if t.entered++; t.entered > most || t.inside[kind+" "+label] {
		return false
	}
	t.inside[kind+" "+label] = true
	return true
}

func (t *translator) leave(kind, label string) { delete(t.inside, kind+" "+label) }

// use records that a resource is in use, and returns its definition, if the file has one.
func (t *translator) use(kind, label string) *yaml.Node {
	t.used[kind+" "+label] = true
	return t.defined[kind][label]
}
