package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/flock"
)

type cursor struct {
	At int64 `json:"at"`
}

// kept opens a checkpoint whose state is at.
func kept(t *testing.T, path string, at *atomic.Int64) (*Keeper[cursor], *cursor) {
	t.Helper()
	k, saved, err := Open(config(path, at))
	if err != nil {
		t.Fatal(err)
	}
	return k, saved
}

func config(path string, at *atomic.Int64) Config[cursor] {
	return Config[cursor]{Path: path, Kind: "test", Owner: "input a", Log: slog.New(slog.DiscardHandler),
		State: func() cursor { return cursor{at.Load()} }}
}

func closed(t *testing.T, k *Keeper[cursor]) {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

func TestAStateIsThereAgain(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := filepath.Join(t.TempDir(), "new", "folder", "a.checkpoint")
	var at atomic.Int64
	k, saved := kept(t, path, &at)
	if saved != nil {
		t.Errorf("there was nothing, got %v", saved)
	}
	closed(t, k)
	k, saved = kept(t, path, &at)
	if saved != nil {
		t.Errorf("nothing was saved, got %v", saved)
	}
	at.Store(7)
	k.Changed(1)
	closed(t, k)
	k, saved = kept(t, path, &at)
	defer closed(t, k)
	if saved == nil || saved.At != 7 {
		t.Errorf("got %v, want 7", saved)
	}
	for p, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700 | os.ModeDir} {
		if info, err := os.Stat(p); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, want %v (%v)", p, info.Mode(), want, err)
		}
	}
	if _, err := os.Stat(Temporary(path)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file is left: %v", err)
	}
}

func TestAChangeIsSavedAtOnceAndThenOnceASecond(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Int64
		k, _ := kept(t, path, &at)
		defer closed(t, k)
		step := func(name string, messages int, wait time.Duration, want string) {
			t.Helper()
			if messages > 0 {
				at.Add(1)
				k.Changed(messages)
			}
			time.Sleep(wait)
			synctest.Wait()
			if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s: got %s, %v, want %s", name, text, err, want)
			}
		}
		step("the first", 1, 0, `"at":1}`)
		step("the second waits", 1, pause/2, `"at":1}`)
		step("for a second", 0, pause/2+1, `"at":2}`)
		step("so does the third", 1, pause/2, `"at":2}`)
		step("unless there are many", much, 0, `"at":4}`)
		step("which wait, too", much, shortPause/2, `"at":4}`)
		step("not so long", 0, shortPause, `"at":5}`)
		step("after a quiet second", 0, 2*pause, `"at":5}`)
		step("a change is saved at once", 1, 0, `"at":6}`)
	})
}

func TestASaveThatFailsIsMadeGood(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	synctest.Test(t, func(t *testing.T) {
		var at atomic.Int64
		var log enginetest.Transcript
		cfg := config(path, &at)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		k, _, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(Temporary(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(Temporary(path), "x"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		at.Store(3)
		k.Changed(1)
		time.Sleep(5 * pause)
		synctest.Wait()
		if tr := Trouble(path); tr == nil || tr.Indicator != "checkpoint_unsaved" || !strings.Contains(tr.Cause, path) {
			t.Errorf("trouble is %+v", tr)
		}
		if n := strings.Count(log.String(), "can't be saved"); n != 1 {
			t.Errorf("%d complaints, want one: %s", n, &log)
		}
		if err := os.RemoveAll(Temporary(path)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * pause)
		synctest.Wait()
		if text, _ := os.ReadFile(path); !bytes.Contains(text, []byte(`"at":3}`)) ||
			!strings.Contains(log.String(), "saved again") {
			t.Errorf("got %s, log %s", text, &log)
		}
		if tr := Trouble(path); tr != nil {
			t.Errorf("afterwards, trouble is %+v", tr)
		}
		closed(t, k)
	})
}

func TestAFileThatMovesIsSavedAgain(t *testing.T) {
	for name, does := range map[string]func(path string) error{
		"renamed":                     func(path string) error { return os.Rename(path, path+".1") },
		"deleted":                     os.Remove,
		"in a folder that is deleted": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"replaced": func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("{}"), 0o600))
		},
	} {
		for _, changed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, changed %v", name, changed), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "d", "a")
				var at atomic.Int64
				k, _ := kept(t, path, &at)
				at.Store(1)
				k.Changed(1)
				if err := k.Save(); err != nil {
					t.Fatal(err)
				}
				if err := does(path); err != nil {
					t.Fatal(err)
				}
				want := int64(1)
				if changed {
					want = 2
					at.Store(2)
					k.Changed(1)
				}
				closed(t, k)
				k, saved := kept(t, path, &at)
				defer closed(t, k)
				if saved == nil || saved.At != want {
					t.Errorf("got %v, want %d", saved, want)
				}
			})
		}
	}
}

