package jsonschema

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// draft is a version of JSON Schema. Later drafts are larger.
type draft int

const (
	draft4    draft = 4
	draft6    draft = 6
	draft7    draft = 7
	draft2019 draft = 2019
	draft2020 draft = 2020
)

// draftOf returns the draft that an option names.
func draftOf(name string) draft {
	switch name {
	case "4":
		return draft4
	case "6":
		return draft6
	case "7":
		return draft7
	case "2019-09":
		return draft2019
	}
	return draft2020
}

// draftAt returns the draft whose meta-schema has an address, or 0.
func draftAt(address string) draft {
	address = strings.TrimSuffix(address, "#")
	if rest, ok := strings.CutPrefix(address, "https://"); ok {
		address = "http://" + rest
	}
	if before, word, ok := strings.Cut(address, "/meta/"); ok && word != "" {
		address = before + "/schema" // the meta-schemas of its vocabularies
	}
	switch address {
	case "http://json-schema.org/draft-04/schema":
		return draft4
	case "http://json-schema.org/draft-06/schema":
		return draft6
	case "http://json-schema.org/draft-07/schema":
		return draft7
	case "http://json-schema.org/draft/2019-09/schema":
		return draft2019
	case "http://json-schema.org/draft/2020-12/schema", "http://json-schema.org/schema":
		return draft2020
	}
	return 0
}

// shape is the required form of a keyword's value.
type shape uint8

const (
	aSchema      shape = iota
	schemaOrBool       // draft 4 allows booleans here, although they are not schemas there
	schemaList
	schemaOrList
	schemaMap
	patternMap // of schemas, by regular expression
	dependMap  // of schemas or lists of names
	namesMap
	names
	nameOrNames // of types
	text
	pattern
	boolean
	list
	choices
	count
	number
	positive
	limit // a boolean in draft 4, a number later
	vocabularies
)

// keyword describes a keyword, from its first draft to its last.
type keyword struct {
	name     string
	shape    shape
	from, to draft
}

var keywords = [...]keyword{
	{"$anchor", text, draft2019, draft2020}, {"$comment", text, draft7, draft2020},
	{"$defs", schemaMap, draft2019, draft2020}, {"$dynamicAnchor", text, draft2020, draft2020},
	{"$dynamicRef", text, draft2020, draft2020}, {"$id", text, draft6, draft2020},
	{"$recursiveAnchor", boolean, draft2019, draft2019}, {"$recursiveRef", text, draft2019, draft2019},
	{"$ref", text, draft4, draft2020}, {"$schema", text, draft4, draft2020},
	{"$vocabulary", vocabularies, draft2019, draft2020},
	{"additionalItems", schemaOrBool, draft4, draft2019}, {"additionalProperties", schemaOrBool, draft4, draft2020},
	{"allOf", schemaList, draft4, draft2020}, {"anyOf", schemaList, draft4, draft2020},
	{"contains", aSchema, draft6, draft2020}, {"contentEncoding", text, draft7, draft2020},
	{"contentMediaType", text, draft7, draft2020}, {"contentSchema", aSchema, draft2019, draft2020},
	{"definitions", schemaMap, draft4, draft2020}, {"dependencies", dependMap, draft4, draft2020},
	{"dependentRequired", namesMap, draft2019, draft2020}, {"dependentSchemas", schemaMap, draft2019, draft2020},
	{"deprecated", boolean, draft2019, draft2020}, {"description", text, draft4, draft2020},
	{"else", aSchema, draft7, draft2020}, {"enum", choices, draft4, draft2020},
	{"examples", list, draft7, draft2020}, {"exclusiveMaximum", limit, draft4, draft2020},
	{"exclusiveMinimum", limit, draft4, draft2020}, {"format", text, draft4, draft2020},
	{"id", text, draft4, draft4}, {"if", aSchema, draft7, draft2020},
	{"items", schemaOrList, draft4, draft2019}, {"items", aSchema, draft2020, draft2020},
	{"maxContains", count, draft2019, draft2020}, {"maxItems", count, draft4, draft2020},
	{"maxLength", count, draft4, draft2020}, {"maxProperties", count, draft4, draft2020},
	{"maximum", number, draft4, draft2020}, {"minContains", count, draft2019, draft2020},
	{"minItems", count, draft4, draft2020}, {"minLength", count, draft4, draft2020},
	{"minProperties", count, draft4, draft2020}, {"minimum", number, draft4, draft2020},
	{"multipleOf", positive, draft4, draft2020}, {"not", aSchema, draft4, draft2020},
	{"oneOf", schemaList, draft4, draft2020}, {"pattern", pattern, draft4, draft2020},
	{"patternProperties", patternMap, draft4, draft2020}, {"prefixItems", schemaList, draft2020, draft2020},
	{"properties", schemaMap, draft4, draft2020}, {"propertyNames", aSchema, draft6, draft2020},
	{"readOnly", boolean, draft7, draft2020}, {"required", names, draft4, draft2020},
	{"then", aSchema, draft7, draft2020}, {"title", text, draft4, draft2020},
	{"type", nameOrNames, draft4, draft2020}, {"unevaluatedItems", aSchema, draft2019, draft2020},
	{"unevaluatedProperties", aSchema, draft2019, draft2020}, {"uniqueItems", boolean, draft4, draft2020},
	{"writeOnly", boolean, draft7, draft2020},
}

