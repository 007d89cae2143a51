package tables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
)

// logged is a log that a test reads.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// warnings are the causes of the warnings so far.
func (l *logged) warnings() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if _, cause, ok := strings.Cut(line, "err="); ok && strings.Contains(line, "level=WARN") {
			all = append(all, strings.TrimSpace(cause))
		}
	}
	return all
}

// want checks the row of a key, what the log warns of, and what the table tells of itself.
func want(t *testing.T, made *Table, log *logged, row any, warnings int, reloads, failed int64) {
	t.Helper()
	v, err := made.Lookup("a")
	if got, _ := v.(object); err != nil || row == nil && got != nil || row != nil && got["n"] != row {
		t.Errorf("got row %v, %v, want %v", v, err, row)
	}
	if got := log.warnings(); len(got) != warnings {
		t.Errorf("got warnings %q, want %d", got, warnings)
	}
	if s := made.Table(); s.Reloads != reloads || s.Failed != failed {
		t.Errorf("got %d reloads, %d failed, error %q", s.Reloads, s.Failed, s.Err)
	}
}

func TestAFileIsReadAgainWhenItIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := configured(t, `{"file": "x.csv", "key": "id"}`, "x.csv", "id,n\na,1\n")
		log := &logged{}
		made := New("items", c, slog.New(slog.NewTextHandler(log, nil)), nil)
		if err := made.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer made.Close(t.Context())
		time.Sleep(time.Minute + time.Second/2) // between two looks at the file
		want(t, made, log, "1", 0, 0, 0)

		next := c.File + ".new"
		write(t, next, "id,n\na,22\n")
		if err := os.Rename(next, c.File); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		want(t, made, log, "22", 0, 1, 0)

		write(t, c.File, "id,n\na,333\n\"") // a writer in the middle of its work
		time.Sleep(time.Second)
		want(t, made, log, "22", 0, 1, 0)
		write(t, c.File, "id,n\na,333\n\"b\",1\n")
		time.Sleep(3 * time.Second)
		want(t, made, log, "333", 0, 2, 0)
	})
}

func TestABrokenVersionLeavesTheOneBeforeInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := configured(t, `{"file": "x.csv", "key": "id"}`, "x.csv", "id,n\na,1\n")
		log := &logged{}
		made := New("items", c, slog.New(slog.NewTextHandler(log, nil)), nil)
		if err := made.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer made.Close(t.Context())
		write(t, c.File, "")
		time.Sleep(time.Minute)
		want(t, made, log, "1", 1, 0, 1)
		write(t, c.File, "id,n\na,1\na,2\n")
		time.Sleep(time.Minute)
		want(t, made, log, "1", 2, 0, 2)
		if got := log.warnings()[1]; !strings.Contains(got, "is in line 2 and again in line 3") {
			t.Errorf("got %s", got)
		}
		if err := os.Remove(c.File); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		want(t, made, log, "1", 3, 0, 3)

		write(t, c.File, "id,n\na,1\n") // as it was at first
		time.Sleep(3 * time.Second)
		if s := made.Table(); s.Err != "" || s.Reloads != 1 {
			t.Errorf("got %+v, want a version that is in use", s)
		}

		for _, names := range [][2]string{{c.File, c.File + ".away"}, {c.File + ".away", c.File}} {
			if err := os.Rename(names[0], names[1]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}
		want(t, made, log, "1", 4, 2, 4)
		if s := made.Table(); s.Err != "" {
			t.Errorf("the file is back, but: %s", s.Err)
		}
	})
}

// A file that is too large stays an error for as long as it is there, and is told once.
func TestAFileThatIsTooLargeStaysAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := configured(t, `{"file": "x.csv", "key": "id"}`, "x.csv", "id,n\na,1\n")
		c.MaxSize = 1 << 10
		log := &logged{}
		made := New("items", c, slog.New(slog.NewTextHandler(log, nil)), nil)
		if err := made.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer made.Close(t.Context())
		write(t, c.File, "id,n\na,"+strings.Repeat("2", 2000)+"\n")
		time.Sleep(time.Minute)
		want(t, made, log, "1", 1, 0, 1)
		if s := made.Table(); !strings.Contains(s.Err, "is larger than 1KiB") {
			t.Errorf("the file is too large, but the error is %q", s.Err)
		}
	})
}

// answers is a source that gives what a test has scripted, an answer for each look; then nothing is new.
type answers struct{ all []func() ([]byte, error) }

func (a *answers) read(ctx context.Context) ([]byte, error) { return a.changed(ctx) }
func (a *answers) pause() time.Duration                     { return time.Second }
func (a *answers) changed(context.Context) ([]byte, error) {
	if len(a.all) == 0 {
		return nil, nil
	}
	next := a.all[0]
	a.all = a.all[1:]
	return next()
}