func TestAnotherProcessThatHasThePathKeepsIt(t *testing.T) {
	if !flock.Works {
		t.Skip("NOT TESTED: no locks")
	}
	path := filepath.Join(t.TempDir(), "a")
	var at atomic.Int64
	k, _ := kept(t, path, &at)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := flock.Lock(other); err != nil {
		t.Fatal(err)
	}
	k.Changed(1)
	if err := k.Save(); !errors.Is(err, flock.ErrHeld) {
		t.Errorf("got %v, want %v", err, flock.ErrHeld)
	}
	other.Close()
	closed(t, k)
}

func TestAFullDisk(t *testing.T) {
	enginetest.InFullDisk(t, func(t *testing.T, limit func(bytes int64)) {
		for room, failed := int64(0), true; failed; room++ {
			path := filepath.Join(t.TempDir(), "a")
			var at atomic.Int64
			k, _ := kept(t, path, &at)
			at.Store(1)
			k.Changed(1)
			limit(room)
			err := k.Save()
			if failed = err != nil; failed && !strings.Contains(err.Error(), "file too large (") {
				t.Errorf("%d bytes: got %v, want a remedy", room, err)
			}
			limit(-1)
			closed(t, k)
			k, saved := kept(t, path, &at)
			if saved == nil || saved.At != 1 {
				t.Fatalf("%d bytes: got %v, want 1", room, saved)
			}
			closed(t, k)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("empty", "")
	put("cut", `{"checkpoint_of":"test","version":1,"state":{"a`)
	put("yaml", "inputs:\n")
	put("json", `{"a": 1}`)
	put("other", `{"checkpoint_of":"sql","version":1,"state":{}}`)
	newer, err := sealed(envelope[struct{}]{Kind: "test", Version: version + 1})
	if err != nil {
		t.Fatal(err)
	}
	put("newer", string(newer))
	put("unsummed", `{"checkpoint_of":"test","version":2,"state":{}}`)
	put("shape", `{"checkpoint_of":"test","version":1,"state":{"at":"x"}}`)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"empty":    "is damaged or not a checkpoint: unexpected end of JSON input (restore it, or remove it: its input then reads everything again",
		"cut":      "is damaged or not a checkpoint: unexpected end",
		"yaml":     "is damaged or not a checkpoint",
		"json":     "is not a checkpoint (name another file)",
		"other":    "is a checkpoint of sql, not of test (name another file)",
		"newer":    "has version 3, but this flowd supports version 2",
		"unsummed": "is damaged: it does not match its checksum",
		"shape":    "is damaged: json: cannot unmarshal string",
		"folder":   "is not a regular file",
		"pipe":     "is not a regular file",
		"empty/x":  "not a directory (a part of the path is a file)",
	} {
		path := filepath.Join(dir, name)
		before, _ := os.ReadFile(filepath.Join(dir, "cut"))
		_, _, err := Open(config(path, new(atomic.Int64)))
		if err == nil || !strings.Contains(err.Error(), "checkpoint "+path+": "+want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if after, _ := os.ReadFile(filepath.Join(dir, "cut")); !bytes.Equal(before, after) {
			t.Errorf("%s: a refused file was changed", name)
		}
	}
	claims.Range(func(path, owner any) bool {
		t.Errorf("a claim is left: %v of %v", path, owner)
		return true
	})
}

// No flipped bit and no lost end is taken for a state: not for another one, and not for
// that of an input which has read nothing yet.
func TestDamageIsFound(t *testing.T) {
	for name, e := range map[string]envelope[any]{
		"saved":       {Kind: "test", Version: version, State: map[string]int{"at": 1234}},
		"never saved": {Kind: "test", Version: version},
	} {
		text, err := sealed(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse[map[string]int](text, "test"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for bit := range 8 * len(text) {
			damaged := bytes.Clone(text)
			damaged[bit/8] ^= 1 << (bit % 8)
			if saved, err := parse[map[string]int](damaged, "test"); err == nil {
				t.Errorf("%s: with bit %d flipped, %q is taken for %v", name, bit, damaged, saved)
			}
		}
		for n := range text {
			if saved, err := parse[map[string]int](text[:n], "test"); err == nil {
				t.Errorf("%s: cut to %d bytes, %q is taken for %v", name, n, text[:n], saved)
			}
		}
	}
}

func TestCheckpointsWithoutASumAreRead(t *testing.T) {
	saved, err := parse[map[string]int]([]byte(`{"checkpoint_of":"test","version":1,"state":{"at":3}}`+"\n"), "test")
	if err != nil || (*saved)["at"] != 3 {
		t.Errorf("got %v, %v, want 3", saved, err)
	}
	if saved, err := parse[map[string]int]([]byte(`{"checkpoint_of":"test","version":0,"state":{}}`),
		"test"); saved != nil || err != nil {
		t.Errorf("one that was never saved: got %v, %v", saved, err)
	}
}

func TestOneCheckpointHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	var at atomic.Int64
	k, _ := kept(t, filepath.Join(dir, "a"), &at)
	if err := os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, path := range []string{"a", "./x/../a", "link"} {
		if _, _, err := Open(config(path, &at)); err == nil ||
			!strings.Contains(err.Error(), "is already the checkpoint of input a") {
			t.Errorf("%s: got %v", path, err)
		}
	}
	k.Changed(1) // another file has the lock now
	if err := k.Save(); err != nil {
		t.Fatal(err)
	}
	// Another process is another open file: the lock is what it meets.
	if _, _, err := openFile[cursor](filepath.Join(dir, "a"), "a", "test"); !errors.Is(err, flock.ErrHeld) {
		t.Errorf("got %v", err)
	}
	closed(t, k)
	k, _ = kept(t, "a", &at)
	closed(t, k)
}

func TestALinkInPlaceOfTheTemporaryFileIsNotFollowed(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o600),
		os.Symlink(victim, Temporary(filepath.Join(dir, "a")))); err != nil {
		t.Fatal(err)
	}
	var at atomic.Int64
	k, _ := kept(t, filepath.Join(dir, "a"), &at)
	closed(t, k)
	if text, _ := os.ReadFile(victim); string(text) != "mine" {
		t.Errorf("the link was followed: %s", text)
	}
}

// TestAProcessThatIsKilledLeavesAWholeCheckpoint kills a process that saves all
// the time.
func TestAProcessThatIsKilledLeavesAWholeCheckpoint(t *testing.T) {
	if path := os.Getenv("CHECKPOINT_TEST_PATH"); path != "" {
		var at atomic.Int64
		k, saved := kept(t, path, &at)
		if saved != nil {
			at.Store(saved.At)
		}
		os.Stdout.WriteString("open\n")
		for {
			at.Add(1)
			k.Changed(1)
			if err := k.Save(); err != nil {
				t.Fatal(err)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "a")
	var last int64
	for range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", t.Name())
		cmd.Env = append(os.Environ(), "CHECKPOINT_TEST_PATH="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		for before, _ := os.ReadFile(path); ; { // until it has saved
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
				break
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		k, saved := kept(t, path, new(atomic.Int64))
		if saved == nil || saved.At <= last {
			t.Fatalf("got %v after %d", saved, last)
		}
		last = saved.At
		closed(t, k)
	}
}
