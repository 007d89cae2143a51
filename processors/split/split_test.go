package split_test

import (
	"testing"

	"github.com/flowd-io/flowd/internal/testing/steptest"
	_ "github.com/flowd-io/flowd/processors/split"
)

func TestSplit(t *testing.T) {
	steptest.Run(t, []steptest.Case{
		{Name: "one message per element, as it is spelt", Step: `{"split": "this.items"}`,
			In: []string{`{"items":[{ "a": 1.0 },2,"x y",null]}`}, Want: []string{`{ "a": 1.0 }`, "2", "x y", "null"}},
		{Name: "parts take their message's place", Step: `{"split": "this.items"}`,
			In: []string{`{"items":[1,2]}`, `{"items":[3]}`}, Want: []string{"1", "2", "3"}},
		{Name: "the whole document", Step: `{"split": {}}`, In: []string{`[1,2]`}, Want: []string{"1", "2"}},
		{Name: "elements that an expression makes", Step: `{"split": "map(items, # * 2)"}`,
			In: []string{`{"items":[1,2]}`}, Want: []string{"2", "4"}},
		{Name: "text that an expression makes", Step: `{"split": "split(raw(), \";\")"}`, In: []string{`a;b`},
			Want: []string{"a", "b"}},
		{Name: "lines of the payload", Step: `{"split": "lines"}`, In: []string{"a\r\nb\n\n  \nc"},
			Want: []string{"a", "b", "c"}},
		{Name: "chunks of the payload", Step: `{"split": {"chunk": "2B"}}`, In: []string{"abcde"},
			Want: []string{"ab", "cd", "e"}},

		{Name: "an empty list filters the message", Step: `{"split": "this.items"}`, In: []string{`{"items":[]}`},
			Want: []string{"dropped"}},
		{Name: "no line filters the message", Step: `{"split": "lines"}`, In: []string{"\n"},
			Want: []string{"dropped"}},
		{Name: "a missing list fails the message", Step: `{"split": "this.items"}`, In: []string{`{}`},
			Want: []string{"failed expression: this.items is missing, not a list"}},
		{Name: "an object is no list", Step: `{"split": "this.items"}`, In: []string{`{"items":{}}`},
			Want: []string{"failed expression: this.items is an object, not a list"}},
		{Name: "half of a character is not a payload", Step: `{"split": "this.items"}`, In: []string{`{"items":["\ud800"]}`},
			Want: []string{`failed permanent: the text has half of a character, the surrogate \ud800`}},
		{Name: "text is no list", Step: `{"split": "upper(items)"}`, In: []string{`{"items":"x"}`},
			Want: []string{"failed expression: upper(items) is a string, not a list"}},
		{Name: "a payload that is no document fails", Step: `{"split": "this.items"}`, In: []string{`[1,`},
			Want: []string{"failed decode: "}},
	})
}

func TestSplitRefuses(t *testing.T) {
	steptest.RunRefused(t, []steptest.Refused{
		{Name: "two ways at once", Step: `{"split": {"by": "this.items", "lines": {}}}`, Want: "remove one of them"},
		{Name: "chunks without a size", Step: `{"split": "chunk"}`, Want: "chunk"},
		{Name: "chunks of nothing", Step: `{"split": {"chunk": "0"}}`, Want: "chunk"},
	})
}

func TestSplitConforms(t *testing.T) { steptest.Conforms(t, `{"split": {}}`, `[1,2]`, `[3]`) }
