package doc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
)

func Example() {
	var d doc.Doc
	d.Reset([]byte(`{"status": 503, "user": {"plan":"pro"}, "ms": 1.50}`), nil)

	plan, err := d.Get(doc.MustParsePath("user.plan"))
	fmt.Println(plan, err)

	err = d.Set(doc.MustParsePath("user.country"), "SG")
	fmt.Println(string(d.Bytes()), err)
	// Output:
	// pro <nil>
	// {"status": 503, "user": {"plan":"pro","country":"SG"}, "ms": 1.50} <nil>
}

func TestAnUntouchedPayloadIsGivenBackItself(t *testing.T) {
	data := []byte(event)
	var d doc.Doc
	d.Reset(data, nil)
	if err := d.Unset(doc.MustParsePath("missing.deep")); err != nil {
		t.Fatal(err)
	}
	if got := d.Bytes(); &got[0] != &data[0] || len(got) != len(data) {
		t.Error("the payload was copied")
	}
}

func TestTheZeroDocIsAnEmptyPayload(t *testing.T) {
	var d doc.Doc
	if d.Bytes() == nil || len(d.Bytes()) > 0 || d.Valid() == nil || d.Arena() != nil {
		t.Error("it is not")
	}
	d.Detach()
	if err := d.SetValue(1); err != nil || string(d.Bytes()) != "1" {
		t.Errorf("got %s and %v", d.Bytes(), err)
	}
}

