package doc_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
)

// modelSet returns v with a value at keys. modelFits must have reported that this is possible.
func modelSet(v any, keys []any, value any) any {
	if len(keys) == 0 {
		return value
	}
	if i, ok := keys[0].(int); ok {
		list := slices.Clone(v.([]any))
		list[i] = modelSet(list[i], keys[1:], value)
		return list
	}
	m, _ := v.(map[string]any)
	out := map[string]any{}
	for k, e := range m {
		out[k] = e
	}
	out[keys[0].(string)] = modelSet(out[keys[0].(string)], keys[1:], value)
	return out
}

// modelUnset returns v without the value at keys.
func modelUnset(v any, keys []any) any {
	switch k := keys[0].(type) {
	case int:
		list, ok := v.([]any)
		if !ok || k >= len(list) {
			return v
		}
		if len(keys) == 1 {
			return slices.Delete(list, k, k+1)
		}
		list[k] = modelUnset(list[k], keys[1:])
	case string:
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		if e, ok := m[k]; ok && len(keys) > 1 {
			m[k] = modelUnset(e, keys[1:])
		} else if ok {
			delete(m, k)
		}
	}
	return v
}

// modelFits reports whether a value can be set at keys.
func modelFits(v any, keys []any) bool {
	if len(keys) == 0 {
		return true
	}
	switch k := keys[0].(type) {
	case int:
		list, ok := v.([]any)
		return ok && k < len(list) && modelFits(list[k], keys[1:])
	case string:
		if v == nil {
			return modelFits(nil, keys[1:])
		}
		m, ok := v.(map[string]any)
		return ok && modelFits(m[k], keys[1:])
	}
	return false
}

var (
	genSpace  = rapid.SampledFrom([]string{"", "", "", " ", "\n  ", "\t"})
	genKey    = rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`, `"\u0061"`, `"é"`, `"a b"`, `"x\"y"`, `""`})
	genScalar = rapid.SampledFrom([]string{`0`, `-1`, `1.50`, `1e3`, `12345678901234567890`, `"s"`, `"}],{["`,
		`"\n\u00e9"`, `true`, `null`, `"longer than eight"`})
)

// genValue draws JSON text with white space, equal keys, and unusual spellings.
func genValue(t *rapid.T, deep int) string {
	sp := func() string { return genSpace.Draw(t, "space") }
	kind := 0
	if deep > 0 {
		kind = rapid.IntRange(0, 3).Draw(t, "kind")
	}
	n := 0
	if kind > 0 {
		n = rapid.IntRange(0, 4).Draw(t, "n")
	}
	var b bytes.Buffer
	switch kind {
	case 0:
		return genScalar.Draw(t, "scalar")
	case 1:
		b.WriteString("[" + sp())
		for i := range n {
			if i > 0 {
				b.WriteString(sp() + "," + sp())
			}
			b.WriteString(genValue(t, deep-1))
		}
		b.WriteString(sp() + "]")
	default:
		b.WriteString(genObject(t, deep, n))
	}
	return b.String()
}

func genObject(t *rapid.T, deep, n int) string {
	sp := func() string { return genSpace.Draw(t, "space") }
	b := "{" + sp()
	for i := range n {
		if i > 0 {
			b += sp() + "," + sp()
		}
		b += genKey.Draw(t, "key") + sp() + ":" + sp() + genValue(t, deep-1)
	}
	return b + sp() + "}"
}

var genPath = rapid.Custom(func(t *rapid.T) doc.Path {
	parts := []any{rapid.SampledFrom([]any{"a", "b", "c", "é", "a b", `x"y`, "new"}).Draw(t, "first")}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		parts = append(parts, rapid.SampledFrom([]any{"a", "b", "new", 0, 1}).Draw(t, "part"))
	}
	return doc.MakePath(parts...)
})

// entry is a field with its source text.
type entry struct{ key, raw string }

// fields returns the fields of a document in order. If keys are equal, only the last one counts.
func fields(t *rapid.T, data []byte) (list []entry) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		t.Fatalf("%s is no object: %v", data, err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			t.Fatal(err)
		}
		list = append(list, entry{key.(string), string(raw)})
	}
	return list
}

func last(list []entry, key string) int {
	for i, e := range slices.Backward(list) {
		if e.key == key {
			return i
		}
	}
	return -1
}

// others returns the entries with other keys.
func others(list []entry, key string) []entry {
	return slices.DeleteFunc(slices.Clone(list), func(e entry) bool { return e.key == key })
}