var byName = sync.OnceValue(func() map[string][]keyword {
	all := make(map[string][]keyword, len(keywords))
	for _, k := range keywords {
		all[k.name] = append(all[k.name], k)
	}
	return all
})

// keyword returns the keyword with a name, if the draft has it.
func (d draft) keyword(name string) (k keyword, ok bool) {
	for _, k := range byName()[name] {
		if k.from <= d && d <= k.to {
			return k, true
		}
	}
	return k, false
}

// subschemas calls visit with every direct subschema, and the path to it.
func (d draft) subschemas(of map[string]any, visit func(v any, way ...string)) {
	for name, v := range of {
		k, ok := d.keyword(name)
		if !ok {
			continue
		}
		switch k.shape {
		case aSchema, schemaOrBool:
			visit(v, name)
		case schemaList, schemaOrList:
			some, ok := v.([]any)
			if !ok && k.shape == schemaOrList {
				visit(v, name)
			}
			for i, s := range some {
				visit(s, name, strconv.Itoa(i))
			}
		case schemaMap, patternMap, dependMap:
			some, _ := v.(map[string]any)
			for key, s := range some {
				if _, isNames := s.([]any); !isNames {
					visit(s, name, key)
				}
			}
		}
	}
}

// inspect reports what is wrong with a schema and its subschemas: the values of keywords must have the right shape.
func (f *findings) inspect(v any, d draft) {
	f.inspected++
	m, ok := v.(map[string]any)
	if !ok {
		if _, isBool := v.(bool); !isBool || d == draft4 {
			f.add(wrongType(v, schemaTypes(d)))
		}
		return
	}
	if named := draftAt(textOf(m["$schema"])); named != 0 {
		d = named
	}
	for name, v := range m {
		f.inspected++
		if k, ok := d.keyword(name); ok {
			f.at = append(f.at, name)
			f.value(v, k.shape, d)
			f.at = f.at[:len(f.at)-1]
		}
	}
	if d == draft4 {
		for _, name := range [...]string{"minimum", "maximum"} {
			exclusive := "exclusive" + strings.ToUpper(name[:1]) + name[1:]
			if _, ok := m[exclusive]; ok && m[name] == nil {
				f.add(fmt.Sprintf("%s is beside no %s", exclusive, name))
			}
		}
	}
}

func schemaTypes(d draft) string {
	if d == draft4 {
		return "object"
	}
	return "object or boolean"
}

