package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/formats/compression"
	"go.uber.org/goleak"
)

// tree creates files, and changes to their directory.
func tree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func make1(t *testing.T, component string) *input {
	t.Helper()
	return enginetest.New(t, engine.Inputs, component).(*input)
}

// read reads to the end: "path:line body", or "path:line !error".
func read(t *testing.T, in *input) (got []string, err error) {
	t.Helper()
	if err := in.Open(t.Context()); err != nil {
		return nil, err
	}
	defer func() {
		if err := in.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for {
		b := engine.NewBatch(3)
		_, err := in.Read(t.Context(), b)
		for m := range b.All() {
			got = append(got, where(m)+" "+string(m.Bytes()))
		}
		for m := range b.Ended() {
			got = append(got, where(m)+" !"+m.Err().Error())
		}
		if err == engine.ErrEnd {
			return got, nil
		}
		if err != nil {
			return got, err
		}
	}
}

func where(m *engine.Message) string {
	path, _ := m.Meta.Get("path")
	line, _ := m.Meta.Get("line")
	return fmt.Sprintf("%v:%v", path, line)
}

func TestInput(t *testing.T) {
	enginetest.Input(t, func(t *testing.T) engine.Input {
		tree(t, map[string]string{"a.log": "1\n2\n3\n4", "b.log": "", "c.log": "5"})
		return make1(t, `{"file": "*.log"}`)
	}, "1", "2", "3", "4", "5")
}

func TestRead(t *testing.T) {
	packed, err := compression.Compress(compression.Gzip, []byte("z\n"), 0)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"a10.log": "ten\n", "a2.log": "two\nzwei", "deep/er/b.log": "b\n", "deep/c.txt": "c\n", "empty": "",
		"z.log.gz": string(packed), "packed": string(packed), "[x].log": "brackets\n", "long": strings.Repeat("l", 50) + "\nok\n",
		"doc.json": `[{"a":1},{"a":`, "{x}.log": "braces\n", "deep/.git/b.log": "hidden\n", "deep/.c.txt": "hidden\n",
	}
	tests := []struct {
		name, component string
		want            []string
	}{
		{"one file, one message a line", `{"file": "a2.log"}`, []string{"a2.log:1 two", "a2.log:2 zwei"}},
		{"a pattern is sorted as people do", `{"file": {"path": "a*.log"}}`,
			[]string{"a2.log:1 two", "a2.log:2 zwei", "a10.log:1 ten"}},
		{"a list keeps its order and each file is read once", `{"file": {"path": ["a10.log", "a*.log"]}}`,
			[]string{"a10.log:1 ten", "a2.log:1 two", "a2.log:2 zwei"}},
		{"two stars go into folders", `{"file": "**/[bc].*"}`, []string{"deep/c.txt:1 c", "deep/er/b.log:1 b"}},
		{"two stars may stand behind a folder", `{"file": "deep/**/b.log"}`, []string{"deep/er/b.log:1 b"}},
		{"two stars find what is hidden if they are told to", `{"file": "deep/**/.*"}`, []string{"deep/.c.txt:1 hidden"}},
		{"braces have alternatives, and one of them is enough", `{"file": "deep/{c,nope,e{r,s}/*}{.txt,.log}"}`,
			[]string{"deep/c.txt:1 c", "deep/er/b.log:1 b"}},
		{"braces without a comma are characters", `{"file": "{x}.*"}`, []string{"{x}.log:1 braces"}},
		{"exclude leaves files out, by name or path", `{"file": {"path": ["a*.log", "deep/**"], "exclude": ["*10*", "deep/e{r,s}/*"]}}`,
			[]string{"a2.log:1 two", "a2.log:2 zwei", "deep/c.txt:1 c"}},
		{"an empty file has no messages", `{"file": "empty"}`, nil},
		{"the extension uncompresses", `{"file": "z.log.gz"}`, []string{"z.log.gz:1 z"}},
		{"the first bytes uncompress", `{"file": "packed"}`, []string{"packed:1 z"}},
		{"none leaves it as it is", `{"file": {"path": "packed", "framing": "whole", "compression": "none"}}`,
			[]string{"packed:1 " + files["packed"]}},
		{"a name that looks like a pattern is a name first", `{"file": "[x].log"}`, []string{"[x].log:1 brackets"}},
		{"a record that is too long is one failed message", `{"file": {"path": "long", "max_record": 20}}`,
			[]string{"long:1 !record of 50 bytes is longer than max_record (20 bytes)", "long:2 ok"}},
		{"a document that is cut off is one failed message", `{"file": {"path": "doc.json", "framing": "json"}}`,
			[]string{"doc.json:1 {\"a\":1}", "doc.json:2 !not JSON: the document is cut off at byte 14 of the stream"}},
	}
	tree(t, files)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := read(t, make1(t, tt.component))
			if err != nil {
				t.Fatal(err)
			}
			slices.SortStableFunc(got, func(a, b string) int { // messages that have not failed come first in a batch
				return slices.Index(tt.want, a) - slices.Index(tt.want, b)
			})
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestOpenSaysWhatCanNotBeRead(t *testing.T) {
	tests := []struct{ name, component, want string }{
		{"a missing file", `{"file": "nope.log"}`,
			"nope.log: no such file (a relative path starts in the working directory)"},
		{"a pattern without a match", `{"file": "*.nope"}`,
			"*.nope: no file matches (a relative path starts in the working directory)"},
		{"alternatives without a match", `{"file": "{a,b}.nope"}`,
			"{a,b}.nope: no file matches (a relative path starts in the working directory)"},
		{"a directory", `{"file": "dir"}`, "dir: is a directory (write dir/* for the files in it)"},
		{"all problems at once", `{"file": {"path": ["nope", "dir"]}}`,
			"nope: no such file (a relative path starts in the working directory)\ndir: is a directory (write dir/* for the files in it)"},
		{"a path through a file", `{"file": "plain/x"}`, "plain/x: not a directory"},
	}
	tree(t, map[string]string{"dir/x": "", "plain": ""})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := make1(t, tt.component).Open(t.Context()); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestAFileWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	tree(t, map[string]string{"secret": "x"})
	if err := os.Chmod("secret", 0); err != nil {
		t.Fatal(err)
	}
	const want = "secret: permission denied (give the user that runs flowd permission to read it)"
	if err := make1(t, `{"file": "secret"}`).Open(t.Context()); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestConfiguration(t *testing.T) {
	for component, want := range map[string]string{
		`{"file": {}}`: "required",
		`{"file": ""}`: "a path is empty",
		`{"file": "[a"}`: `[a: is not a valid pattern (close each [ with a ], or write \[ for ` +
			`one in a name)`,
		`{"file": "{a,[}"}`: "{a,[}: is not a valid pattern",
		`{"file": "{a,b}` + strings.Repeat("{a,b}", 11) + `"}`:           "its braces stand for more than 1000 patterns",
		`{"file": ["ok", "a**/b"]}`:                                      "a**/b: ** must stand alone as a folder (write a/**/*.log)",
		`{"file": {"path": "**/a/**/b"}}`:                                "**/a/**/b: only one ** is allowed (list the patterns)",
		`{"file": {"path": "x", "framing": "nope"}}`:                     "nope",
		`{"file": {"path": "x", "framing": {"length": 3}}}`:              "must be 1, 2, 4 or 8",
		`{"file": {"path": "x", "start": "end"}}`:                        "start: says where following begins (add follow: true)",
		`{"file": {"path": "x", "start": "middle", "follow": true}}`:     "beginning",
		`{"file": {"path": "x", "follow": true, "framing": "whole"}}`:    "has no end",
		`{"file": {"path": "x", "follow": true, "framing": "tar"}}`:      "an archive can't be followed",
		`{"file": {"path": "x", "follow": true, "compression": "gzip"}}`: "a compressed file can't be followed",
		`{"file": {"path": ["y", "x.log.gz"], "follow": true}}`:          "x.log.gz: a compressed file can't be followed",
	} {
		problems := strings.Join(enginetest.Problems(t, engine.Inputs, component), "\n")
		if !strings.Contains(problems, want) {
			t.Errorf("%s: got %q, want %q in it", component, problems, want)
		}
	}
}

func TestATruncatedArchiveIsAnErrorWithItsPlace(t *testing.T) {
	packed, err := compression.Compress(compression.Gzip, []byte(strings.Repeat("line\n", 1000)), 0)
	if err != nil {
		t.Fatal(err)
	}
	tree(t, map[string]string{"a.gz": string(packed[:len(packed)-6])})
	_, err = read(t, make1(t, `{"file": "a.gz"}`))
	want := fmt.Sprintf("a.gz: gzip data ends too early: unexpected EOF (at byte %d of the file)", len(packed)-6)
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestANamedPipe(t *testing.T) {
	defer goleak.VerifyNone(t)
	tree(t, nil)
	if err := syscall.Mkfifo("fifo", 0o600); err != nil {
		t.Skip(err)
	}
	t.Run("is read as it is written", func(t *testing.T) {
		in := make1(t, `{"file": "fifo"}`)
		var wg sync.WaitGroup
		wg.Go(func() { _ = os.WriteFile("fifo", []byte("a\nb\n"), 0) })
		got, err := read(t, in)
		wg.Wait()
		if err != nil || !slices.Equal(got, []string{"fifo:1 a", "fifo:2 b"}) {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("without a writer does not hold up a stop", func(t *testing.T) {
		in := make1(t, `{"file": "fifo"}`)
		if err := in.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := in.Read(ctx, engine.NewBatch(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := in.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestInstancesShareTheFiles(t *testing.T) {
	files := map[string]string{}
	var want []string
	for i := range 20 {
		path := fmt.Sprintf("f%d.log", i)
		files[path] = "x\n"
		want = append(want, path+":1 x")
	}
	tree(t, files)
	cfg := make1(t, `{"file": "f*.log"}`).cfg
	env := enginetest.Env()
	var mu sync.Mutex
	var got []string
	var wg sync.WaitGroup
	for i := range 3 {
		env.Index = i
		in, err := newInput(cfg, env)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			some, err := read(t, in.(*input))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, some...)
		})
	}
	wg.Wait()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestNaturalOrder(t *testing.T) {
	got := []string{"b", "a10", "a2", "a02", "a", "2024-1-10", "2024-1-9", "a2.log", "a2-x"}
	slices.SortFunc(got, natural)
	want := []string{"2024-1-9", "2024-1-10", "a", "a02", "a2", "a2-x", "a2.log", "a10", "b"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
