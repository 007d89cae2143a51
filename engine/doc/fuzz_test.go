package doc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flowd-io/flowd/engine/doc"
)

func seed(f *testing.F, add func(string)) {
	f.Helper()
	for _, text := range accepted {
		add(text)
	}
	for _, tt := range refused {
		if len(tt.text) < 10000 {
			add(tt.text)
		}
	}
}

// depth returns how deep brackets nest outside of strings.
func depth(data []byte) (deepest int) {
	dec := json.NewDecoder(bytes.NewReader(data))
	for n := 0; ; {
		tok, err := dec.Token()
		if err != nil {
			return deepest
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			n++
			deepest = max(deepest, n)
		case json.Delim('}'), json.Delim(']'):
			n--
		}
	}
}

// oracle decodes with encoding/json; ok is false when the values of some
// numbers lie beyond float64.
func oracle(t *testing.T, data []byte) (v any, ok bool) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("encoding/json: %v", err)
	}
	return goValue(v)
}

func goValue(v any) (any, bool) {
	all := true
	switch v := v.(type) {
	case json.Number:
		s := string(v)
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return int(n), true
		}
		if !strings.ContainsAny(s, ".eE") {
			return doc.Number(s), true
		}
		f, err := strconv.ParseFloat(s, 64)
		mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
		return f, err == nil && (f != 0 || !strings.ContainsAny(mantissa, "123456789"))
	case []any:
		for i := range v {
			var ok bool
			v[i], ok = goValue(v[i])
			all = all && ok
		}
	case map[string]any:
		for k := range v {
			var ok bool
			v[k], ok = goValue(v[k])
			all = all && ok
		}
	}
	return v, all
}

// FuzzDecode compares validity and values with encoding/json.
func FuzzDecode(f *testing.F) {
	seed(f, func(s string) { f.Add([]byte(s)) })
	f.Fuzz(func(t *testing.T, data []byte) {
		var d doc.Doc
		d.Reset(data, nil)
		err := d.Valid()
		want := json.Valid(data) && utf8.Valid(data) && depth(data) <= doc.MaxDepth
		if (err == nil) != want {
			t.Fatalf("got %v, want valid %v", err, want)
		}
		if err != nil {
			var e *doc.SyntaxError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(data) || e.Msg == "" {
				t.Fatalf("error %#v", err)
			}
			return
		}
		got, err := doc.Decode(data)
		std, ok := oracle(t, data)
		if ok = ok && doc.Surrogate(data) == nil; (err == nil) != ok {
			t.Fatalf("got error %v, want none: %v", err, ok)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(got, std) {
			t.Fatalf("got  %#v\nwant %#v", got, std)
		}
		again, err := doc.Append(nil, got)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := doc.Decode(again); err != nil || !reflect.DeepEqual(normal(v), normal(got)) {
			t.Fatalf("encoded and decoded again: %#v and %v", v, err)
		}
	})
}

// FuzzCanonical compares a text rewritten with one that is decoded and encoded.
func FuzzCanonical(f *testing.F) {
	seed(f, func(s string) { f.Add([]byte(s)) })
	for _, s := range canonical {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := []byte("x")
		got, ok := doc.Canonical(before, data)
		if !ok && string(got) != "x" {
			t.Fatalf("nothing is to be appended, got %q", got)
		}
		if open(string(data)).Valid() != nil {
			return // it must not panic, though
		}
		v, err := doc.DecodeRaw([]byte(strings.Trim(string(data), " \t\r\n")))
		if err != nil {
			if ok {
				t.Fatalf("got %s, want the decoder's error %v", got, err)
			}
			return
		}
		want, err := doc.Append(before, v)
		if ok && (err != nil || string(got) != string(want)) {
			t.Fatalf("got  %s\nwant %s, %v", got, want, err)
		}
	})
}

// canonical has texts that are not in the form that Append writes.
var canonical = []string{
	`{"b":1,"a":{"d":[1.50,-0.0,-0,1e3,1E-7],"c":null},"a":true}`, `{"long key one":1,"long key 0":2,"":3,"k":4}`,
	`{"\u0061":1,"a":2,"\"":3,"!":4,"é":5}`, ` { "x" : [ ] , "w" : { } } `,
	`[0.000001,0.0000001,123456789012.345,1234567890123.4567]`,
	`{"a\u0000":1,"a":2}`, `["\ud83d\ude00","\ud800","\/","a\tb"]`, `[12345678901234567890,1e400]`, `{"a":1e400,"a":1}`,
	`{"z":1,"y":2,"x":3,"w":4,"v":5,"u":6,"t":7,"s":8,"r":9,"q":0}`,
	`{"`,
}

