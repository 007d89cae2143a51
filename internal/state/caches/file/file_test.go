package file_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/state/caches/file"
	"github.com/flowd-io/flowd/internal/testing/cachetest"
	"go.etcd.io/bbolt"
)

// component is a cache in a file, as JSON; more are further fields.
func component(path, more string) string {
	return fmt.Sprintf(`{"file": {"path": %q%s}}`, path, more)
}

func newPath(t testing.TB) string { return filepath.Join(t.TempDir(), "new", "cache.db") }

func TestFileConforms(t *testing.T) {
	cachetest.Run(t, func(t *testing.T) engine.Cache { return cachetest.New(t, component(newPath(t), "")) })
}

func TestFilesThatMoveAndDisksThatFillUp(t *testing.T) {
	cachetest.File(t, func(path string) string { return component(path, "") })
}

func TestValuesSurviveARestart(t *testing.T) {
	path := newPath(t)
	c := cachetest.New(t, component(path, ""))
	cachetest.Set(t, c, "a", "1", time.Hour)
	cachetest.Set(t, c, "b", "2", time.Nanosecond)
	cachetest.Close(t, c)
	if _, _, err := c.Get(t.Context(), "a"); err == nil {
		t.Error("a closed cache answers")
	}
	if err := c.Set(t.Context(), "a", nil, 0); err == nil {
		t.Error("a closed cache takes values")
	}

	again := cachetest.New(t, component(path, ""))
	for key, want := range map[string]string{"a": "1", "b": "none"} {
		if got := cachetest.Get(t, again, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestTheFileIsPrivate(t *testing.T) {
	path := newPath(t)
	cachetest.New(t, component(path, ""))
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", p, info.Mode(), want)
		}
	}
}

func TestTheOldestKeysMakeRoom(t *testing.T) {
	c := cachetest.New(t, component(newPath(t), `, "max_keys": 3`))
	for _, key := range []string{"a", "b", "c", "a", "d"} { // a is rewritten
		cachetest.Set(t, c, key, "x", 0)
	}
	for key, want := range map[string]string{"a": "x", "b": "none", "c": "x", "d": "x"} {
		if got := cachetest.Get(t, c, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestExpiredValuesLeaveTheFile(t *testing.T) {
	path := newPath(t)
	c := cachetest.New(t, component(path, `, "sync": false`))
	value := strings.Repeat("x", 1000)
	for i := range 3000 {
		cachetest.Set(t, c, fmt.Sprint("k", i), value, time.Nanosecond)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 1<<20 {
		t.Errorf("the file has %d bytes after 3000 values of 1000 bytes that expire at once", info.Size())
	}
}

func TestWritesThatComeAtOnceAreMadeTogether(t *testing.T) {
	c := cachetest.New(t, component(newPath(t), ""))
	const n = 2000
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { cachetest.Set(t, c, fmt.Sprint(i), "x", 0) })
	}
	wg.Wait()
	for i := range n {
		if got := cachetest.Get(t, c, fmt.Sprint(i)); got != "x" {
			t.Fatalf("%d is %q", i, got)
		}
	}
}

func TestWhatCanNotBeAKeyIsRefused(t *testing.T) {
	c := cachetest.New(t, component(newPath(t), ""))
	for key, want := range map[string]string{"": "empty", strings.Repeat("x", 40_000): "use its hash"} {
		if err := c.Set(t.Context(), key, nil, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("key of %d bytes: %v, want %q", len(key), err, want)
		}
	}
	if got := cachetest.Get(t, c, strings.Repeat("x", 40_000)); got != "none" {
		t.Error(got)
	}
}

// fail opens the cache of a file and returns what that complains of.
func fail(t *testing.T, path string) string {
	t.Helper()
	c := enginetest.New(t, engine.Caches, component(path, ""))
	err := c.(engine.Opener).Open(t.Context())
	if err == nil {
		cachetest.Close(t, c)
		return ""
	}
	return err.Error()
}

func TestAFileThatCanNotServeIsNamedWithARemedy(t *testing.T) {
	filled := func(t *testing.T) (path string, size int64) {
		path = newPath(t)
		c := cachetest.New(t, component(path, `, "sync": false`))
		for i := range 500 {
			cachetest.Set(t, c, fmt.Sprint(i), strings.Repeat("x", 500), 0)
		}
		cachetest.Close(t, c)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return path, info.Size()
	}
	tests := []struct {
		name   string
		damage func(t *testing.T) (path string)
		want   string
	}{
		{"text", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "text")
			if err := os.WriteFile(path, []byte(strings.Repeat("no cache\n", 5000)), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}, "is damaged, or not a cache file"},
		{"a file that was cut off", func(t *testing.T) string {
			path, size := filled(t)
			if err := os.Truncate(path, size/2); err != nil {
				t.Fatal(err)
			}
			return path
		}, "is damaged, or not a cache file"},
		{"a file that was overwritten", func(t *testing.T) string {
			path, size := filled(t)
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(make([]byte, size-8192), 8192); err != nil {
				t.Fatal(err)
			}
			return path
		}, "is damaged, or not a cache file"},
		{"a directory", func(t *testing.T) string { return t.TempDir() }, "is a directory"},
		{"a file as directory", func(t *testing.T) string {
			path := filepath.Join(t.TempDir(), "f")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(path, "cache.db")
		}, "not a directory"},
		{"a file in use", func(t *testing.T) string {
			path := newPath(t)
			cachetest.New(t, component(path, ""))
			return path
		}, "is in use by another process"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.damage(t)
			got := fail(t, path)
			if !strings.Contains(got, tt.want) || !strings.Contains(got, path) {
				t.Errorf("%q, want %q and the path in it", got, tt.want)
			}
		})
	}
}

func TestAFailedOpeningLetsGoOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(strings.Repeat("no cache\n", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := fail(t, path); !strings.Contains(got, "damaged") {
			t.Error(got)
		}
	}
}

// written is a file of a cache, and what is in it.
func written(t testing.TB, n int) (whole []byte, values map[string]string) {
	t.Helper()
	path := newPath(t)
	c := cachetest.New(t, component(path, `, "sync": false`))
	values = map[string]string{}
	for i := range n {
		key, value := fmt.Sprint("key ", i), strings.Repeat(fmt.Sprint(i), 30)
		cachetest.Set(t, c, key, value, time.Hour)
		values[key] = value
	}
	cachetest.Close(t, c)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return whole, values
}

// tells opens a damaged file and says whether the damage was reported. Otherwise it changes
// nothing: no key is taken for one that is not there, and no value for another, without a
// word.
func tells(t testing.TB, damaged []byte, values map[string]string) bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "damaged") // the database keeps its lock where it panics
	if err := os.WriteFile(path, damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	c := enginetest.New(t, engine.Caches, component(path, `, "sync": false`))
	warned := file.Warned(c)
	if err := c.(engine.Opener).Open(context.Background()); err != nil {
		if !strings.Contains(err.Error(), "is damaged, or not a cache file") {
			t.Error(err)
		}
		return true
	}
	defer cachetest.Close(t, c)
	if strings.Contains(warned.String(), "may be lost") {
		return true
	}
	for key, value := range values {
		if got, ok, err := c.Get(context.Background(), key); err == nil && (!ok || string(got) != value) {
			t.Errorf("%q is %q, %v", key, got, ok)
		}
	}
	return false
}

