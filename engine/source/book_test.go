package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page is the reading position of an entry.
type page struct {
	Name string
	At   int
}

func (p page) Key() string { return p.Name }

func (p page) AppendText(b []byte) ([]byte, error) { return fmt.Appendf(b, "%s@%d", p.Name, p.At), nil }

func parse(text []byte) (p page, err error) {
	name, at, ok := strings.Cut(string(text), "@")
	if !ok {
		return p, errors.New("it has no @")
	}
	p.Name = name
	_, err = fmt.Sscan(at, &p.At)
	return p, err
}

func convert(state []byte) (all []page, err error) {
	err = json.Unmarshal(state, &all)
	return all, err
}

// process has what the books of one process share.
type process struct{ engine.Env }

func newProcess() process {
	return process{engine.Env{Name: "in", Pipeline: "p", Shared: &engine.Shared{}}}
}

// book returns the book of an input that has just been loaded.
func (p process) book(t testing.TB, path string, remember time.Duration) *Book[string, page] {
	t.Helper()
	b := New(p.Env, Config[string, page]{Path: path, Kind: "test", Log: slog.New(slog.DiscardHandler), Remember: remember,
		Parse: parse, Convert: convert})
	if err := b.Open(); err != nil {
		t.Fatal(err)
	}
	return b
}

func closed(t testing.TB, b *Book[string, page]) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func put(b *Book[string, page], at int, names ...string) {
	b.Lock()
	defer b.Unlock()
	for _, name := range names {
		b.Put(page{name, at}, 1)
	}
}

// has checks the entries of a book, by name.
func has(t *testing.T, b *Book[string, page], want map[string]int) {
	t.Helper()
	b.Lock()
	defer b.Unlock()
	got := map[string]int{}
	for p := range b.All() {
		got[p.Name] = p.At
	}
	if !maps.Equal(got, want) {
		t.Errorf("it knows %v, want %v", got, want)
	}
}

func TestABookSurvivesItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp")
	b := newProcess().book(t, path, 0)
	if !b.IsFresh() {
		t.Error("a new book is not fresh")
	}
	put(b, 1, "a", "b", "c=-")
	put(b, 2, "a")
	b.Lock()
	b.Delete("b")
	b.Unlock()
	closed(t, b)
	b = newProcess().book(t, path, 0)
	has(t, b, map[string]int{"a": 2, "c=-": 1})
	if b.IsFresh() {
		t.Error("it is fresh")
	}
	closed(t, b)

	empty := filepath.Join(t.TempDir(), "cp")
	closed(t, newProcess().book(t, empty, 0))
	if b = newProcess().book(t, empty, 0); b.IsFresh() {
		t.Error("a book that was open before is fresh")
	}
	closed(t, b)
}

// TestABookSurvivesClosingAndReloading uses a book with a checkpoint, and one without.
func TestABookSurvivesClosingAndReloading(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "cp")} {
		p := newProcess()
		b := p.book(t, path, 0)
		if err := b.Open(); err != nil { // another instance
			t.Fatal(err)
		}
		put(b, 1, "a", "b")
		b.Lock()
		b.Hold("a")
		b.Unlock()
		closed(t, b)
		closed(t, b)
		put(b, 2, "b") // a late Ack
		if err := b.Open(); err != nil {
			t.Fatal(err)
		}
		b.Lock()
		if !b.IsHeld("a") || b.IsHeld("b") {
			t.Error("a hold has not survived that its instance was closed and opened again")
		}
		b.Unlock()
		closed(t, b)
		next := p.book(t, path, 0)
		has(t, next, map[string]int{"a": 1, "b": 2})
		next.Lock()
		if next.IsHeld("a") || next.IsFresh() {
			t.Error("a reloaded input waits for one that is gone")
		}
		next.Unlock()
		closed(t, next)
		if path != "" {
			last := newProcess().book(t, path, 0)
			has(t, last, map[string]int{"a": 1, "b": 2})
			closed(t, last)
		}
	}
}

// TestACheckpointThatChangesHands renames an input and undoes that, each with a reload.
func TestACheckpointThatChangesHands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp")
	p, other := newProcess(), newProcess()
	other.Name, other.Shared = "other", p.Shared
	b := p.book(t, path, 0)
	put(b, 1, "a", "b")
	closed(t, b)
	b = other.book(t, path, 0)
	has(t, b, map[string]int{"a": 1, "b": 1})
	put(b, 2, "a")
	b.Lock()
	b.Delete("b")
	b.Unlock()
	closed(t, b)
	for range 2 {
		b = p.book(t, path, 0)
		has(t, b, map[string]int{"a": 2})
		closed(t, b)
	}
}

func TestOnlyACompleteListingForgets(t *testing.T) {
	b := newProcess().book(t, "", 0)
	defer closed(t, b)
	put(b, 1, "seen", "held", "gone", "other")
	all := map[string]int{"seen": 1, "held": 1, "gone": 1, "other": 1}
	see := func(l *Listing[string, page]) {
		b.Lock()
		defer b.Unlock()
		l.See("seen")
		l.See("unknown")
		b.Hold("held")
	}
	see(b.List(nil)) // the listing fails
	has(t, b, all)
	l := b.List(func(p page) bool { return p.Name != "other" })
	see(l)
	has(t, b, all)
	put(b, 1, "new")
	l.Complete(time.Now())
	has(t, b, map[string]int{"seen": 1, "held": 1, "new": 1, "other": 1})
	b.Lock()
	b.Release("held")
	b.Unlock()
	l = b.List(nil)
	l.Complete(time.Now())
	has(t, b, nil)
}

