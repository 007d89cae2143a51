package schema_test

import (
	"strings"
	"testing"

	"github.com/flowd-io/flowd/schema"
)

func TestDumpSaysWhereValuesAreFrom(t *testing.T) {
	n := parse(t, `{
"text": "${file:/run/pw}",
"password": "very secret",
"wait": "90s",
"list": ["a", "b"],
"env": {"x": 0},
"words": {"k": "v: w"},
"raw": {"any": "thing"},
"steps": [
  {"compress": {"level": 1}, "name": "squeeze"},
  {"set": {"total": "a + b"}},
  {"drop": {}},
  {"decode": "json"}
]}`)
	n.Lookup("wait").Origin = "override"
	d := schema.NewDecoder(lookup)
	var v everything
	if d.Decode(n, &v); d.Problems() != nil {
		t.Fatal(d.Problems())
	}
	want := strings.TrimPrefix(`
messages: 100         # default
text: ***             # line 2
flag: false           # default
wait: 1m30s           # override
password: ***         # line 3
list:
  - a                 # line 5
  - b                 # line 5
env:
  x: 0                # line 6
words:
  k: "v: w"           # line 7
raw:
  any: thing          # line 8
steps:
  - compress:
      format: gzip    # default
      level: 1        # line 10
    name: squeeze     # line 10
  - set:
      fields:
        total: a + b  # line 11
      strict: false   # default
  - drop: {}
  - decode:
      json: {}
`, "\n")
	if got := d.Dump(v); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
