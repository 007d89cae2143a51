package jsonschema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"regexp/syntax"
	"slices"
	"sort"
	"strconv"
)

// node is a compiled schema.
type node struct {
	in     *resource
	every  draft // stands for the meta-schema of a draft
	never  bool  // the schema false
	ref    *node
	dyn    *node  // target of $dynamicRef or $recursiveRef if the dynamic scope has none
	anchor string // the anchor to look up in the dynamic scope
	scoped bool   // look it up

	types   []string
	enum    *values
	konst   *values
	all     []*node
	any     []*node
	one     []*node
	not     *node
	when    *node
	then    *node
	orElse  *node
	checked func(string) bool // by the keyword format
	format  string

	min, max, above, below, multiple *bound

	minLength, maxLength *int
	pattern              *expression

	prefix             []*node
	items              *node
	itemsOf            string // the keyword that items comes from
	contains           *node
	minContains        int
	maxContains        *int
	minItems, maxItems *int
	unique             bool
	restItems          *node
	minProps, maxProps *int
	required           []string
	props              map[string]*node
	order              []named // of props, cheap ones first
	patterns           []patternNode
	more               *node
	names              *node
	needs              []need
	whenPresent        []named
	restProps          *node
	marks              bool // an unevaluated keyword needs to know what others have evaluated
	deep               bool // checking a value involves subschemas
}

type patternNode struct {
	re *expression
	n  *node
}

// expression is a regular expression of a schema.
type expression struct {
	*regexp.Regexp
	weight int // instructions of its program
}

// steps returns how many steps a match takes: at most all instructions at each byte.
func (e *expression) steps(text string) int { return len(text) * e.weight / 16 }

type named struct {
	key string
	n   *node
}

// need is what a property requires.
type need struct {
	key  string
	also []string
}

// bound is a number in a schema.
type bound struct {
	text  string
	small int64 // if it is a small integer
	fits  bool
	exact *big.Rat
}

func newBound(v any) *bound {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	b := &bound{text: string(n), exact: rational(n)}
	b.small, b.fits = small(n)
	return b
}

// node compiles the schema at a place.
func (l *library) node(p *place) (*node, error) {
	if p.made != nil {
		return p.made, nil
	}
	n := &node{in: p.in, every: p.every}
	p.made = n
	l.made = append(l.made, p)
	if l.most > 0 && len(l.made) > l.most {
		return nil, fmt.Errorf("it has more than %d schemas (split it)", l.most)
	}
	if l.level++; l.level > deepest {
		return nil, fmt.Errorf("more than %d schemas lead to each other (refer to one directly)", deepest)
	}
	defer func() { l.level-- }()
	switch s := p.schema.(type) {
	case bool:
		n.never = !s
	case map[string]any:
		b := builder{library: l, p: p, n: n, m: s, d: p.in.draft}
		b.build()
		return n, b.err
	}
	return n, nil
}

// builder compiles one schema.
type builder struct {
	*library
	p   *place
	n   *node
	m   map[string]any
	d   draft
	err error
}

// get returns the value of a keyword, if the draft has it.
func (b *builder) get(name string) any {
	if _, ok := b.d.keyword(name); !ok {
		return nil
	}
	return b.m[name]
}

// sub returns the subschema at a path.
func (b *builder) sub(way ...string) *node {
	if b.err != nil {
		return nil
	}
	n, err := b.node(b.p.in.of.places[b.p.pointer+joined(way)])
	b.err = err
	return n
}

func (b *builder) optional(name string) *node {
	if b.get(name) == nil {
		return nil
	}
	return b.sub(name)
}

func (b *builder) list(name string) (all []*node) {
	some, _ := b.get(name).([]any)
	for i := range some {
		all = append(all, b.sub(name, strconv.Itoa(i)))
	}
	return all
}

func (b *builder) count(name string) *int {
	n, ok := b.get(name).(json.Number)
	if !ok {
		return nil
	}
	whole := rational(n).Num()
	i := int(^uint(0) >> 1)
	if whole.IsInt64() {
		i = int(whole.Int64())
	}
	return &i
}

