package yamltext

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func formatted(t *testing.T, name, text string) string {
	t.Helper()
	got, problems, err := Format(name, []byte(text))
	if err != nil || len(problems) > 0 {
		t.Fatalf("%s: %v %v", name, err, problems)
	}
	again, _, err := Format(name, []byte(got))
	if err != nil || again != got {
		t.Errorf("%s: formatted twice, it is\n%s\ninstead of\n%s(%v)", name, again, got, err)
	}
	return got
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"four columns, and lists without", "\n\na:\n    b: 1\n    c:\n    - x\n    -   y: 1\n        z: 2\nd: 1", `a:
  b: 1
  c:
    - x
    - y: 1
      z: 2
d: 1
`},
		{"empty lines and spaces", "a: 1  \n\n\n\nb: 2\t\r\n\n\n", "a: 1\n\nb: 2\n"},
		{"comments", `# head
a:
    # of b
    b: 1   # stays here
      # further in
    # end of a
# of c
c:
- 1
# of 2
- 2
    # out of place
# end
`, `# head
a:
  # of b
  b: 1   # stays here
    # further in
  # end of a
# of c
c:
  - 1
  # of 2
  - 2
      # out of place
# end
`},
		{"block scalars", "a:\n    b: |\n          one\n            two\n\n          # three\n\n\n    c: >+\n        x\n\n\n    d: |2\n        y\n", `a:
  b: |
    one
      two

    # three

  c: >+
    x


  d: |2
      y
`},
		{"texts of several lines", "a:\n    b: one\n     two\n     - three\n    c: \"one\n  two \\\n\n   three'\"\n    d: 'it''s\n         # text'\n", `a:
  b: one
    two
    - three
  c: "one
    two \

    three'"
  d: 'it''s
       # text'
`},
		{"brackets", "a:\n    b: {c: 1,   # one\n        d: [1,\n            2]\n    }\n    e: [x: 1, {}, [],\n  \"}\"]\n", `a:
  b: {c: 1,   # one
      d: [1,
          2]
  }
  e: [x: 1, {}, [],
  "}"]
`},
		{"lists in lists", "a:\n-   - 1\n    - 2\n-\n    b: 1\n- # nothing\n    c\n", `a:
  - - 1
    - 2
  -
    b: 1
  - # nothing
    c
`},
		{"anchors and tags", "a: &x\n    b: !!str 1\nc:\n   <<: *x\nd: &y [1,\n 2]\ne: *y\n", `a: &x
  b: !!str 1
c:
  <<: *x
d: &y [1,
 2]
e: *y
`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := formatted(t, "p.yaml", tt.text); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestWhatCanNotBeFormattedIsSaid(t *testing.T) {
	for _, text := range []string{"? a\n: 1\n", "--- {a: 1}\n", "a: |\n x"} {
		if got, _, err := Format("p.yaml", []byte(text)); err == nil {
			t.Errorf("%q is now %q", text, got)
		}
	}
	if _, problems, err := Format("p.yaml", []byte("a: [")); len(problems) == 0 || err != nil {
		t.Errorf("got %v, %v for a file that is not valid", problems, err)
	}
}

// TestEveryFileOfTheRepositoryCanBeFormatted formats all pipeline files in the repository.
func TestEveryFileOfTheRepositoryCanBeFormatted(t *testing.T) {
	n := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if root, problems := Parse(path, data); root == nil || len(problems) > 0 {
			return nil
		}
		got := formatted(t, path, string(data))
		if strings.HasPrefix(path, "../../examples/") && got != string(data) {
			t.Errorf("%s is not formatted (run flowd fmt -w)", path)
		}
		n++
		return nil
	})
	if err != nil || n < 200 {
		t.Errorf("formatted %d files: %v", n, err)
	}
}

// FuzzFormat checks that a file stays valid, and that formatting it again changes nothing.
func FuzzFormat(f *testing.F) {
	for _, seed := range []string{"a:\n- b: |+\n    x\n\n\n- [1,\n  2]\n", "a:\n    b: \"x \\\n  y\"\n# c\n", "a: &x !!str\n   b\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, problems, err := Format("f.yaml", data)
		if err != nil || len(problems) > 0 {
			return
		}
		twice, problems, err := Format("f.yaml", []byte(once))
		if err != nil || len(problems) > 0 || twice != once {
			t.Errorf("%q is formatted as %q, and then as %q (%v, %v)", data, once, twice, problems, err)
		}
	})
}
