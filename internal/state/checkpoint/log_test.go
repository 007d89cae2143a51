package checkpoint

import (
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine/enginetest"
)

// table is numbers by name, as entries of a log.
type table struct {
	sync.Mutex
	all, changed map[string]int
	during       func() // each entry of All
}

func (t *table) put(name string, n int) {
	t.Lock()
	defer t.Unlock()
	t.all[name], t.changed[name] = n, n
}

func (t *table) log(path string, log *slog.Logger) *Log {
	lines := func(of func() map[string]int, each func()) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			t.Lock()
			now := maps.Clone(of())
			t.Unlock()
			for name, n := range now {
				each()
				if !yield(fmt.Appendf(nil, "%s %d", name, n), nil) {
					return
				}
			}
		}
	}
	return New(Entries{Path: path, Kind: "test", Owner: "input a", Log: log,
		Load: func(line []byte) error {
			var name string
			var n int
			_, err := fmt.Sscanf(string(line), "%s %d", &name, &n)
			t.all[name] = n
			return err
		},
		All: lines(func() map[string]int { return t.all }, func() { t.during() }),
		Len: func() int {
			t.Lock()
			defer t.Unlock()
			return len(t.all)
		},
		Changed: func() (iter.Seq2[[]byte, error], func()) {
			t.Lock()
			defer t.Unlock()
			changed := t.changed
			t.changed = map[string]int{}
			return lines(func() map[string]int { return changed }, func() {}), func() {
				t.Lock()
				defer t.Unlock()
				maps.Copy(changed, t.changed)
				t.changed = changed
			}
		}})
}

func newTable() *table {
	return &table{all: map[string]int{}, changed: map[string]int{}, during: func() {}}
}

// reads reports whether a file has what a table has.
func (t *table) reads(tt *testing.T, path string) {
	tt.Helper()
	again := newTable()
	l := again.log(path, slog.New(slog.DiscardHandler))
	if err := l.Open(); err != nil {
		tt.Fatal(err)
	}
	if !maps.Equal(again.all, t.all) {
		tt.Errorf("read %d entries, want the %d that there are", len(again.all), len(t.all))
	}
	if err := l.Close(); err != nil {
		tt.Error(err)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestALogThatHasGrownIsCompacted while entries change and are saved.
func TestALogThatHasGrownIsCompacted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		l := tab.log(path, slog.New(slog.DiscardHandler))
		if err := l.Open(); err != nil {
			t.Fatal(err)
		}
		looked := 0
		tab.during = func() {
			if looked++; looked%1000 == 0 {
				tab.put(fmt.Sprint("meanwhile", looked), looked)
				l.Changed(1)
			}
		}
		most := int64(0)
		for round := range 10 {
			for i := range 10_000 {
				tab.put(fmt.Sprint(i), round)
			}
			l.Changed(1)
			time.Sleep(time.Minute)
			synctest.Wait()
			most = max(most, size(t, path))
		}
		if looked == 0 || most > 1_000_000 { // 20 bytes a line
			t.Errorf("the file has had %d bytes", most)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		tab.reads(t, path)
	})
}

// TestALogThatCanNotBeCompactedGrows and says so, not each second.
func TestALogThatCanNotBeCompactedGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		var log enginetest.Transcript
		l := tab.log(path, slog.New(slog.NewTextHandler(&log, nil)))
		if err := l.Open(); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(Temporary(path)+"/x", 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			for n := range 100 {
				tab.put(fmt.Sprint(n), i)
			}
			l.Changed(1)
			time.Sleep(2 * pause)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "can't be compacted"); n != 1 || Trouble(path) != nil {
			t.Errorf("the log says it %d times: %s", n, &log)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(Temporary(path)); err != nil {
			t.Fatal(err)
		}
		tab.reads(t, path)
	})
}

// TestALogThatIsOpenedAgain in one process appends to its file, and writes any other anew.
func TestALogThatIsOpenedAgain(t *testing.T) {
	for name, meanwhile := range map[string]func(path string) error{
		"untouched": func(string) error { return nil },
		"deleted":   os.Remove,
		"longer": func(path string) error {
			text, _ := os.ReadFile(path)
			return os.WriteFile(path, append(text, appendLine(appendLine(nil, nil), []byte("b 7"))...), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a")
			tab := newTable()
			l := tab.log(path, slog.New(slog.DiscardHandler))
			for n := range 3 {
				if err := l.Open(); err != nil {
					t.Fatal(err)
				}
				tab.put("a", n)
				l.Changed(1)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				tab.put("late", n) // after the Close
				if n < 2 {
					if err := meanwhile(path); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := l.Open(); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			tab.reads(t, path)
		})
	}
}

// TestNothingIsWrittenWhenNothingHasChanged looks at the time of the last change.
func TestNothingIsWrittenWhenNothingHasChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	synctest.Test(t, func(t *testing.T) {
		tab := newTable()
		l := tab.log(path, slog.New(slog.DiscardHandler))
		if err := l.Open(); err != nil {
			t.Fatal(err)
		}
		tab.put("a", 1)
		l.Changed(1)
		time.Sleep(2 * pause)
		synctest.Wait()
		before := size(t, path)
		l.Changed(0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if now := size(t, path); now != before {
			t.Errorf("it has %d bytes, and had %d", now, before)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		before = size(t, path)
		for range 3 {
			tab.reads(t, path) // and is closed
		}
		if now := size(t, path); now != before {
			t.Errorf("it has %d bytes, and had %d when it was opened", now, before)
		}
	})
}
