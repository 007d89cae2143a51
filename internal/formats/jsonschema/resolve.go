package jsonschema

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// library finds schemas by address. It reads a document when a reference first leads to it.
type library struct {
	from      loader
	fallback  draft
	resources map[string]*resource // by address, without a fragment
	made      []*place             // places with compiled schemas
	format    bool                 // check the keyword format in all drafts
	scoped    bool                 // some references depend on the dynamic scope
	most      int                  // limit of schemas; 0: none

	level, instructions int // during compilation
}

// loader reads documents by their addresses.
type loader interface {
	Load(address string) (any, error)
}

// document is a text that contains schemas.
type document struct {
	root   any
	places map[string]*place // by JSON pointer
}

// resource is a schema with its own address, and the subschemas without one.
type resource struct {
	of      *document
	pointer string // of its root
	base    string
	draft   draft
	words   vocabulary
	anchors map[string]*place
	dynamic map[string]*place // anchors for $dynamicRef; "" is a root with $recursiveAnchor
}

// place is the place of a schema.
type place struct {
	schema  any
	in      *resource
	pointer string
	every   draft // the meta-schema of a draft, in place of a schema at a place
	made    *node
}

// vocabulary says which keywords count, if a meta-schema makes its own choice.
type vocabulary struct{ noApplicators, noValidation, noUnevaluated, format bool }