// TestEditSequencesMatchAModel applies random edits to a document and to maps.
func TestEditSequencesMatchAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := genSpace.Draw(t, "before") + genObject(t, 3, rapid.IntRange(0, 5).Draw(t, "fields"))
		d := new(doc.Doc)
		var a *doc.Arena
		if rapid.Bool().Draw(t, "arena") {
			a = new(doc.Arena)
		}
		d.Reset([]byte(text), a)
		model := decode(t, []byte(text))
		shape := fields(t, []byte(text)) // order and text of the root's fields

		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				p, value := genPath.Draw(t, "path"), genValue(t, 2)
				err := d.SetRaw(p, []byte(value))
				if fits := modelFits(model, p.Keys()); (err == nil) != fits {
					t.Fatalf("set %s: got %v, want success %v", p, err, fits)
				}
				if err != nil {
					return
				}
				model = modelSet(model, p.Keys(), decode(t, []byte(value)))
				raw, _, _ := d.Raw(doc.MakePath(p.Keys()[0]))
				shape = setEntry(shape, p.Keys()[0].(string), string(raw))
			},
			"unset": func(t *rapid.T) {
				p := genPath.Draw(t, "path")
				found := modelHas(model, p.Keys())
				if err := d.Unset(p); err != nil {
					t.Fatal(err)
				}
				model = modelUnset(model, p.Keys())
				key := p.Keys()[0].(string)
				switch {
				case !found:
				case p.Len() == 1:
					shape = others(shape, key)
				default:
					raw, _, _ := d.Raw(doc.MakePath(key))
					shape = setEntry(shape, key, string(raw))
				}
			},
			"rename": func(t *rapid.T) {
				keys := rapid.SampledFrom([]string{"a", "b", "c", "é", "new"})
				from, to := keys.Draw(t, "from"), keys.Draw(t, "to")
				i := last(shape, from)
				if err := d.Rename(doc.MakePath(from), doc.MakePath(to)); err != nil {
					t.Fatal(err)
				}
				if i < 0 || from == to {
					return
				}
				m := model.(map[string]any)
				m[to] = m[from]
				delete(m, from)
				// The old field with the new name is removed. Of equal keys, only the last one stays.
				shape[i].key = "\x00"
				shape = others(others(shape, from), to)
				shape[last(shape, "\x00")].key = to
			},
			"splice": func(*rapid.T) { d.Bytes() },
			"detach": func(*rapid.T) { d.Detach(); d.Attach(a) },
			"undo": func(t *rapid.T) {
				m := d.Mark()
				_ = d.SetRaw(genPath.Draw(t, "path"), []byte(`"undone"`))
				_ = d.Unset(genPath.Draw(t, "path"))
				d.Restore(m)
			},
			"": func(t *rapid.T) {
				c := *d
				m := d.Mark()
				got := c.Bytes()
				d.Restore(m)
				if v := decode(t, got); !reflect.DeepEqual(v, model) {
					t.Fatalf("%s means %v, want %v", got, v, model)
				}
				if list := fields(t, got); !slices.Equal(list, shape) {
					t.Fatalf("fields are  %q\nwant %q", list, shape)
				}
				for key, want := range model.(map[string]any) {
					if v, err := d.Get(doc.MakePath(key)); err != nil || !reflect.DeepEqual(v, want) {
						t.Fatalf("%q reads %v and %v, want %v", key, v, err, want)
					}
				}
			},
		})
	})
}

func decode(t *rapid.T, data []byte) any {
	v, err := doc.Decode(data)
	if err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return v
}

// modelHas reports whether there is a value at keys. A text has no elements.
func modelHas(v any, keys []any) bool {
	for _, key := range keys {
		there := false
		switch of := v.(type) {
		case map[string]any:
			name, isName := key.(string)
			v, there = of[name]
			there = there && isName
		case []any:
			i, isIndex := key.(int)
			if there = isIndex && i < len(of); there {
				v = of[i]
			}
		}
		if !there {
			return false
		}
	}
	return true
}

// setEntry sets the entry of key to raw, or adds one at the end.
func setEntry(list []entry, key, raw string) []entry {
	i := last(list, key)
	if i < 0 {
		return append(list, entry{key, raw})
	}
	list[i] = entry{"\x00", raw}
	list = others(list, key)
	list[last(list, "\x00")].key = key
	return list
}

// TestUntouchedBytesStay sets one field, and checks that everything around it is unchanged.
func TestUntouchedBytesStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		head, tail := genObject(t, 2, rapid.IntRange(0, 4).Draw(t, "n")),
			genObject(t, 2, rapid.IntRange(0, 4).Draw(t, "m"))
		sp := func() string { return genSpace.Draw(t, "space") }
		before := sp() + "{" + sp() + `"head"` + sp() + ":" + sp() + head + sp() + "," + sp() + `"k"` + sp() + ":" +
			sp()
		after := sp() + "," + sp() + `"tail":` + tail + sp() + "}" + sp()
		var d doc.Doc
		d.Reset([]byte(before+genValue(t, 2)+after), nil)
		if err := d.SetRaw(doc.MakePath("k"), []byte("7")); err != nil {
			t.Fatal(err)
		}
		if got, want := string(d.Bytes()), before+"7"+after; got != want {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	})
}
