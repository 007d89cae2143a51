package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

func TestRender(t *testing.T) {
	tests := []struct {
		name, line string
		col        int
		want       string
	}{
		{"plain", "- filter: a >", 13, "- filter: a >\n                ^"},
		{"a tab stays a tab", "a:\tb", 4, "a:\tb\n      \t^"},
		{"wide characters", "名: x", 4, "名: x\n        ^"},
		{"a mark that combines", "e\u0301: x", 5, "e\u0301: x\n       ^"},
		{"a column behind the line", "ab", 9, "ab\n      ^"},
		{"a terminal escape", "a: \x1b[31mx", 4, "a: \ufffd[31mx\n       ^"},
		{"a long line", strings.Repeat("x", 300) + "!" + strings.Repeat("y", 300), 301,
			"…" + strings.Repeat("x", 60) + "!" + strings.Repeat("y", 59) + "…\n" + strings.Repeat(" ", 65) + "^"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := schema.Problem{Code: "c", Message: "m", Excerpt: test.line, Caret: schema.Pos{Line: 1, Col: test.col}}
			if got, want := p.Render(), "m [c]\n    "+test.want; got != want {
				t.Errorf("got\n%q\nwant\n%q", got, want)
			}
		})
	}
}

func TestProblemString(t *testing.T) {
	p := schema.Problem{
		Pos: schema.Pos{File: "orders.yaml", Line: 12, Col: 5}, Path: "inputs.orders.rabbitmq",
		Code: schema.UnknownField, Message: `unknown field "prefetchs"`, Remedy: `did you mean "prefetch"?`,
	}
	want := `orders.yaml:12:5: inputs.orders.rabbitmq: unknown field "prefetchs" (did you mean "prefetch"?) [unknown-field]`
	if got := p.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	p.Path, p.Remedy, p.Pos.Line = "", "", 0
	if got, want := p.String(), `orders.yaml: unknown field "prefetchs" [unknown-field]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	text, err := json.Marshal(schema.Problem{Pos: schema.Pos{File: "f", Line: 1, Col: 2}, Code: "c", Message: "m"})
	if err != nil || string(text) != `{"pos":{"file":"f","line":1,"col":2},"code":"c","message":"m"}` {
		t.Errorf("JSON is %s, %v", text, err)
	}
}

func TestCodes(t *testing.T) {
	schema.AddCode("test-code", "For a test.")
	found := false
	for _, c := range schema.Codes() {
		found = found || c.Name == "test-code"
		if c.Doc == "" || !strings.HasSuffix(c.Doc, ".") {
			t.Errorf("code %s has no sentence: %q", c.Name, c.Doc)
		}
	}
	if !found {
		t.Error("an added code is not listed")
	}
}

func TestNearest(t *testing.T) {
	words := []string{"prefetch", "queue", "url", "max_in_flight", "timeout", "set", "filter"}
	for word, want := range map[string]string{
		"prefetchs": "prefetch", "prefetch_count": "prefetch", "maxInFlight": "max_in_flight",
		"Queue": "queue", "ulr": "url", "fliter": "filter", "sum": "", "time": "", "": "", "x": "",
		strings.Repeat("prefetch", 1000): "",
	} {
		if got := schema.Nearest(word, words); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for text, want := range map[string]schema.Size{
		"0": 0, "512": 512, "64KiB": 64 << 10, "5MiB": 5 << 20, "1GB": 1e9, "1.5KiB": 1536, "7B": 7, "2PB": 2e15,
	} {
		got, err := schema.ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
		if again, err := schema.ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%s prints as %v, which reads as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5", "1e3", "KiB", "1..5KiB", "5.", "9PiBs", "8192PiB", "1 KiB", "64kb",
		"0x10", strings.Repeat("9", 1e6)} {
		if got, err := schema.ParseSize(text); err == nil {
			t.Errorf("%.20s is %d, want an error", text, got)
		}
	}
}
