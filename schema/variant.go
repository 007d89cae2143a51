package schema

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// fewTypes is how many types a message lists.
const fewTypes = 8

// variants returns the types that a struct chooses from.
func (s *shape) variants() Variants { return s.variantOf(reflect.New(s.rt).Elem()).Variants() }

// variantOf returns the field of a struct that holds its type.
func (s *shape) variantOf(v reflect.Value) Variant {
	return v.FieldByIndex(s.variant).Addr().Interface().(Variant)
}

// variant decodes the type key among the keys that are not fields, and returns those that look like misspelt fields.
func (r *recordDecoder) variant(keys []*Node, items map[*Node]*Node) (unknown []*Node) {
	variants := r.s.variants()
	var types, strange []*Node
	for _, key := range keys {
		if variants.Variant(key.Text) != nil {
			types = append(types, key)
		} else {
			strange = append(strange, key)
		}
	}
	if len(types) > 0 {
		r.decodeType(types[0], items[types[0]], variants)
	}
	for _, second := range types[min(1, len(types)):] {
		r.report(second, TwoTypes, fmt.Sprintf("two types, %q and %q%s", second.Text, types[0].Text,
			lineOf(types[0].Pos)),
			article(variants.Kind())+" has exactly one"+r.apart(second))
	}
	fields, names := r.s.names(), variants.Names()
	all := append(append([]string{}, fields...), names...)
	words := r.s.words()
	if !r.typed && len(strange) > 0 {
		i := meantAsType(strange, items, variants)
		strange[0], strange[i] = strange[i], strange[0]
	}
	lost := false // the type is unknown, and so are its keys
	for _, key := range strange {
		near, remedy := Nearest(key.Text, all), variants.Remedy(key.Text)
		known := words[key.Text] != "" || r.elsewhere(key.Text) != ""
		switch {
		case lost && near == "" && !known:
		case known, r.s.by[near] != nil, r.typed && !lost && near == "":
			unknown = append(unknown, key)
		default:
			r.report(key, UnknownType, fmt.Sprintf("unknown %s type %q", variants.Kind(), key.Text),
				cmp.Or(remedy, didYouMean(key.Text, all), listTypes(variants)))
			r.typed, lost = true, true // it was meant as a type
		}
	}
	return unknown
}

// apart says how to write a second type by itself.
func (r *recordDecoder) apart(second *Node) string {
	if r.at.key == nil {
		return ": begin another item with `- " + second.Text + ": …`"
	}
	return ": give the other a name of its own"
}

// meantAsType returns the first of the keys that look most like a type: a known word, a misspelt name, a key with a
// mapping.
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

// decodeType decodes the configuration of the type that a key names.
func (r *recordDecoder) decodeType(key, item *Node, variants Variants) {
	r.typed = true
	path := r.at.path
	r.inside(&frame{key: key, node: item, path: Join(r.at.path, key.Text), component: r.s}, func() {
		place := r.Place(item)
		written, config := variants.Variant(key.Text).decode(r.Decoder, item)
		r.s.variantOf(r.v).SetVariant(key.Text, config, place)
		r.taken[path] = component{key.Text, written}
	})
}

func (r *recordDecoder) missingType() {
	variants := r.s.variants()
	r.report(cmp.Or(r.at.key, r.n), MissingType, "no "+variants.Kind()+" type is given", listTypes(variants))
}

// listTypes lists the types, or says how to find them.
func listTypes(v Variants) string {
	if names := v.Names(); len(names) > 0 && len(names) <= fewTypes {
		return "types are " + strings.Join(names, ", ")
	}
	return "flowd list shows all types"
}
