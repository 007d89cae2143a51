package parallel

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/flowd-io/flowd/engine/doc"
)

// objects draws the text of an object with white space, duplicate keys, and keys that need escapes. Some objects have more fields than
// are edited in place.
func objects(t *rapid.T, levels int) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"})
	n := rapid.IntRange(0, 6).Draw(t, "fields")
	if levels == top && rapid.IntRange(0, 9).Draw(t, "large") == 0 {
		n = 3 * few
	}
	var b strings.Builder
	b.WriteString("{" + space.Draw(t, "space"))
	for i := range n {
		if i > 0 {
			b.WriteString("," + space.Draw(t, "space"))
		}
		b.WriteString(key(t, n) + space.Draw(t, "space") + ":" + space.Draw(t, "space") + value(t, levels))
	}
	b.WriteString(space.Draw(t, "space") + "}")
	return b.String()
}

const top = 3

func key(t *rapid.T, n int) string {
	if n > 6 {
		return fmt.Sprintf("%q", fmt.Sprint("k", rapid.IntRange(0, 4*few).Draw(t, "key")))
	}
	return rapid.SampledFrom([]string{`"a"`, `"b"`, `"c"`, `"d"`, `"\u0061"`, `""`, `"x.y"`}).Draw(t, "key")
}

func value(t *rapid.T, levels int) string {
	if levels > 0 && rapid.Bool().Draw(t, "nested") {
		return objects(t, levels-1)
	}
	return rapid.SampledFrom([]string{"null", "1", "1.0", "1.10", "2", `"t"`, `[1, {"a": 2}]`, "[]", "true",
		"123456789012345678901234567890"}).Draw(t, "scalar")
}

// meaning returns a text that is the same for equal documents.
func meaning(t *rapid.T, text []byte) string {
	out, ok := canonical(text)
	if !ok {
		t.Fatalf("%s is no document", text)
	}
	return string(out)
}

// put is one edit: the value of a path, or its removal.
type put struct {
	path doc.Path
	raw  string // "": unset
}

func (p put) apply(d *doc.Doc) {
	// A path inside of a scalar can't be set either way.
	if p.raw == "" {
		_ = d.Unset(p.path)
	} else {
		_ = d.SetRaw(p.path, []byte(p.raw))
	}
}

// disjoint draws edits whose paths do not contain each other.
func disjoint(t *rapid.T) (edits []put) {
	taken := map[string]bool{}
	for range rapid.IntRange(1, 8).Draw(t, "edits") {
		var at doc.Path
		for range rapid.IntRange(1, 3).Draw(t, "depth") {
			at = at.Append(rapid.SampledFrom([]string{"a", "b", "c", "d", "k1", "k2"}).Draw(t, "key"))
		}
		clash := false
		for other := range taken {
			clash = clash || strings.HasPrefix(at.String()+".", other+".") ||
				strings.HasPrefix(other+".", at.String()+".")
		}
		if clash {
			continue
		}
		taken[at.String()] = true
		raw := ""
		if rapid.IntRange(0, 3).Draw(t, "set") > 0 {
			raw = value(t, 1)
		}
		edits = append(edits, put{at, raw})
	}
	return edits
}

func TestMergingDisjointChangesIsRunningTheBranchesOneAfterTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := []byte(objects(t, top))
		branches := make([][]put, rapid.IntRange(1, 4).Draw(t, "branches"))
		for _, e := range disjoint(t) {
			i := rapid.IntRange(0, len(branches)-1).Draw(t, "branch")
			branches[i] = append(branches[i], e)
		}
		var inTurn doc.Doc
		inTurn.Reset(before, nil)
		now := payload{before, true}
		for _, edits := range branches {
			var own doc.Doc
			own.Reset(before, nil)
			for _, e := range edits {
				e.apply(&inTurn)
				e.apply(&own)
			}
			now = merge(now, payload{before, true}, payload{own.Bytes(), true})
		}
		if got, want := meaning(t, now.text), meaning(t, inTurn.Bytes()); got != want {
			t.Fatalf("%s\nbranches %v\nmerged   %s\nin turn  %s", before, branches, got, want)
		}
	})
}

func TestOneBranchAloneDecidesTheResult(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := []byte(objects(t, top)), []byte(objects(t, top))
		got := mergeObject(before, before, after, rapid.IntRange(0, 4).Draw(t, "levels"))
		if g, w := meaning(t, got), meaning(t, after); g != w {
			t.Fatalf("before %s\nafter  %s\nmerged %s", before, after, got)
		}
		if got := mergeObject(after, before, before, depth); !bytes.Equal(got, after) {
			t.Fatalf("no change made %s of %s", got, after)
		}
	})
}

// TestALargeObjectIsMergedInTime would take minutes if each field were searched among all others.
func TestALargeObjectIsMergedInTime(t *testing.T) {
	object := func(value int) []byte {
		b := []byte("{")
		for i := range 20_000 {
			b = fmt.Appendf(b, `"k%d":{"v":%d},`, i, value)
		}
		return append(b, `"end":0}`...)
	}
	before, a, b := object(0), object(1), object(2)
	got := mergeObject(mergeObject(before, before, a, depth), before, b, depth)
	if x, ok := canonical(got); !ok || !same(x, b) {
		t.Errorf("%.100s", got)
	}
}

func TestDeepObjectsAreMergedInTime(t *testing.T) {
	nested := func(value string) []byte {
		return []byte(strings.Repeat(`{"a":`, 500) + value + strings.Repeat("}", 500))
	}
	long := `"` + strings.Repeat("x", 1<<18)
	before, a, b := nested(long+`0"`), nested(long+`1"`), nested(long+`2"`)
	got := mergeObject(mergeObject(before, before, a, depth), before, b, depth)
	if !bytes.Equal(got, b) {
		t.Errorf("%.100s", got)
	}
}
