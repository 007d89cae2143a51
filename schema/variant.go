package schema

import (
	"fmt"
	"strings"
)

// fewTypes is how many types a message lists.
const fewTypes = 8

func (r *recordDecoder) variants() Variants { return r.variantField().Variants() }

func (r *recordDecoder) variantField() Variant {
	return r.v.FieldByIndex(r.s.variant).Addr().Interface().(Variant)
}

// variant decodes the type key among the keys that are no fields, and gives
// back those that look like misspelt fields.
func (r *recordDecoder) variant(keys []*Node, items map[*Node]*Node) (unknown []*Node) {
	variants := r.variants()
	var types, strange []*Node
	for _, key := range keys {
		if variants.Variant(key.Text) != nil {
			types = append(types, key)
		} else {
			strange = append(strange, key)
		}
	}
	if len(types) > 0 {
		r.take(types[0], items[types[0]], variants)
	}
	for _, second := range types[min(1, len(types)):] {
		r.report(second, TwoTypes, fmt.Sprintf("two types, %q and %q%s", second.Text, types[0].Text, lineOf(types[0].Pos)),
			article(variants.Kind())+" has exactly one")
	}
	fields, names := r.s.names(), variants.Names()
	all := append(append([]string{}, fields...), names...)
	words := r.s.words()
	for _, key := range strange {
		near := Nearest(key.Text, all)
		if words[key.Text] != "" || r.s.by[near] != nil || r.elsewhere(key.Text) != "" || r.typed && near == "" && variants.Remedy(key.Text) == "" {
			unknown = append(unknown, key)
			continue
		}
		remedy := variants.Remedy(key.Text)
		if remedy == "" {
			remedy = didYouMean(key.Text, all)
		}
		if remedy == "" {
			remedy = listTypes(variants)
		}
		r.report(key, UnknownType, fmt.Sprintf("unknown %s type %q", variants.Kind(), key.Text), remedy)
		r.typed = true // it was meant as one
	}
	return unknown
}

// take decodes the configuration of the type that a key names.
func (r *recordDecoder) take(key, item *Node, variants Variants) {
	r.typed = true
	path := r.at.path
	r.inside(&frame{key: key, node: item, path: join(r.at.path, key.Text), component: r.s}, func() {
		place := r.Place(item)
		config := variants.Variant(key.Text).Decode(r.Decoder, item)
		r.variantField().SetVariant(key.Text, config, place)
		if r.taken == nil {
			r.taken = map[string]component{}
		}
		r.taken[path] = component{key.Text, config}
	})
}

func (r *recordDecoder) missingType() {
	variants := r.variants()
	at := r.n
	if r.at.key != nil {
		at = r.at.key
	}
	r.report(at, MissingType, "no "+variants.Kind()+" type is given", listTypes(variants))
}

// listTypes says which types there are, or how to find out.
func listTypes(v Variants) string {
	if names := v.Names(); len(names) > 0 && len(names) <= fewTypes {
		return "types are " + strings.Join(names, ", ")
	}
	return "flowd list shows all types"
}