// load adds a document and returns its root.
func (l *library) load(address string) (*place, error) {
	v, err := l.from.Load(address)
	if err != nil {
		return nil, err
	}
	p, err := l.add(address, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return p, nil
}

func (l *library) add(address string, v any) (*place, error) {
	of := &document{root: v, places: map[string]*place{}}
	in := &resource{of: of, base: address, draft: l.fallback}
	l.resources[address] = in
	m, _ := v.(map[string]any)
	if err := l.dialect(in, m); err != nil {
		return nil, err
	}
	if err := l.walk(v, "", in); err != nil {
		return nil, err
	}
	root := of.places[""]
	f := findings{loud: true}
	f.inspect(v, root.in.draft)
	return root, f.err()
}

// dialect sets the draft and vocabulary of a resource from its root.
func (l *library) dialect(in *resource, root map[string]any) error {
	named := textOf(root["$schema"])
	if named == "" {
		return nil
	}
	if d := draftAt(named); d != 0 {
		in.draft = d
		return nil
	}
	address := strings.TrimSuffix(named, "#")
	if address == in.base {
		return fmt.Errorf("$schema %s is the schema itself", address)
	}
	of, ok := l.resources[address]
	if !ok {
		if _, err := l.load(address); err != nil {
			return err
		}
		of = l.resources[address]
	}
	in.draft = of.draft
	meta, _ := of.of.root.(map[string]any)
	if words, ok := meta["$vocabulary"].(map[string]any); ok {
		in.words = vocabulary{true, true, true, false}
		for name := range words {
			_, word, _ := strings.Cut(name, "/vocab/")
			switch word {
			case "applicator":
				in.words.noApplicators = false
				in.words.noUnevaluated = in.words.noUnevaluated && in.draft != draft2019
			case "validation":
				in.words.noValidation = false
			case "unevaluated":
				in.words.noUnevaluated = false
			case "format-assertion":
				in.words.format = true
			}
		}
	}
	n, err := l.node(of.of.places[""])
	if err != nil {
		return err
	}
	l.arrange()
	return l.check(context.Background(), n, root, 0)
}

// walk registers a schema and its subschemas.
func (l *library) walk(v any, pointer string, in *resource) error {
	m, _ := v.(map[string]any)
	_, refers := m["$ref"]
	id := textOf(m["$id"])
	if in.draft == draft4 {
		id = textOf(m["id"])
	}
	if refers && in.draft <= draft7 {
		id = "" // keywords next to a $ref do not count
	}
	anchor := ""
	if id != "" {
		id, anchor, _ = strings.Cut(id, "#")
		if in.draft > draft7 {
			anchor = ""
		}
	}
	if id != "" {
		base, err := resolve(in.base, id)
		if err != nil {
			return err
		}
		if pointer != in.pointer {
			in = &resource{of: in.of, pointer: pointer, draft: in.draft, words: in.words}
			if err := l.dialect(in, m); err != nil {
				return err
			}
		}
		in.base = base
		l.resources[base] = in
	}
	p := &place{schema: v, in: in, pointer: pointer}
	in.of.places[pointer] = p
	if in.anchors == nil {
		in.anchors, in.dynamic = map[string]*place{}, map[string]*place{}
	}
	if anchor != "" {
		in.anchors[anchor] = p
	}
	if in.draft >= draft2019 {
		if a := textOf(m["$anchor"]); a != "" {
			in.anchors[a] = p
		}
	}
	if a := textOf(m["$dynamicAnchor"]); a != "" && in.draft >= draft2020 {
		in.anchors[a], in.dynamic[a] = p, p
	}
	if on, _ := m["$recursiveAnchor"].(bool); on && in.draft == draft2019 && pointer == in.pointer {
		in.dynamic[""] = p
	}
	var err error
	in.draft.subschemas(m, func(v any, way ...string) {
		if err == nil {
			err = l.walk(v, pointer+joined(way), in)
		}
	})
	return err
}

// joined returns a path as a JSON pointer (RFC 6901).
func joined(way []string) string {
	var b strings.Builder
	for _, step := range way {
		b.WriteString("/" + escaped(step))
	}
	return b.String()
}

func escaped(step string) string {
	return strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1")
}

// resolve returns the absolute address of a reference.
func resolve(base, reference string) (string, error) {
	u, err := url.Parse(reference)
	if err != nil {
		return "", fmt.Errorf("%q is not a valid reference: %w", reference, err)
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", fmt.Errorf("%q is not a valid address: %w", base, err)
	}
	if b.Opaque != "" { // such as urn:x:y: only a fragment can follow
		if !u.IsAbs() {
			b.Fragment, b.RawFragment = u.Fragment, u.RawFragment
			return b.String(), nil
		}
		return u.String(), nil
	}
	return b.ResolveReference(u).String(), nil
}

// find returns the schema that a schema in a resource refers to.
func (l *library) find(in *resource, reference string) (*place, error) {
	full, err := resolve(in.base, reference)
	if err != nil {
		return nil, err
	}
	address, fragment, _ := strings.Cut(full, "#")
	if fragment, err = url.PathUnescape(fragment); err != nil {
		return nil, fmt.Errorf("%q is not a valid reference: %w", reference, err)
	}
	to, ok := l.resources[address]
	if !ok {
		if d := draftAt(address); d != 0 && fragment == "" {
			return &place{every: d}, nil
		}
		if _, err := l.load(address); err != nil {
			return nil, err
		}
		to = l.resources[address]
	}
	if fragment == "" || fragment[0] == '/' {
		return l.at(to, fragment, reference)
	}
	if p, ok := to.anchors[fragment]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not found", reference)
}

// at follows a pointer in a resource, even to places where no keyword has schemas.
func (l *library) at(in *resource, pointer, reference string) (*place, error) {
	v, seen, near := in.of.root, "", in
	steps := strings.Split(in.pointer+pointer, "/")[1:]
	if in.pointer+pointer == "" {
		steps = nil
	}
	for _, step := range steps {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		found := false
		switch of := v.(type) {
		case map[string]any:
			v, found = of[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(of) {
				v, found = of[i], true
			}
		}
		if !found {
			return nil, fmt.Errorf("%s is not found", reference)
		}
		seen += joined([]string{step})
		if p, ok := in.of.places[seen]; ok {
			near = p.in
		}
	}
	if p, ok := in.of.places[seen]; ok {
		return p, nil
	}
	f := findings{loud: true}
	f.inspect(v, near.draft)
	if err := f.err(); err != nil {
		return nil, fmt.Errorf("%s: %w", reference, err)
	}
	if err := l.walk(v, seen, near); err != nil {
		return nil, err
	}
	return in.of.places[seen], nil
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}
