package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/flowd-io/flowd/config/yamltext"
	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/schema"
)

// improve adds remedies that take a look at the whole file, or at YAML: words of other systems, a missing space, a
// comment that swallowed a value.
func (l *loader) improve() {
	at := places{of: map[*schema.Node]*schema.Node{}, keys: map[schema.Pos]*schema.Node{},
		values: map[schema.Pos]*schema.Node{},
		empty:  map[schema.Pos]*schema.Node{}}
	for _, f := range slices.Concat(l.files, l.parts) {
		at.collect(f.root)
	}
	left := map[schema.Pos]bool{}   // keys that flowd migrate wrote in place of what it could not translate
	typed := map[string]bool{}      // components whose type is a word of another system
	braces := map[schema.Pos]bool{} // {{ }} without quotes: the mapping that YAML reads is no second mistake
	paths := map[string]bool{}      // keys that are not paths: their values are not what was meant, either
	for i := range l.problems {
		p := &l.problems[i]
		braces[p.Pos] = braces[p.Pos] || p.Message == yamltext.Mustache
		if strings.HasSuffix(p.Message, "is not a valid path") {
			paths[p.Pos.File+p.Path] = true
		}
		key, value := at.keys[p.Pos], at.values[p.Pos]
		switch {
		case key != nil && key.Text == untranslated && (p.Code == schema.UnknownField || p.Code == schema.UnknownType):
			p.Code, p.Message, p.Remedy = untranslated, "not translated: "+at.reason(key),
				"write it in flowd's words, then remove this key"
			left[p.Pos] = true
		case key != nil && (p.Code == schema.UnknownField || p.Code == schema.UnknownType):
			if empty := at.empty[p.Pos]; empty != nil {
				p.Remedy = fmt.Sprintf("if it belongs to `%s`, which is empty, indent it further", empty.Text)
			}
			if peerWord(p, key.Text) {
				typed[p.Pos.File+p.Path] = true
			}
			at.mapping(p, key)
			at.document(p, key)
		case strings.Contains(p.Message, "there is no function "+untranslated+"()"):
			p.Code, p.Message, p.Remedy = untranslated, "not translated: a part of this expression",
				"the comment above says why; write it in flowd's words"
		case value != nil && p.Code == schema.WrongKind:
			wrongKind(p, value)
		case p.Code == schema.Required:
			required(p, value)
		case p.Code == schema.MissingType:
			nameless(p)
		case value != nil && p.Code == schema.BadValue:
			peerValue(p, value)
		case p.Remedy == "" && strings.HasPrefix(p.Message, "a condition must be true or false"):
			p.Remedy = "compare it with something, as in `status == 503`"
		}
	}
	l.problems = slices.DeleteFunc(l.problems, func(p schema.Problem) bool {
		inside := p.Pos
		inside.Col++
		if braces[inside] || paths[p.Pos.File+p.Path] && p.Code != schema.BadValue {
			return true
		}
		return p.Code == schema.MissingType && typed[p.Pos.File+p.Path] || left[p.Pos] && p.Code != untranslated
	})
}

// untranslated is the key that flowd migrate writes in place of what it can't translate, and the code of the
// problem.
const untranslated = "untranslated"

// places finds nodes by position. A mapping is at its first key. Of several values at one place, the outermost
// counts.
type places struct {
	of           map[*schema.Node]*schema.Node // values by key
	keys, values map[schema.Pos]*schema.Node
	empty        map[schema.Pos]*schema.Node // by key: the key before it, if that one has no value
}

// reason returns the text or texts of a key `untranslated`.
func (at places) reason(key *schema.Node) string {
	value := at.of[key]
	var all []string
	for _, item := range append([]*schema.Node{value}, value.Items...) {
		if item.Text != "" {
			all = append(all, item.Text)
		}
	}
	return strings.Join(all, "; ")
}

func (at places) collect(n *schema.Node) {
	if at.values[n.Pos] == nil {
		at.values[n.Pos] = n
	}
	for i, k := range n.Keys {
		at.keys[k.Pos] = k
		at.of[k] = n.Items[i]
		if i > 0 && n.Items[i-1].Kind == schema.NullNode {
			at.empty[k.Pos] = n.Keys[i-1]
		}
	}
	for _, item := range n.Items {
		at.collect(item)
	}
}

// mapping says what the mapping of a processor of Benthos is in steps.
func (at places) mapping(p *schema.Problem, key *schema.Node) {
	value := at.of[key]
	if value.Kind != schema.TextNode || key.Text != "mapping" && key.Text != "bloblang" && key.Text != "mutation" {
		return
	}
	if _, remedy, _, ok := translator.Foreign(value.Text); ok {
		p.Remedy = remedy
	}
}

