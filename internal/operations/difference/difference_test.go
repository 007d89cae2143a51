package difference

import (
	"testing"

	"github.com/flowd-io/flowd/engine/doc"
	"github.com/google/go-cmp/cmp"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		name, before, after string
		want                []Change
	}{
		{"nothing", `{"a":[1,{"b":null}]}`, `{"a":[1.0,{"b":null}]}`, nil},
		{"fields", `{"a":1,"b":{"c":true},"d":[1,2]}`, `{"b":{"c":false},"d":[1],"e f":"x"}`, []Change{
			{"a", "1", ""}, {"b.c", "true", "false"}, {"d[1]", "2", ""}, {`["e f"]`, "", `"x"`}}},
		{"null is not missing", `{"a":null}`, `{}`, []Change{{"a", "null", ""}}},
		{"another kind", `{"a":[1]}`, `{"a":{"0":1}}`, []Change{{"a", "[1]", `{"0":1}`}}},
		{"large integers are exact", `9007199254740993`, `9007199254740992`, []Change{{"", "9007199254740993", "9007199254740992"}}},
	} {
		before, err := doc.Decode([]byte(c.before))
		if err != nil {
			t.Fatal(err)
		}
		after, err := doc.Decode([]byte(c.after))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, Of("", before, after)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
	}
}
