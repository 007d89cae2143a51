package doc_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
)

func TestParsePath(t *testing.T) {
	tests := []struct {
		text string
		want []any
	}{
		{``, []any{}},
		{`a`, []any{"a"}},
		{`a.b`, []any{"a", "b"}},
		{`a.b[0]["odd name"]`, []any{"a", "b", 0, "odd name"}},
		{`[0]`, []any{0}},
		{`[12][3].x`, []any{12, 3, "x"}},
		{`["a.b"].c`, []any{"a.b", "c"}},
		{`['single "quoted"']`, []any{`single "quoted"`}},
		{`["a\"b\\c\n\u00e9"]`, []any{"a\"b\\c\né"}},
		{`[""]`, []any{""}},
		{`["]"]`, []any{"]"}},
		{`$ref._x9`, []any{"$ref", "_x9"}},
		{`größe.名前`, []any{"größe", "名前"}},
		{`in.type.null`, []any{"in", "type", "null"}},
	}
	for _, tt := range tests {
		p, err := doc.ParsePath(tt.text)
		if err != nil || !reflect.DeepEqual(p.Keys(), tt.want) {
			t.Errorf("%s: got %q and %v, want %q", tt.text, p.Keys(), err, tt.want)
		}
		if p.String() != tt.text {
			t.Errorf("%s: prints as %s", tt.text, p)
		}
		if q := doc.MakePath(tt.want...); !q.Equal(p) {
			t.Errorf("%s: MakePath gives %s", tt.text, q)
		}
		if q, err := doc.ParsePath(doc.MakePath(tt.want...).String()); err != nil || !q.Equal(p) {
			t.Errorf("%s: written and read again gives %s and %v", tt.text, q, err)
		}
	}
}

func TestInvalidPaths(t *testing.T) {
	tests := []struct{ text, want string }{
		{`.a`, `path ".a": expected a name (quote a key that is not a name: ["x-y"]) at byte 0`},
		{`a..b`, `path "a..b": expected a name (quote a key that is not a name: ["x-y"]) at byte 2`},
		{`a.`, `path "a.": expected a name (quote a key that is not a name: ["x-y"]) at byte 2`},
		{`a.[0]`, `path "a.[0]": expected a name (quote a key that is not a name: ["x-y"]) at byte 2`},
		{`a.0`, `path "a.0": expected a name (quote a key that is not a name: ["x-y"]) at byte 2`},
		{`a-b`, `path "a-b": expected '.' or '[' (quote a key that is not a plain name: ["x-y"]) at byte 1`},
		{`a b`, `path "a b": expected '.' or '[' (quote a key that is not a plain name: ["x-y"]) at byte 1`},
		{`a[0]b`, `path "a[0]b": expected '.' or '[' (quote a key that is not a plain name: ["x-y"]) at byte 4`},
		{`a[`, `path "a[": '[' is never closed at byte 1`},
		{`a[0`, `path "a[0": '[' is never closed at byte 1`},
		{`a[]`, `path "a[]": expected an index from 0 or a quoted key at byte 2`},
		{`a[-1]`, `path "a[-1]": expected an index from 0 or a quoted key at byte 2`},
		{`a[x]`, `path "a[x]": expected an index from 0 or a quoted key at byte 2`},
		{`a[+1]`, `path "a[+1]": expected an index from 0 or a quoted key at byte 2`},
		{`a[99999999999999999999]`,
			`path "a[99999999999999999999]": expected an index from 0 or a quoted key at byte 2`},
		{`a["x]`, `path "a[\"x]": a quoted key is never closed at byte 2`},
		{`a["x"`, `path "a[\"x\"": expected ']' after a key at byte 5`},
		{`a["\q"]`, `path "a[\"\\q\"]": unknown escape in a quoted key at byte 3`},
		{"a\xff", `path "a\xff": expected '.' or '[' (quote a key that is not a plain name: ["x-y"]) at byte 1`},
	}
	for _, tt := range tests {
		_, err := doc.ParsePath(tt.text)
		var e *doc.PathError
		if !errors.As(err, &e) || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}

func TestAppendLeavesThePathAsItWas(t *testing.T) {
	p := doc.MustParsePath("a.b")
	q, r := p.Append("c", 0), p.Append("x y")
	if p.String() != "a.b" || q.String() != "a.b.c[0]" || r.String() != `a.b["x y"]` {
		t.Errorf("got %s, %s, %s", p, q, r)
	}
	if !doc.MakePath().IsZero() || p.Len() != 2 {
		t.Error("lengths are wrong")
	}
}

func FuzzParsePath(f *testing.F) {
	for _, s := range []string{``, `a.b[0]["odd name"]`, `['x']`, `a["\u00e9"]`, `a[`, "a\xff", `größe`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := doc.ParsePath(s)
		if err != nil {
			var e *doc.PathError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(s) {
				t.Fatalf("error %v", err)
			}
			return
		}
		q, err := doc.ParsePath(doc.MakePath(p.Keys()...).String())
		if err != nil || !q.Equal(p) {
			t.Fatalf("%q: written and read again gives %q and %v", s, q, err)
		}
	})
}