// What could not be asked for is no error any more once the source says that nothing is new. A version that can't be
// used stays one for as long as it is the newest.
func TestAnErrorEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gives := func(text string) func() ([]byte, error) { return func() ([]byte, error) { return []byte(text), nil } }
		same := func() ([]byte, error) { return nil, nil }
		down := func() ([]byte, error) { return nil, errors.New("answered 503") }
		writing := func() ([]byte, error) { return nil, errWriting }
		log := &logged{}
		made := New("items", Config{File: "items.csv", Key: engine.Names{"id"}, MaxSize: 4096},
			slog.New(slog.NewTextHandler(log, nil)), nil)
		made.source = &answers{[]func() ([]byte, error){gives("id,n\na,1\n"), down, writing, same, gives("broken\n"), same, down, same,
			gives("id,n\na,2\n"), same}}
		if err := made.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer made.Close(t.Context())
		time.Sleep(time.Second / 2)
		for i, want := range []string{"503", "503", "", "key", "key", "503", "key", "", ""} {
			time.Sleep(time.Second)
			if got := made.Table().Err; (want == "") != (got == "") || !strings.Contains(got, want) {
				t.Errorf("after look %d the error is %q, want %q", i+1, got, want)
			}
		}
		want(t, made, log, "2", 4, 1, 4)
	})
}

func TestATableIsSharedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := configured(t, `{"file": "x.csv", "key": "id"}`, "x.csv", "id,n\na,1\n")
		made, log := New("items", c, nil, nil), &logged{}
		if err := made.Check(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := made.Open(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		made.Forget()
		if err := made.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		write(t, c.File, "id,n\na,22\n")
		time.Sleep(3 * time.Second)
		want(t, made, log, "22", 0, 1, 0) // the second user still has it
		if err := made.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := made.Lookup("a"); err == nil {
			t.Errorf("a table that nobody has takes memory: %v", v)
		}
		if err := made.Check(); err != nil {
			t.Fatal(err)
		}
		if err := made.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, made, log, "22", 0, 1, 0)
		if err := made.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		want(t, made, log, "22", 0, 1, 0) // the configuration has it again
	})
}

func TestReadersSeeWholeVersions(t *testing.T) {
	version := func(n int) string {
		var b strings.Builder
		b.WriteString("id,n\n")
		for i := range 200 {
			fmt.Fprintf(&b, "%d,%d\n", i, n)
		}
		return b.String()
	}
	c := configured(t, `{"file": "x.csv", "key": "id"}`, "x.csv", version(0))
	made := New("items", c, nil, nil)
	if err := made.Check(); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for i := 0; !over.Load(); i++ {
				v, err := made.Lookup(i % 200)
				if row, ok := v.(object); err != nil || !ok || row["id"] != fmt.Sprint(i%200) {
					t.Errorf("got %v, %v", v, err)
					return
				}
			}
		})
	}
	for n := range 200 {
		next := filepath.Join(filepath.Dir(c.File), "next")
		write(t, next, version(n+1))
		if err := os.Rename(next, c.File); err != nil {
			t.Fatal(err)
		}
		if err := made.load(t.Context(), made.source.read); err != nil {
			t.Fatal(err)
		}
		if v, err := made.Lookup(7); err != nil || v.(object)["n"] != fmt.Sprint(n+1) {
			t.Fatalf("got %v, %v after version %d", v, err, n+1)
		}
	}
	over.Store(true)
	readers.Wait()
}

func TestOpenSaysWhereATableIsConfigured(t *testing.T) {
	c := configured(t, `{"file": "x.csv", "key": "id"}`, "x.csv", "id\na\n")
	c.Place.Pos.File, c.Place.Pos.Line, c.Place.Pos.Col = "p.yaml", 7, 3
	c.File += ".gone"
	err := New("items", c, nil, nil).Open(t.Context())
	if err == nil || err.Error() != "p.yaml:7:3: "+c.File+": no such file or directory" {
		t.Errorf("got %v", err)
	}
	c.File = t.TempDir()
	if err := New("items", c, nil, nil).Open(t.Context()); err == nil || !strings.HasSuffix(err.Error(), "is not a file") {
		t.Errorf("a folder: got %v", err)
	}
}

func TestTablesOfTests(t *testing.T) {
	c := configured(t, `{"file": "x.csv", "key": "id"}`, "x.csv", "id,n\na,1\n")
	given := ForTest("items", c, []byte(`[{"id": "a", "n": 7}]`))
	read := ForTest("items", c, nil)
	for _, made := range []*Table{given, read} {
		if err := made.Open(context.Background()); err != nil {
			t.Fatal(err)
		}
		defer made.Close(t.Context())
	}
	if v, err := given.Lookup("a"); err != nil || v.(object)["n"] != 7 {
		t.Errorf("rows of the test: got %v, %v", v, err)
	}
	if v, err := read.Lookup("a"); err != nil || v.(object)["n"] != "1" {
		t.Errorf("the file: got %v, %v", v, err)
	}
	c.File, c.URL = "", "http://host/items.csv"
	if err := ForTest("items", c, nil).Open(t.Context()); err == nil || !strings.Contains(err.Error(),
		"tests ask no server") {
		t.Errorf("a URL: got %v", err)
	}
}