// refer returns the schema that a reference leads to.
func (b *builder) refer(name string) (*place, *node) {
	reference, ok := b.get(name).(string)
	if !ok || b.err != nil {
		return nil, nil
	}
	p, err := b.find(b.p.in, reference)
	if err != nil {
		b.err = err
		return nil, nil
	}
	n, err := b.node(p)
	b.err = err
	return p, n
}

func (b *builder) build() {
	n := b.n
	if _, n.ref = b.refer("$ref"); n.ref != nil && b.d <= draft7 {
		n.deep = true
		return // keywords next to it do not count
	}
	b.dynamic()
	if !b.p.in.words.noApplicators {
		b.applicators()
	}
	if !b.p.in.words.noValidation {
		b.validation()
	}
	if !b.p.in.words.noUnevaluated {
		n.restItems, n.restProps = b.optional("unevaluatedItems"), b.optional("unevaluatedProperties")
	}
	n.marks = n.restItems != nil || n.restProps != nil
	n.deep = n.isDeep()
	if f := textOf(b.get("format")); f != "" && (b.format || b.d <= draft7 || b.p.in.words.format) {
		n.format, n.checked = f, formatOf(f)
	}
}

func (b *builder) dynamic() {
	n := b.n
	if p, to := b.refer("$dynamicRef"); to != nil {
		n.dyn = to
		for name, a := range p.in.dynamic {
			reference := textOf(b.m["$dynamicRef"])
			if a == p && len(reference) > len(name) && reference[len(reference)-len(name)-1:] == "#"+name {
				n.anchor, n.scoped = name, true
			}
		}
	}
	if p, to := b.refer("$recursiveRef"); to != nil {
		n.dyn = to
		n.scoped = p.in.dynamic[""] == p
	}
	if n.scoped { // also compiles possible targets in the dynamic scope
		b.library.scoped = true
		for _, in := range b.resources {
			if p := in.dynamic[n.anchor]; p != nil && b.err == nil {
				_, b.err = b.node(p)
			}
		}
	}
}

// isDeep reports whether checking a value involves subschemas.
func (n *node) isDeep() bool {
	return n.ref != nil || n.dyn != nil || n.not != nil || n.when != nil || n.items != nil || n.contains != nil ||
		n.more != nil || n.names != nil || n.marks || len(n.all)+len(n.any)+len(n.one)+len(n.prefix)+len(n.props)+
		len(n.patterns)+len(n.whenPresent) > 0
}

// arrange orders the properties of a schema for checking.
func (n *node) arrange() {
	for _, key := range sorted(n.props) {
		n.order = append(n.order, named{key, n.props[key]})
	}
	slices.SortStableFunc(n.order, func(a, b named) int {
		switch {
		case a.n.deep == b.n.deep:
			return 0
		case b.n.deep:
			return -1
		}
		return 1
	})
}

// expression compiles a regular expression, whose syntax was checked before.
func (b *builder) expression(text string) *expression {
	if b.err != nil {
		return nil
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		b.err = err
		return nil
	}
	weight := instructions(parsed)
	if b.instructions += weight; b.most > 0 && b.instructions > mostInstructions {
		b.err = fmt.Errorf("its regular expressions are larger than %d characters with all repetitions (write fewer, "+
			"or smaller counts)", mostInstructions)
		return nil
	}
	made, err := regexp.Compile(text)
	b.err = err
	return &expression{made, weight}
}