func TestAFlippedBitIsFound(t *testing.T) {
	whole, values := written(t, 200)
	rnd := rand.New(rand.NewPCG(1, 1))
	found := 0
	for range 150 {
		bit := rnd.IntN(8 * len(whole))
		damaged := bytes.Clone(whole)
		damaged[bit/8] ^= 1 << (bit % 8)
		if tells(t, damaged, values) {
			found++
		}
		if t.Failed() {
			t.Fatalf("bit %d of byte %d of %d", bit%8, bit/8, len(whole))
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
}

// FuzzOpen writes over a part of a file, and cuts it off.
func FuzzOpen(f *testing.F) {
	whole, values := written(f, 20)
	f.Add(uint32(0), []byte{1}, uint32(len(whole)))
	f.Add(uint32(16), []byte("\xed\xda\x0c\xed"), uint32(len(whole)))
	f.Add(uint32(4096), bytes.Repeat([]byte{0xff}, 64), uint32(len(whole)))
	f.Add(uint32(3*4096), bytes.Repeat([]byte{0}, 4096), uint32(2*4096))
	f.Fuzz(func(t *testing.T, at uint32, over []byte, length uint32) {
		damaged := bytes.Clone(whole)
		copy(damaged[int(at)%len(whole):], over)
		damaged = damaged[:min(int(length), len(whole))]
		if len(damaged) > 0 { // an empty file is a new one
			tells(t, damaged, values)
		}
	})
}

func TestAFileWithoutSumsKeepsItsValues(t *testing.T) {
	path := newPath(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 25_000
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, errs := tx.CreateBucket([]byte("flowd.cache.keys"))
		order, err := tx.CreateBucket([]byte("flowd.cache.order"))
		info, err2 := tx.CreateBucket([]byte("flowd.cache.info"))
		if err := errors.Join(errs, err, err2, info.Put([]byte("count"),
			binary.BigEndian.AppendUint64(nil, n))); err != nil {
			return err
		}
		for i := range n {
			seq, _ := order.NextSequence()
			at, due, key := binary.BigEndian.AppendUint64(nil, seq), make([]byte, 8), fmt.Appendf(nil, "k%06d", i)
			if err := errors.Join(keys.Put(key, append(append(at[:8:8], due...), "x"...)),
				order.Put(at, append(due, key...))); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c := cachetest.New(t, component(path, ""))
		for i := 0; i < n; i += 997 {
			if got := cachetest.Get(t, c, fmt.Sprintf("k%06d", i)); got != "x" {
				t.Fatalf("k%06d is %q", i, got)
			}
		}
		cachetest.Set(t, c, "k000000", "x", 0)
		cachetest.Close(t, c)
	}
}

// A clock that was ahead and jumps back would keep a key for as long as it was ahead.
func TestAKeyFromTheFutureExpiresByTheClockThatIs(t *testing.T) {
	path := newPath(t)
	c := cachetest.New(t, component(path, ""))
	cachetest.Set(t, c, "old", "x", time.Hour)
	cachetest.Close(t, c)
	file.Age(t, path, -1000*time.Hour)
	again := cachetest.New(t, component(path, ""))
	if got := cachetest.Get(t, again, "old"); got != "x" {
		t.Errorf("the key is %q before its time is over", got)
	}
	cachetest.Set(t, again, "new", "y", 0) // sweeps
	cachetest.Close(t, again)
	file.Age(t, path, 2*time.Hour)
	last := cachetest.New(t, component(path, ""))
	for key, want := range map[string]string{"old": "none", "new": "y"} {
		if got := cachetest.Get(t, last, key); got != want {
			t.Errorf("%s is %q two hours later, want %q", key, got, want)
		}
	}
}

func TestDamageFoundLaterIsAnError(t *testing.T) {
	path := newPath(t)
	c := cachetest.New(t, component(path, ""))
	for i := range 300 {
		cachetest.Set(t, c, fmt.Sprint(i), strings.Repeat("x", 500), 0)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	_, _, err := c.Get(t.Context(), "1")
	if err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("reading beyond the end: %v", err)
	}
	if err := c.Set(t.Context(), "2", nil, 0); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("writing after that: %v", err)
	}
	cachetest.Close(t, c)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	cachetest.New(t, component(path, "")) // as the error says
}

// TestMain is also the process that TestWhatWasWrittenSurvivesAKill kills.
func TestMain(m *testing.M) {
	path := os.Getenv("FILE_CACHE_PATH")
	if path == "" {
		os.Exit(m.Run())
	}
	var t child
	c := enginetest.New(&t, engine.Caches, component(path, `, "sync": false`))
	if err := c.(engine.Opener).Open(context.Background()); err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		if err := c.Set(context.Background(), strconv.Itoa(i), []byte("x"), 0); err != nil {
			panic(err)
		}
		fmt.Println(i)
	}
}

// child is the test in the other process.
type child struct{ testing.TB }

func (*child) Helper() {}

func TestWhatWasWrittenSurvivesAKill(t *testing.T) {
	path := newPath(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "FILE_CACHE_PATH="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := -1
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(lines.Text())
		}
		if last == 200 {
			_ = cmd.Process.Kill()
		}
	}
	_ = cmd.Wait()
	if last < 200 {
		t.Fatalf("the other process wrote %d values", last+1)
	}
	c := cachetest.New(t, component(path, ""))
	for i := range last + 1 {
		if got := cachetest.Get(t, c, strconv.Itoa(i)); got != "x" {
			t.Fatalf("%d of %d is %q", i, last, got)
		}
	}
}

func BenchmarkSet(b *testing.B) {
	for _, sync := range []bool{true, false} {
		b.Run(fmt.Sprintf("sync %v", sync), func(b *testing.B) {
			c := cachetest.New(b, component(filepath.Join(b.TempDir(), "cache.db"), fmt.Sprintf(`, "sync": %v`, sync)))
			b.SetParallelism(128)
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if err := c.Set(b.Context(), strconv.Itoa(i)+fmt.Sprintf("%p", pb), []byte("true"),
						time.Hour); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}