// wholeInput matches the places of messages in tests, and of the input generate.
var wholeInput = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:tests\[\d+\]\.input\[\d+\]|inputs\.[^.]+\.generate)$`)
})

// document says where the fields of a message belong.
func (at places) document(p *schema.Problem, key *schema.Node) {
	switch {
	case !wholeInput().MatchString(p.Path):
	case strings.HasPrefix(p.Path, "tests") && (p.Remedy == `did you mean "at"?` || strings.HasPrefix(p.Remedy, "known here")):
		p.Remedy = fmt.Sprintf("write {json: {%s: …}} for a message with this field", key.Text)
	case strings.HasPrefix(p.Path, "inputs") && strings.HasPrefix(p.Remedy, "known here"):
		p.Remedy = fmt.Sprintf("quote the message, which is an expression: generate: '{%s: …}'", key.Text)
	}
}

// peerWord adds a remedy for an unknown key that is a word of another system, and reports whether the word stands for
// a type.
func peerWord(p *schema.Problem, word string) (isType bool) {
	for _, at := range peers() {
		if remedy := at.words[word]; remedy != "" && at.path.MatchString(p.Path) {
			p.Remedy = remedy
			return false
		}
	}
	section, _, _ := strings.Cut(p.Path, ".")
	for name, v := range map[string]schema.Variants{"inputs": engine.Inputs, "outputs": engine.Outputs,
		"batchers": engine.Batchers} {
		if remedy := v.Remedy(word); section == name && strings.Count(p.Path, ".") == 1 && remedy != "" {
			p.Remedy = remedy
			return true
		}
	}
	return false
}

// wrongKind explains why a value has the wrong kind.
func wrongKind(p *schema.Problem, n *schema.Node) {
	if n.Kind == schema.TextNode && n.Style == schema.Plain {
		if key, value, ok := yamltext.MissingSpace(n.Text); ok {
			first, _, _ := strings.Cut(value, "\n")
			p.Message, p.Remedy = "a space is missing after the colon, so this is text",
				fmt.Sprintf("write `%s: %s`", key, first)
			return
		}
	}
	if message, remedy, ok := assignment(p.Path, n); ok {
		p.Message, p.Remedy = message, remedy
		return
	}
	switch {
	case strings.HasSuffix(p.Path, ".on_error") && n.Kind == schema.MapNode:
		p.Message, p.Remedy = "expected fail, continue, drop or a list of steps, got a mapping",
			"write a list of steps: [{…}]"
	case strings.HasSuffix(p.Path, "on_failure.then") && n.Kind == schema.ListNode:
		p.Remedy = "write one of dead_letter, return, drop, stop"
	case p.Path == "processors" && n.Kind == schema.MapNode:
		p.Remedy = "write each step as an item of a list: `- filter: …`"
	case (p.Path == "inputs" || p.Path == "outputs" || p.Path == "batchers") && n.Kind == schema.ListNode:
		p.Remedy = fmt.Sprintf("give each a name: `%s: {NAME: …}`", p.Path)
	}
}

// assignment explains text in place of the mapping of a step that sets something.
func assignment(path string, n *schema.Node) (message, remedy string, ok bool) {
	step := path[strings.LastIndexByte(path, '.')+1:]
	if n.Kind != schema.TextNode || !slices.Contains([]string{"set", "map", "meta", "let"}, step) {
		return "", "", false
	}
	message, remedy, _, ok = translator.Foreign(n.Text)
	return message, remedy, ok
}

// required says what to write in place of a missing value.
func required(p *schema.Problem, n *schema.Node) {
	switch {
	case n != nil && n.Kind == schema.NullNode && n.Tail != "":
		p.Message = "YAML takes what follows # for a comment, so there is no value"
		p.Remedy = "write it before the #; a value that contains ` #` goes into quotes"
	case p.Path == "inputs":
		p.Remedy = "say where messages come from: `inputs: {in: {stdin: {}}}`"
	case p.Path == "outputs":
		p.Remedy = "say where messages go: `outputs: {out: {stdout: {}}}`"
	case strings.HasPrefix(p.Path, "batchers.") && strings.HasSuffix(p.Path, ".output"):
		p.Remedy = "name an output"
	}
}

// nameless explains that a name is missing where a type is in its place.
func nameless(p *schema.Problem) {
	section, name, _ := strings.Cut(p.Path, ".")
	for in, v := range map[string]schema.Variants{"inputs": engine.Inputs, "outputs": engine.Outputs} {
		if section == in && v.Variant(name) != nil {
			p.Remedy = fmt.Sprintf("%s is a type: give it a name, as in `%s: {NAME: {%s: …}}`", name, in, name)
		}
	}
}

// peerValue adds a remedy for a value that is a word of another system.
func peerValue(p *schema.Problem, n *schema.Node) {
	for _, at := range peerValues() {
		if remedy := at.words[n.Text]; remedy != "" && at.path.MatchString(p.Path) {
			p.Remedy = remedy
		}
	}
}

// show adds the source line to problems that lack it.
func (l *loader) show() {
	for _, f := range slices.Concat(l.files, l.parts) {
		for i, p := range l.problems {
			if p.Pos.File == f.path && f.root.Excerpt != nil {
				l.problems[i] = f.decoder.Show(p, f.root.Excerpt(p.Pos))
			}
		}
	}
	for _, in := range l.included {
		for i, p := range l.problems {
			if p.Pos.File == in.path && in.root.Excerpt != nil && in.into.decoder != nil {
				l.problems[i] = in.into.decoder.Show(p, in.root.Excerpt(p.Pos))
			}
		}
	}
}