func (b *builder) applicators() {
	n := b.n
	n.all, n.any, n.one, n.not = b.list("allOf"), b.list("anyOf"), b.list("oneOf"), b.optional("not")
	if n.when = b.optional("if"); n.when != nil {
		n.then, n.orElse = b.optional("then"), b.optional("else")
	}
	n.prefix = b.list("prefixItems")
	if _, ok := b.get("items").([]any); ok {
		n.prefix = b.list("items")
		n.items, n.itemsOf = b.optional("additionalItems"), "additionalItems"
	} else {
		n.items, n.itemsOf = b.optional("items"), "items"
	}
	n.contains, n.minContains = b.optional("contains"), 1
	if props, ok := b.get("properties").(map[string]any); ok {
		n.props = make(map[string]*node, len(props))
		for key := range props {
			n.props[key] = b.sub("properties", key)
		}
	}
	patterns, _ := b.get("patternProperties").(map[string]any)
	for _, key := range sorted(patterns) {
		n.patterns = append(n.patterns, patternNode{b.expression(key), b.sub("patternProperties", key)})
	}
	n.more, n.names = b.optional("additionalProperties"), b.optional("propertyNames")
	dependent, _ := b.get("dependentSchemas").(map[string]any)
	for _, key := range sorted(dependent) {
		n.whenPresent = append(n.whenPresent, named{key, b.sub("dependentSchemas", key)})
	}
	either, _ := b.get("dependencies").(map[string]any)
	for _, key := range sorted(either) {
		if also, ok := either[key].([]any); ok {
			n.needs = append(n.needs, need{key, texts(also)})
		} else {
			n.whenPresent = append(n.whenPresent, named{key, b.sub("dependencies", key)})
		}
	}
}

func (b *builder) validation() {
	n := b.n
	switch t := b.get("type").(type) {
	case string:
		n.types = []string{t}
	case []any:
		n.types = texts(t)
	}
	if all, ok := b.get("enum").([]any); ok {
		n.enum = newValues(all)
	}
	if _, ok := b.d.keyword("contains"); ok { // const appeared in the same draft
		if v, ok := b.m["const"]; ok {
			n.konst = newValues([]any{v})
		}
	}
	n.min, n.max, n.multiple = newBound(b.get("minimum")), newBound(b.get("maximum")), newBound(b.get("multipleOf"))
	if b.d == draft4 {
		if on, _ := b.m["exclusiveMinimum"].(bool); on {
			n.min, n.above = nil, n.min
		}
		if on, _ := b.m["exclusiveMaximum"].(bool); on {
			n.max, n.below = nil, n.max
		}
	} else {
		n.above, n.below = newBound(b.get("exclusiveMinimum")), newBound(b.get("exclusiveMaximum"))
	}
	n.minLength, n.maxLength = b.count("minLength"), b.count("maxLength")
	if p, ok := b.get("pattern").(string); ok {
		n.pattern = b.expression(p)
	}
	n.minItems, n.maxItems = b.count("minItems"), b.count("maxItems")
	n.unique, _ = b.get("uniqueItems").(bool)
	if c := b.count("minContains"); c != nil {
		n.minContains = *c
	}
	n.maxContains = b.count("maxContains")
	n.minProps, n.maxProps = b.count("minProperties"), b.count("maxProperties")
	required, _ := b.get("required").([]any)
	n.required = texts(required)
	needs, _ := b.get("dependentRequired").(map[string]any)
	for _, key := range sorted(needs) {
		also, _ := needs[key].([]any)
		n.needs = append(n.needs, need{key, texts(also)})
	}
}

func texts(all []any) []string {
	var some []string
	for _, v := range all {
		some = append(some, textOf(v))
	}
	return some
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// endless finds a schema that refers to itself for any document, without a step into the document. Loops that depend
// on the document are found when one is checked.
func endless(all []*place) error {
	state := map[*node]bool{} // true: on the way, false: done
	var visit func(n *node) bool
	visit = func(n *node) bool {
		if n == nil {
			return false
		}
		if on, seen := state[n]; seen {
			return on
		}
		state[n] = true
		if visit(n.ref) || visit(n.not) || visit(n.when) || !n.scoped && visit(n.dyn) ||
			slices.ContainsFunc(n.all, visit) || slices.ContainsFunc(n.one, visit) {
			return true
		}
		state[n] = false
		return false
	}
	for _, p := range all {
		if visit(p.made) {
			return fmt.Errorf("the schema at %q refers to itself without end", "#"+p.pointer)
		}
	}
	return nil
}
