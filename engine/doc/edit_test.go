package doc_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
)

func TestSet(t *testing.T) {
	tests := []struct {
		name, text, path, raw, want string
	}{
		{"a new key goes last", `{"a":1}`, "b", `2`, `{"a":1,"b":2}`},
		{"into an empty object", `{}`, "a", `1`, `{"a":1}`},
		{"into an empty object with room", ` { } `, "a", `1`, ` {"a":1} `},
		{"a key keeps its place", `{"a":1,"b":2,"c":3}`, "b", `"x"`, `{"a":1,"b":"x","c":3}`},
		{"all else keeps its bytes", `{ "a" : 1.50,` + "\n" + ` "b":2 , "c" :[ 1e3 ] }`, "b", `3`,
			`{ "a" : 1.50,` + "\n" + ` "b":3 , "c" :[ 1e3 ] }`},
		{"white space before the brace stays", "{\n  \"a\": 1\n}\n", "b", `2`, "{\n  \"a\": 1,\"b\":2\n}\n"},
		{"null is written", `{"a":1}`, "a", `null`, `{"a":null}`},
		{"the spelling of raw text stays", `{"a":1}`, "a", ` 1.00 `, `{"a":1.00}`},
		{"nested", `{"a":{"b": 1,"c":2}}`, "a.b", `5`, `{"a":{"b": 5,"c":2}}`},
		{"nested, new", `{"a":{"b": 1 }}`, "a.c", `5`, `{"a":{"b": 1,"c":5 }}`},
		{"missing parents become objects", `{"x":0}`, "a.b.c", `1`, `{"x":0,"a":{"b":{"c":1}}}`},
		{"a null parent becomes an object", `{"a":null,"b":1}`, "a.b.c", `1`, `{"a":{"b":{"c":1}},"b":1}`},
		{"a nested null parent", `{"a":{"b":null}}`, "a.b.c", `1`, `{"a":{"b":{"c":1}}}`},
		{"a null document becomes an object", ` null `, "a.b", `1`, `{"a":{"b":1}}`},
		{"an element", `{"a":[1, 2 ,3]}`, "a[1]", `9`, `{"a":[1, 9 ,3]}`},
		{"a field of an element", `{"items":[{"qty":1},{"qty":2}]}`, "items[1].qty", `9`,
			`{"items":[{"qty":1},{"qty":9}]}`},
		{"a null element becomes an object", `{"a":[null]}`, "a[0].b", `1`, `{"a":[{"b":1}]}`},
		{"an element of the document", `[1,[2]]`, "[1][0]", `3`, `[1,[3]]`},
		{"the whole document", `{"a":1}`, "", ` [1] `, `[1]`},
		{"an odd key is quoted", `{}`, `["a\"\\\n\u0001"]`, `1`, `{"a\"\\\n\u0001":1}`},
		{"an escaped key keeps its spelling", `{"\u0061":1}`, "a", `2`, `{"\u0061":2}`},

		{"equal keys become one", `{"a":1,"b":2,"a":3}`, "a", `4`, `{"b":2,"a":4}`},
		{"equal keys at the end", `{"b":2,"a":1 , "a":3}`, "a", `4`, `{"b":2 , "a":4}`},
		{"three equal keys, one escaped", `{"a":1,"\u0061":2,"x":0,"a":3}`, "a", `4`, `{"x":0,"a":4}`},
		{"nested equal keys", `{"o":{"a":1,"a":2}}`, "o.a", `4`, `{"o":{"a":4}}`},
		{"equal parents: the last is edited, the others go", `{"o":{"a":1},"p":0,"o":{"b":2}}`, "o.a", `4`,
			`{"p":0,"o":{"b":2,"a":4}}`},
		{"equal keys elsewhere stay", `{"x":{"a":1,"a":2},"y":1}`, "y", `2`, `{"x":{"a":1,"a":2},"y":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(tt.text)
			p := doc.MustParsePath(tt.path)
			if err := d.SetRaw(p, []byte(tt.raw)); err != nil {
				t.Fatal(err)
			}
			raw, ok, err := d.Raw(p)
			if want := strings.TrimSpace(tt.raw); string(raw) != want || !ok || err != nil {
				t.Errorf("reads %s, %v, %v before splicing, want %s", raw, ok, err, want)
			}
			if got := string(d.Bytes()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			raw, _, _ = d.Raw(p)
			if want := strings.TrimSpace(tt.raw); string(raw) != want {
				t.Errorf("reads %s after splicing, want %s", raw, want)
			}
			if err := open(tt.want).Valid(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSetThatCannotBeDoneLeavesTheDocumentAlone(t *testing.T) {
	long := strings.Repeat("a.", 512) + "a"
	tests := []struct {
		name, text, path string
		value            any
		want             string
	}{
		{"a scalar parent", `{"a":1}`, "a.b", 1, "a.b: a is a number, not an object"},
		{"a string parent, nested", `{"a":{"b":"x"}}`, "a.b.c.d", 1, "a.b.c.d: a.b is a string, not an object"},
		{"an array parent", `{"a":[1]}`, "a.b", 1, "a.b: a is an array, not an object"},
		{"an index in an object", `{"a":{"b":1}}`, "a[0]", 1, "a[0]: a is an object, not an array"},
		{"an index in the document", `{"a":1}`, "[0]", 1, "[0]: the document is an object, not an array"},
		{"an index past the end", `{"a":[1,2,3]}`, "a[5].b", 1, "a[5].b: a has no element 5: there are 3"},
		{"an index just past the end", `{"a":[1]}`, "a[1]", 1, "a[1]: a has no element 1: there are 1"},
		{"an index in nothing", `{"x":0}`, "a.b[0]", 1, "a.b[0]: a.b is not an array, so nothing can be set by index"},
		{"an index in null", `{"a":null}`, "a[0]", 1, "a[0]: a is not an array, so nothing can be set by index"},
		{"an array document", `[1]`, "a", 1, "a: the document is an array, not an object"},
		{"a scalar document", `5`, "a", 1, "a: the document is a number, not an object"},
		{"a null document and an index", `null`, "[0]", 1,
			"[0]: the document is not an array, so nothing can be set by index"},
		{"a value without a JSON form", `{"a":1}`, "a", make(chan int),
			"a: chan int has no JSON form: json: unsupported type: chan int"},
		{"equal keys stay when nothing is done", `{"a":2,"a":1}`, "a.b", 1, "a.b: a is a number, not an object"},
		{"deeper than can be read again", `{}`, long, 1, long + ": nested deeper than 512"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(tt.text)
			err := d.Set(doc.MustParsePath(tt.path), tt.value)
			var e *doc.ValueError
			if !errors.As(err, &e) || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if got := string(d.Bytes()); got != tt.text {
				t.Errorf("the document is now %s", got)
			}
		})
	}
	d := open(`{"a":[1]}`)
	if err := d.Set(doc.MakePath("a", -1), 1); err == nil ||
		err.Error() != "a[-1]: a has no element -1: indexes begin at 0" {
		t.Errorf("a negative index: got %v", err)
	}
	if err := d.SetRaw(doc.MustParsePath("a"), []byte(" ")); err == nil {
		t.Error("no text at all was set")
	}
}

func TestUnset(t *testing.T) {
	tests := []struct {
		name, text string
		paths      []string
		want       string
	}{
		{"the first", `{"a":1, "b":2}`, []string{"a"}, `{"b":2}`},
		{"the last", `{"a":1, "b":2}`, []string{"b"}, `{"a":1}`},
		{"in the middle", `{"a":1, "b":2 , "c":3}`, []string{"b"}, `{"a":1 , "c":3}`},
		{"the only one", "{\n  \"a\": 1\n}\n", []string{"a"}, "{}\n"},
		{"a missing one", `{"a":1 }`, []string{"b", "b.c", "a.b", "[0]"}, `{"a":1 }`},
		{"the first two", `{ "a":1,"b":2,"c":3 }`, []string{"b", "a"}, `{ "c":3 }`},
		{"the last two", `{ "a":1,"b":2,"c":3 }`, []string{"b", "c"}, `{ "a":1 }`},
		{"first and last", `{ "a":1,"b":2,"c":3 }`, []string{"a", "c"}, `{ "b":2 }`},
		{"all", `{ "a":1,"b":2,"c":3 }`, []string{"a", "c", "b"}, `{}`},
		{"lines of a pretty document", "{\n  \"a\": 1,\n  \"b\": 2,\n  \"c\": 3\n}", []string{"b"},
			"{\n  \"a\": 1,\n  \"c\": 3\n}"},
		{"nested", `{"a":{"b":1,"c":2}}`, []string{"a.b"}, `{"a":{"c":2}}`},
		{"nested, the only one", `{"a":{ "b":1 }}`, []string{"a.b"}, `{"a":{}}`},
		{"in the middle of an array", `{"a":[1, 2 ,3]}`, []string{"a[1]"}, `{"a":[1 ,3]}`},
		{"the first of an array", `{"a":[1, 2]}`, []string{"a[0]"}, `{"a":[2]}`},
		{"the last of an array", `{"a":[1, 2 ]}`, []string{"a[1]"}, `{"a":[1 ]}`},
		{"the only one of an array", `{"a":[ 1 ]}`, []string{"a[0]"}, `{"a":[]}`},
		{"past the end of an array", `{"a":[ 1 ]}`, []string{"a[1]"}, `{"a":[ 1 ]}`},
		{"a field of an element", `{"a":[{"b":1,"c":2}]}`, []string{"a[0].b"}, `{"a":[{"c":2}]}`},
		{"equal keys all go", `{"a":1,"b":2,"a":3}`, []string{"a"}, `{"b":2}`},
		{"only equal keys", `{"a":1,"a":3}`, []string{"a"}, `{}`},
		{"equal parents: what is missing in the last is missing", `{"o":{"a":1},"o":{"b":2}}`, []string{"o.a"},
			`{"o":{"a":1},"o":{"b":2}}`},
		{"equal parents become the last", `{"o":{"a":1},"o":{"a":2}}`, []string{"o.a"}, `{"o":{}}`},
		{"below a scalar", `{"a":1}`, []string{"a.b.c"}, `{"a":1}`},
		{"in an array document", `[1,{"a":2}]`, []string{"[1].a", "[0]"}, `[{}]`},
		{"in a scalar document", `5`, []string{"a"}, `5`},
		{"in a null document", `null`, []string{"a"}, `null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(tt.text)
			for _, p := range tt.paths {
				if err := d.Unset(doc.MustParsePath(p)); err != nil {
					t.Fatal(err)
				}
				if raw, ok, _ := d.Raw(doc.MustParsePath(p)); ok && len(tt.paths) == 1 && !strings.HasSuffix(p, "]") {
					t.Errorf("%s is still %s", p, raw)
				}
			}
			if got := string(d.Bytes()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if err := open(`{}`).Unset(doc.Path{}); err == nil {
		t.Error("the whole document was removed")
	}
}

func TestRename(t *testing.T) {
	tests := []struct {
		name, text, from, to, want, err string
	}{
		{"in its place", `{"a":1, "b" : 2.50,"c":3}`, "b", "x", `{"a":1, "x" : 2.50,"c":3}`, ""},
		{"in its place, nested", `{"o":{"a":1,"b":2}}`, "o.a", "o.x", `{"o":{"x":1,"b":2}}`, ""},
		{"what has the name goes", `{"a":1,"b":2,"c":3}`, "c", "a", `{"b":2,"a":3}`, ""},
		{"equal keys become one", `{"a":1,"b":2,"a":3}`, "a", "x", `{"b":2,"x":3}`, ""},
		{"to a name with an escape", `{"a":1}`, "a", `["x\"y"]`, `{"x\"y":1}`, ""},
		{"to itself", `{"a":1,"a":2}`, "a", "a", `{"a":1,"a":2}`, ""},
		{"a missing one", `{"a":1}`, "b", "a", `{"a":1}`, ""},
		{"out of its parent", `{"o":{"a": 1.0 },"b":2}`, "o.a", "a", `{"o":{},"b":2,"a":1.0}`, ""},
		{"into a new parent", `{"a":1,"b":2}`, "a", "o.x", `{"b":2,"o":{"x":1}}`, ""},
		{"into itself", `{"a":{"b":1}}`, "a", "a.c", `{"a":{"c":{"b":1}}}`, ""},
		{"onto its parent", `{"a":{"b":1},"c":2}`, "a.b", "a", `{"a":1,"c":2}`, ""},
		{"from an element", `{"a":[1,2]}`, "a[0]", "b", `{"a":[2],"b":1}`, ""},
		{"below a scalar", `{"a":1,"b":2,"a":3}`, "a", "b.c", `{"a":1,"b":2,"a":3}`,
			"b.c: b is a number, not an object"},
		{"the whole document", `{"a":1}`, "", "b", `{"a":1}`, "the whole document can't be renamed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(tt.text)
			from, to := doc.MustParsePath(tt.from), doc.MustParsePath(tt.to)
			before, moved, _ := d.Raw(from)
			err := d.Rename(from, to)
			if text := errText(err); text != tt.err {
				t.Errorf("got error %q, want %q", text, tt.err)
			}
			if after, _, _ := d.Raw(to); err == nil && moved && string(after) != string(before) {
				t.Errorf("reads %s before splicing, want %s", after, before)
			}
			if got := string(d.Bytes()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestKeep(t *testing.T) {
	tests := []struct {
		name, text, paths, want string
	}{
		{"in the order of the document", `{"a":1,"b":2, "c" : 3.0,"d":4}`, "c a", `{"a":1, "c" : 3.0}`},
		{"nothing named, nothing left", `{"a":1,"b":2}`, "x", `{}`},
		{"everything named", `{ "a":1,"b":{ "c":2 } }`, "a b.c", `{ "a":1,"b":{ "c":2 } }`},
		{"a nested value keeps its parents", `{"a":{"b":1,"c":2},"d":3}`, "a.c", `{"a":{"c":2}}`},
		{"several below one parent", `{"a":{"b":1,"c":2,"d":3}}`, "a.d a.b", `{"a":{"b":1,"d":3}}`},
		{"a parent without it goes", `{"a":{"b":1},"d":3}`, "a.x d", `{"d":3}`},
		{"a value and what is below it", `{"a":{"b":1,"c":2}}`, "a.b a", `{"a":{"b":1,"c":2}}`},
		{"below a scalar", `{"a":1,"b":2}`, "a.x b", `{"b":2}`},
		{"of equal keys the last", `{"a":1,"b":2,"a":3}`, "a", `{"a":3}`},
		{"elements of an array", `{"a":[1, {"x":2,"y":3}, 4]}`, "a[1].x a[2]", `{"a":[{"x":2},4]}`},
		{"all elements", `{"a":[1, 2]}`, "a[0] a[1]", `{"a":[1, 2]}`},
		{"an array document", `[1,2,3]`, "[1]", `[2]`},
		{"an array document without it", `[1]`, "a", `[]`},
		{"a null document", `null`, "a", `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(tt.text)
			var paths []doc.Path
			for p := range strings.FieldsSeq(tt.paths) {
				paths = append(paths, doc.MustParsePath(p))
			}
			if err := d.Keep(paths); err != nil {
				t.Fatal(err)
			}
			if got := string(d.Bytes()); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if err := open(`5`).Keep([]doc.Path{doc.MustParsePath("a")}); errText(err) != "the document is a number, not an object" {
		t.Errorf("a scalar: got %v", err)
	}
	d := open(`{ "a":1 }`)
	if err := d.Keep([]doc.Path{{}}); err != nil || string(d.Bytes()) != `{ "a":1 }` {
		t.Errorf("the whole document: got %s and %v", d.Bytes(), err)
	}
}

func TestEditsSeeEditsBeforeThem(t *testing.T) {
	d := open(`{"a":1,"b":{"c":2}}`)
	set := func(path string, v any) {
		t.Helper()
		if err := d.Set(doc.MustParsePath(path), v); err != nil {
			t.Fatal(err)
		}
	}
	unset := func(path string) {
		t.Helper()
		if err := d.Unset(doc.MustParsePath(path)); err != nil {
			t.Fatal(err)
		}
	}
	set("a", 2)
	set("a", 3)
	set("b.d", []any{1})
	set("b.d[0]", 4)
	unset("b.c")
	set("n", 1)
	set("n", 2)
	unset("n")
	set("m", "x")
	unset("a")
	set("a", 5)
	if err := d.Rename(doc.MustParsePath("m"), doc.MustParsePath("z")); err != nil {
		t.Fatal(err)
	}
	set("z", "y")
	if v, _ := d.Get(doc.MustParsePath("m")); v != nil {
		t.Errorf("the old name still reads %v", v)
	}
	if got, want := string(d.Bytes()), `{"b":{"d":[4]},"z":"y","a":5}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