// value checks the value of a keyword.
func (f *findings) value(v any, want shape, d draft) {
	switch want {
	case aSchema:
		f.inspect(v, d)
	case schemaOrBool:
		if _, ok := v.(bool); !ok {
			f.inspect(v, d)
		}
	case schemaList:
		f.schemaList(v, d)
	case schemaOrList:
		if _, ok := v.([]any); ok {
			f.schemaList(v, d)
			return
		}
		f.inspect(v, d)
	case schemaMap, patternMap, dependMap, namesMap:
		f.members(v, want, d)
	case names:
		f.names(v, d == draft4)
	case nameOrNames:
		f.types(v)
	case text, pattern:
		s, ok := v.(string)
		if !ok {
			f.add(wrongType(v, "string"))
		} else if want == pattern {
			f.pattern(s)
		}
	case boolean:
		f.kind(v, "boolean")
	case list:
		f.kind(v, "array")
	case choices:
		f.choices(v, d)
	case limit:
		if d == draft4 {
			f.kind(v, "boolean")
			return
		}
		f.kind(v, "number")
	case number:
		f.kind(v, "number")
	case positive:
		if f.kind(v, "number") && rational(v).Sign() <= 0 {
			f.add("must be more than 0")
		}
	case count:
		if f.kind(v, "number") && (!isInteger(v) || rational(v).Sign() < 0) {
			f.add("must be a whole number, and not less than 0")
		}
	case vocabularies:
		f.kind(v, "object")
	}
}

// kind reports whether a value has a type.
func (f *findings) kind(v any, want string) bool {
	if typeOf(v) != want {
		f.add(wrongType(v, want))
		return false
	}
	return true
}

func (f *findings) schemaList(v any, d draft) {
	if !f.kind(v, "array") {
		return
	}
	some := v.([]any)
	if len(some) == 0 {
		f.add("must not be empty")
	}
	for i := range some {
		f.below(strconv.Itoa(i), func() { f.inspect(some[i], d) })
	}
}

func (f *findings) members(v any, want shape, d draft) {
	if !f.kind(v, "object") {
		return
	}
	for key, item := range v.(map[string]any) {
		f.below(key, func() {
			if want == patternMap {
				f.pattern(key)
			}
			if _, ok := item.([]any); want == namesMap || want == dependMap && ok {
				f.names(item, d == draft4)
				return
			}
			f.inspect(item, d)
		})
	}
}

func (f *findings) names(v any, some bool) {
	if !f.kind(v, "array") {
		return
	}
	all := v.([]any)
	if some && len(all) == 0 {
		f.add("must not be empty")
	}
	for i, name := range all {
		f.below(strconv.Itoa(i), func() { f.kind(name, "string") })
	}
	f.unique(all)
}

func (f *findings) unique(all []any) {
	f.inspected += weigh(all)
	if i, j, ok := twins(all); ok {
		f.add(equalItems(i, j))
	}
}

func (f *findings) types(v any) {
	all, ok := v.([]any)
	if !ok {
		all = []any{v}
	} else if len(all) == 0 {
		f.add("must not be empty")
	}
	for i, name := range all {
		if s, _ := name.(string); !slices.Contains(typeNames[:], s) {
			wrong := func() { f.add("must be one of " + strings.Join(typeNames[:], ", ")) }
			if ok {
				f.below(strconv.Itoa(i), wrong)
				continue
			}
			wrong()
		}
	}
	f.unique(all)
}

func (f *findings) choices(v any, d draft) {
	if !f.kind(v, "array") || d > draft7 {
		return
	}
	if len(v.([]any)) == 0 {
		f.add("must not be empty")
	}
	f.unique(v.([]any))
}

func (f *findings) pattern(s string) {
	f.inspected += len(s)
	if len(s) > longestPattern {
		f.add(fmt.Sprintf("is longer than %d bytes", longestPattern))
	} else if _, err := syntax.Parse(s, syntax.Perl); err != nil {
		f.add(err.Error())
	}
}