func TestCanonicalIsWhatAppendMakes(t *testing.T) {
	texts := append(slices.Clone(canonical), event, string(pretty()), string(large(5<<10)), deep(20), deep(100))
	for _, text := range texts {
		got, ok := doc.Canonical(nil, []byte(text))
		v, err := doc.Decode([]byte(text))
		want, _ := doc.Append(nil, v)
		switch odd := err != nil || strings.Contains(text, `\"`) || strings.Contains(text, `\u0000`) ||
			depth([]byte(text)) > 32; {
		case ok == odd:
			t.Errorf("%s: got %v, want %v", text, ok, !odd)
		case ok && string(got) != string(want):
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// deep returns a document with n nested containers, none of which is sorted.
func deep(n int) string {
	return strings.Repeat(`{"b":`, n) + "1" + strings.Repeat(`,"a":[2]}`, n)
}

// normal turns floats without a fraction into integers, since JSON does not distinguish them.
func normal(v any) any {
	switch v := v.(type) {
	case float64:
		raw, _ := doc.Append(nil, v)
		n, _ := doc.ParseNumber(raw)
		return n
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = normal(v[k])
		}
	}
	return v
}

// FuzzString compares the encoding of strings with encoding/json.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "abc", "a\"b\\c", "\x00\x1f\x7f", "é日😀", "a\xff\xc3", "<&>", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		std, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var want, got string
		if err := json.Unmarshal(std, &want); err != nil {
			t.Fatal(err)
		}
		raw, err := doc.Append(nil, s)
		if (err == nil) != utf8.ValidString(s) {
			t.Fatalf("%q: %v", s, err)
		}
		if err != nil {
			raw = doc.AppendString(nil, s)
		}
		if err := json.Unmarshal(raw, &got); err != nil || got != want {
			t.Fatalf("%q becomes %s and %v", s, raw, err)
		}
		if got := doc.Unquote(raw); got != want {
			t.Fatalf("%s reads %q, want %q", raw, got, want)
		}
	})
}

// FuzzEdit edits arbitrary text by arbitrary paths: the result is valid, reads
// back, and means what a map says; a failure changes nothing.
func FuzzEdit(f *testing.F) {
	seed(f, func(s string) { f.Add([]byte(s), "a", "1") })
	f.Add([]byte(`{"a":{"b":[1,{"c":2}]},"a":null}`), "a.b[1].c", `{"x":[]}`)
	f.Add([]byte(`{"a":1,"\u0061":2,"b":{"a":1,"a":2}}`), "b.a", `"é"`)
	f.Fuzz(func(t *testing.T, data []byte, path, value string) {
		p, err := doc.ParsePath(path)
		if err != nil || open(value).Valid() != nil {
			return
		}
		d := open(string(data))
		if d.Valid() != nil {
			return
		}
		before, _ := oracle(t, data)

		err = d.SetRaw(p, []byte(value))
		after := d.Bytes()
		if err != nil {
			if !bytes.Equal(after, data) {
				t.Fatalf("a failed set (%v) made %s", err, after)
			}
			return
		}
		if err := open(string(after)).Valid(); err != nil {
			t.Fatalf("%s: %v", after, err)
		}
		want, _ := oracle(t, []byte(value))
		if got, _ := oracle(t, after); !reflect.DeepEqual(got, modelSet(before, p.Keys(), want)) {
			t.Fatalf("set %s in %s gives %s", path, data, after)
		}
		if raw, ok, err := d.Raw(p); !ok || err != nil || string(raw) != strings.Trim(value, " \t\r\n") {
			t.Fatalf("reads %s, %v, %v", raw, ok, err)
		}

		if p.IsZero() {
			return
		}
		if err := d.Unset(p); err != nil {
			t.Fatal(err)
		}
		got, _ := oracle(t, d.Bytes())
		model, _ := oracle(t, after)
		if !reflect.DeepEqual(got, modelUnset(model, p.Keys())) {
			t.Fatalf("unset %s in %s gives %s", path, after, d.Bytes())
		}
	})
}

// FuzzSearch searches unchecked text, which SetRaw accepts.
func FuzzSearch(f *testing.F) {
	seed(f, func(s string) { f.Add([]byte(s)) })
	paths := []doc.Path{doc.MustParsePath("x.a"), doc.MustParsePath("x[1]"), doc.MustParsePath("x.a[0].b"),
		doc.MustParsePath("x")}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if open(string(raw)).Valid() != nil && depthAtMost(raw) > doc.MaxDepth {
			return
		}
		for _, p := range paths {
			d := open(`{}`)
			if d.SetRaw(paths[3], raw) != nil {
				return
			}
			_, _ = d.Get(p)
			for range d.Each(p) {
			}
			_ = d.Set(p, 1)
			_ = d.Unset(p)
			_ = d.Keep(paths[:1])
			d.Bytes()
		}
	})
}

// FuzzPeek peeks into text that may not be a valid document. If it is valid, the answer must be right.
func FuzzPeek(f *testing.F) {
	seed(f, func(s string) { f.Add([]byte(s)) })
	for _, s := range []string{`{"a":1,"b":{"a":2},"a":3}`, `{"c":"\"a\":1","a":{"b":2}}`,
		`{"c":"a","\u0061":1,"a":[0,1]}`, `{"a"x"a":1}`} {
		f.Add([]byte(s))
	}
	paths := []doc.Path{doc.MustParsePath("a"), doc.MustParsePath("a.b"), doc.MustParsePath("b"),
		doc.MustParsePath("a[1]"), doc.MustParsePath(`[""]`), doc.MustParsePath(`[":"]`)}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, p := range paths {
			got, ok := open(string(raw)).Peek(p)
			want, there, err := open(string(raw)).Raw(p)
			if ok && err == nil && (!there || !bytes.Equal(got, want)) {
				t.Fatalf("%s of %q: got %q, want %q", p, raw, got, want)
			}
		}
	})
}

func depthAtMost(raw []byte) int {
	return bytes.Count(raw, []byte("[")) + bytes.Count(raw, []byte("{"))
}
