package schema

import (
	"fmt"
	"slices"
	"strings"
)

// fewTypes is how many types a message lists.
const fewTypes = 8

func (r *recordDecoder) variants() Variants { return r.variantField().Variants() }

func (r *recordDecoder) variantField() Variant {
	return r.v.FieldByIndex(r.s.variant).Addr().Interface().(Variant)
}

// variant decodes the type key among the keys that are not fields, and returns those that
// look like misspelt fields.
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
		r.report(second, TwoTypes, fmt.Sprintf("two types, %q and %q%s", second.Text, types[0].Text,
			lineOf(types[0].Pos)),
			article(variants.Kind())+" has exactly one")
	}
	fields, names := r.s.names(), variants.Names()
	all := append(append([]string{}, fields...), names...)
	words := r.s.words()
	if !r.typed && len(strange) > 0 {
		i := meantAsType(strange, items, variants)
		strange[0], strange[i] = strange[i], strange[0]
	}
	lost := false // the type is unknown, and with it what belongs to it
	for _, key := range strange {
		near := Nearest(key.Text, all)
		if lost && near == "" && words[key.Text] == "" && r.elsewhere(key.Text) == "" {
			continue
		}
		if words[key.Text] != "" || r.s.by[near] != nil || r.elsewhere(key.Text) != "" || r.typed && near == "" &&
			variants.Remedy(key.Text) == "" {
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
		r.typed, lost = true, true // it was meant as one
	}
	return unknown
}

// meantAsType is the first of the keys that looks most like a type: a word that is
// known for one, a misspelt one, one with a mapping.
func meantAsType(keys []*Node, items map[*Node]*Node, variants Variants) int {
	for _, like := range []func(*Node) bool{
		func(k *Node) bool { return variants.Remedy(k.Text) != "" },
		func(k *Node) bool { return Nearest(k.Text, variants.Names()) != "" },
		func(k *Node) bool { return items[k].Kind == MapNode },
	} {
		if i := slices.IndexFunc(keys, like); i >= 0 {
			return i
		}
	}
	return 0
}

// take decodes the configuration of the type that a key names.
func (r *recordDecoder) take(key, item *Node, variants Variants) {
	r.typed = true
	path := r.at.path
	r.inside(&frame{key: key, node: item, path: Join(r.at.path, key.Text), component: r.s}, func() {
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