func TestAPathMayBeginWithThis(t *testing.T) {
	tests := []struct {
		text string
		want []any
	}{
		{`this`, []any{}},
		{`this.a[0].b`, []any{"a", 0, "b"}},
		{`this["odd name"]`, []any{"odd name"}},
		{`this[0]`, []any{0}},
		{`this.this`, []any{"this"}},
		{`this["this"].x`, []any{"this", "x"}},
		{`["this"]`, []any{"this"}},
		{`a.this`, []any{"a", "this"}},
		{`this.this.this`, []any{"this", "this"}},
		{`thistle`, []any{"thistle"}},
		{`a.bc`, []any{"a", "bc"}},
	}
	for _, tt := range tests {
		p, err := doc.ParsePath(tt.text)
		if err != nil || !reflect.DeepEqual(p.Keys(), tt.want) {
			t.Errorf("%s: got %q and %v, want %q", tt.text, p.Keys(), err, tt.want)
		}
		made := doc.MakePath(tt.want...)
		if q, err := doc.ParsePath(made.String()); err != nil || !q.Equal(p) {
			t.Errorf("%s: written as %s and read again gives %s and %v", tt.text, made, q, err)
		}
	}
	for _, text := range []string{`this.`, `this..a`, `this a`} {
		if p, err := doc.ParsePath(text); err == nil {
			t.Errorf("%s: got %q, want an error", text, p.Keys())
		}
	}
}

func TestAnIndexIntoATextIsItsCharacter(t *testing.T) {
	const text = `{"s": "aé\n\ud83d\ude00\"", "l": ["xy"], "e": "", "n": 12}`
	for path, want := range map[string]string{
		`s[0]`: `"a"`, `s[1]`: `"é"`, `s[2]`: `"\n"`, `s[3]`: `"😀"`, `s[4]`: `"\""`, `s[5]`: ``, `s[0][0]`: `"a"`,
		`s[0][1]`: ``,
		`l[0][1]`: `"y"`, `e[0]`: ``, `n[0]`: ``, `missing[0]`: ``, `s[0].x`: ``,
	} {
		var d doc.Doc
		d.Reset([]byte(text), nil)
		raw, ok, err := d.Raw(doc.MustParsePath(path))
		if string(raw) != want || ok != (want != "") || err != nil {
			t.Errorf("%s: got %s, %v, %v, want %s", path, raw, ok, err, want)
		}
	}
	var whole doc.Doc
	whole.Reset([]byte(` "xy" `), nil)
	if v, err := whole.Get(doc.MustParsePath("this[1]")); v != "y" || err != nil {
		t.Errorf("of a text document: got %v, %v, want y", v, err)
	}
	var d doc.Doc
	d.Reset([]byte(text), nil)
	if err := d.Rename(doc.MustParsePath("s[0]"), doc.MustParsePath("first")); err != nil || string(d.Bytes()) != text {
		t.Errorf("a character can't move: got %s, %v", d.Bytes(), err)
	}
}