func TestADetachedDocOutlivesItsArenaAndCanBeCopied(t *testing.T) {
	a := new(doc.Arena)
	x, y := doc.MustParsePath("x"), doc.MustParsePath("y")
	var d doc.Doc
	d.Reset([]byte(`{"x":1}`), a)
	if err := d.Set(x, 2); err != nil {
		t.Fatal(err)
	}
	d.Detach()
	a.Reset()
	var other doc.Doc
	other.Reset([]byte(`{"other":"document"}`), a)
	if err := other.Set(x, "elsewhere"); err != nil {
		t.Fatal(err)
	}

	c := d
	if err := d.Set(x, 3); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(y, 4); err != nil {
		t.Fatal(err)
	}
	if got, want := string(d.Bytes())+string(c.Bytes()), `{"x":3}{"x":2,"y":4}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d.Arena() != nil {
		t.Error("a detached document holds its arena")
	}
	d.Attach(a)
	if d.Arena() != a || string(d.Bytes()) != `{"x":3}` {
		t.Errorf("attached again: %s", d.Bytes())
	}
}

func TestAnInvalidDocStaysSoWhenDetached(t *testing.T) {
	d := open(`{"a"`)
	before := d.Valid()
	d.Detach()
	if after := d.Valid(); after != before || before == nil {
		t.Errorf("got %v, then %v", before, after)
	}
	d.Reset([]byte(`{}`), nil)
	if err := d.Valid(); err != nil {
		t.Errorf("after Reset: %v", err)
	}
}

func TestBytesReadFromADocStayAsTheyAre(t *testing.T) {
	a := new(doc.Arena)
	var kept [][]byte
	var want []string
	p := doc.MustParsePath("n")
	for i := range 5000 { // more than one chunk of text
		var d doc.Doc
		d.Reset([]byte(`{"a":1}`), a)
		if err := d.Set(p, strings.Repeat("x", i%50)+fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		raw, _, _ := d.Raw(p)
		kept = append(kept, raw, d.Bytes())
		want = append(want, string(raw), string(d.Bytes()))
		if i%100 == 99 {
			a.Reset()
		}
	}
	for i := range kept {
		if string(kept[i]) != want[i] {
			t.Fatalf("text %d is now %s, was %s", i, kept[i], want[i])
		}
		if len(kept[i]) != cap(kept[i]) {
			t.Fatalf("appending to text %d would overwrite what follows", i)
		}
	}
}

func TestRestoreTakesBackEdits(t *testing.T) {
	do := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	path := doc.MustParsePath
	later := map[string]func(*doc.Doc) error{
		"a set":               func(d *doc.Doc) error { return d.Set(path("a"), 9) },
		"a new key":           func(d *doc.Doc) error { return d.Set(path("z"), 9) },
		"a nested set":        func(d *doc.Doc) error { return d.Set(path("b.c.d"), 9) },
		"an unset":            func(d *doc.Doc) error { return d.Unset(path("a")) },
		"an unset of an edit": func(d *doc.Doc) error { return d.Unset(path("n")) },
		"a rename":            func(d *doc.Doc) error { return d.Rename(path("a"), path("n")) },
		"a move":              func(d *doc.Doc) error { return d.Rename(path("a"), path("b.x")) },
		"a keep":              func(d *doc.Doc) error { return d.Keep([]doc.Path{path("b")}) },
		"splicing":            func(d *doc.Doc) error { err := d.Set(path("q"), 1); d.Bytes(); return err },
		"a new document":      func(d *doc.Doc) error { return d.SetValue([]any{1}) },
		"a reset":             func(d *doc.Doc) error { d.Reset([]byte(`{]`), nil); return nil },
	}
	for name, edit := range later {
		t.Run(name, func(t *testing.T) {
			d := open(`{"a":1,"b":{"c":{}},"a":2}`)
			fresh := d.Mark()
			do(t, d.Set(path("n"), 1))
			do(t, d.Set(path("a"), 3))
			m := d.Mark()
			do(t, edit(d))
			do(t, d.Set(path(""), map[string]any{"all": "new"}))
			d.Restore(m)
			if v, _ := d.Get(path("a")); v != 3 {
				t.Errorf("a is %v, want 3", v)
			}
			if got, want := string(d.Bytes()), `{"b":{"c":{}},"a":3,"n":1}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			d.Restore(fresh)
			if got, want := string(d.Bytes()), `{"a":1,"b":{"c":{}},"a":2}`; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	small, deep, missing := doc.MustParsePath("small"), doc.MustParsePath("user.country"), doc.MustParsePath("missing")
	tag, text := doc.MustParsePath("tags[1]"), []byte(`"text"`)
	calls := map[string]func(*doc.Doc) error{
		"checking":        func(d *doc.Doc) error { return d.Valid() },
		"a small integer": func(d *doc.Doc) error { _, err := d.Get(small); return err },
		"raw text":        func(d *doc.Doc) error { _, _, err := d.Raw(deep); return err },
		"a missing field": func(d *doc.Doc) error { _, err := d.Get(missing); return err },
		"a set":           func(d *doc.Doc) error { return d.Set(level, true) },
		"a new field":     func(d *doc.Doc) error { return d.Set(missing, 7) },
		"a nested set":    func(d *doc.Doc) error { return d.Set(deep, false) },
		"an element":      func(d *doc.Doc) error { return d.SetRaw(tag, text) },
		"an unset":        func(d *doc.Doc) error { return d.Unset(level) },
		"a rename":        func(d *doc.Doc) error { return d.Rename(level, missing) },
		"a restore":       func(d *doc.Doc) error { m := d.Mark(); err := d.Unset(level); d.Restore(m); return err },
	}
	data := []byte(`{"small":7,` + event[1:])
	for name, call := range calls {
		a := new(doc.Arena)
		var d doc.Doc
		n := testing.AllocsPerRun(200, func() {
			a.Reset()
			for range 10 {
				d.Reset(data, a)
				if err := call(&d); err != nil {
					t.Fatal(name, err)
				}
				d.Bytes()
				d.Detach()
			}
		})
		// AllocsPerRun rounds down, so an occasional new chunk of text counts as no allocation.
		if n > 0 {
			t.Errorf("%s allocates %v times in ten messages, want 0", name, n)
		}
	}
}