// TestListingsOfManyLetOthersWork checks that a large book does not block others while it forgets entries.
func TestListingsOfManyLetOthersWork(t *testing.T) {
	b := newProcess().book(t, "", 0)
	defer closed(t, b)
	want := map[string]int{}
	for i := range 20_000 {
		put(b, i, fmt.Sprint(i))
	}
	l := b.List(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Complete(time.Now())
	}()
	for i := range 1000 {
		put(b, i, fmt.Sprint("new", i))
		want[fmt.Sprint("new", i)] = i
	}
	<-done
	has(t, b, want)
}

func TestMissingEntriesAreRememberedForAWhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp")
	synctest.Test(t, func(t *testing.T) {
		b := newProcess().book(t, path, time.Hour)
		put(b, 1, "a", "b")
		b.List(nil).Complete(time.Now())
		time.Sleep(50 * time.Minute)
		closed(t, b)
		b = newProcess().book(t, path, time.Hour) // the time since when it is missing is saved
		l := b.List(nil)
		b.Lock()
		l.See("b")
		b.Unlock()
		l.Complete(time.Now())
		has(t, b, map[string]int{"a": 1, "b": 1})
		time.Sleep(11 * time.Minute)
		b.List(nil).Complete(time.Now())
		has(t, b, map[string]int{"b": 1})
		closed(t, b)
		b = newProcess().book(t, path, time.Hour)
		has(t, b, map[string]int{"b": 1})
		closed(t, b)
	})
}

func TestOldCheckpointsAreConverted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp")
	if err := os.WriteFile(path, []byte(`{"checkpoint_of":"test","version":1,"state":[{"Name":"a","At":1},{"Name":"b","At":2}]}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b := newProcess().book(t, path, 0)
		if b.IsFresh() {
			t.Error("it is fresh")
		}
		has(t, b, map[string]int{"a": 1, "b": 2})
		closed(t, b)
	}
	b := newProcess().book(t, path, 0)
	put(b, 3, "a")
	closed(t, b)
	b = newProcess().book(t, path, 0)
	has(t, b, map[string]int{"a": 3, "b": 2})
	closed(t, b)
}

func TestBooksThatAreDamagedAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cp")
	b := newProcess().book(t, path, 0)
	put(b, 1, "a")
	closed(t, b)
	b = newProcess().book(t, path, 0)
	put(b, 2, "a")
	closed(t, b)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := strings.Replace(string(text), "a@1", "a@7", 1)
	if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	b = New(newProcess().Env, Config[string, page]{Path: path, Kind: "test", Log: slog.New(slog.DiscardHandler), Parse: parse})
	for range 2 {
		if err := b.Open(); err == nil || engine.ErrorOf(err, "").Class != engine.Permanent ||
			!strings.Contains(err.Error(), "is damaged at line ") || b.Len() != 0 {
			t.Errorf("got %v, with %d entries", err, b.Len())
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.Open(); err != nil {
		t.Fatal(err)
	}
	has(t, b, map[string]int{"a": 2})
	closed(t, b)
}

// TestAFailedSaveIsRepeated checks that entries are saved later, even if they have not changed again.
func TestAFailedSaveIsRepeated(t *testing.T) {
	enginetest.InFullDisk(t, func(t *testing.T, limit func(bytes int64)) {
		path := filepath.Join(t.TempDir(), "cp")
		b := newProcess().book(t, path, 0)
		limit(80)
		put(b, 1, "a", "b")
		if err := b.Save(); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("got %v", err)
		}
		put(b, 2, "b")
		limit(-1)
		closed(t, b)
		b = newProcess().book(t, path, 0)
		has(t, b, map[string]int{"a": 1, "b": 2})
		closed(t, b)
	})
}

// BenchmarkSave saves the changes of one second in a book of a million entries.
func BenchmarkSave(bench *testing.B) {
	for _, changes := range []int{0, 100} {
		bench.Run(fmt.Sprintf("%d of a million", changes), func(bench *testing.B) {
			b := newProcess().book(bench, filepath.Join(bench.TempDir(), "cp"), 0)
			for i := range 1_000_000 {
				put(b, 0, fmt.Sprint("logs/2026/", i, ".ndjson.gz"))
			}
			if err := b.Save(); err != nil {
				bench.Fatal(err)
			}
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			bench.ResetTimer()
			for n := range bench.N {
				for i := range changes {
					put(b, n+1, fmt.Sprint("logs/2026/", (n*changes+i)%1_000_000, ".ndjson.gz"))
				}
				if err := b.Save(); err != nil {
					bench.Fatal(err)
				}
			}
			bench.StopTimer()
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
			bench.ReportMetric(float64(used)/float64(bench.N)/1e6, "cpu-ms/op")
			closed(bench, b)
		})
	}
}
