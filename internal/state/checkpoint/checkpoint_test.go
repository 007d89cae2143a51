package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/disk/flock"
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
			if text, err := os.ReadFile(path); err != nil || !bytes.HasSuffix(text, []byte(want+"\n")) {
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
		at.Store(1)
		k.Changed(1)
		time.Sleep(2 * pause)
		synctest.Wait()
		if err := errors.Join(os.Remove(path), os.Mkdir(Temporary(path), 0o700)); err != nil { // it can't be written anew
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
		"renamed": func(path string) error { return os.Rename(path, path+".1") },
		"deleted": os.Remove,
		// At once: a save that comes in the middle of a deletion would be in its way.
		"in a folder that is moved": func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".1") },
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
	put("newer", string(sealed(header{Kind: "test", Version: version + 1})))
	put("another", string(sealed(header{Kind: "sql", Version: version}))+"00000000 \n")
	put("headless", string(sealed(header{Kind: "test", Version: version})))
	put("line", string(sealed(header{Kind: "test", Version: version}))+"x\n00000000 \n")
	put("entry", string(appendLine(appendLine(sealed(header{Kind: "test", Version: version}), []byte(`{"at":"x"}`)), nil)))
	put("unsummed", `{"checkpoint_of":"test","version":2,"state":{}}`)
	put("shape", `{"checkpoint_of":"test","version":1,"state":{"at":"x"}}`)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"empty": "is damaged or not a checkpoint: unexpected end of JSON input (restore it, or remove it: its input then reads everything " +
			"again",
		"cut":      "is damaged or not a checkpoint: unexpected end",
		"yaml":     "is damaged or not a checkpoint",
		"json":     "is not a checkpoint (name another file)",
		"other":    "is a checkpoint of sql, not of test (name another file)",
		"newer":    "has version 4, but this flowd supports version 3",
		"another":  "is a checkpoint of sql, not of test (name another file)",
		"headless": "is damaged: it is incomplete (restore it, or remove it",
		"line":     "is damaged at line 2: it does not match its checksum (restore it, or remove it",
		"entry":    "is damaged at line 2: json: cannot unmarshal string",
		"unsummed": "is damaged: it does not match its checksum",
		"shape":    "is damaged: json: cannot unmarshal string",
		"folder":   "is not a regular file",
		"pipe":     "is not a regular file",
		"empty/x":  "not a directory (a part of the path is a file)",
	} {
		path := filepath.Join(dir, name)
		read := func() (text []byte) {
			if name != "pipe" {
				text, _ = os.ReadFile(path)
			}
			return text
		}
		before := read()
		_, _, err := Open(config(path, new(atomic.Int64)))
		if err == nil || !strings.Contains(err.Error(), "checkpoint "+path+": "+want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
		if after := read(); !bytes.Equal(before, after) {
			t.Errorf("%s: a refused file was changed", name)
		}
	}
	claims.Range(func(path, owner any) bool {
		t.Errorf("a claim is left: %v of %v", path, owner)
		return true
	})
}

// TestDamageIsFound flips each bit, and cuts off each end. Damage to the last save costs that save alone, as if it had
// been interrupted; any other is an error.
func TestDamageIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	var at atomic.Int64
	k, _ := kept(t, path, &at)
	starts := []int64{} // of the saves
	for range 3 {
		starts = append(starts, k.file.size)
		at.Add(1)
		k.Changed(1)
		if err := k.Save(); err != nil {
			t.Fatal(err)
		}
	}
	closed(t, k)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	states := func(text []byte) (states []int64, err error) {
		_, _, err = read(bytes.NewReader(text), "test", func(entry []byte) error {
			var c cursor
			err := json.Unmarshal(entry, &c)
			states = append(states, c.At)
			return err
		}, ignore)
		return states, err
	}
	if got, err := states(text); err != nil || !slices.Equal(got, []int64{1, 2, 3}) {
		t.Fatalf("read %v, %v", got, err)
	}
	crashed := text[:len(text)-len(mark)] // without the mark of the Close
	for _, text := range [][]byte{text, crashed} {
		last, want := int64(len(crashed)), []int64{1, 2, 3} // what may look interrupted, and what is left
		if len(text) == len(crashed) {
			last, want = starts[2], want[:2]
		}
		for bit := range 8 * len(text) {
			damaged := bytes.Clone(text)
			damaged[bit/8] ^= 1 << (bit % 8)
			got, err := states(damaged)
			if isLast := int64(bit/8) >= last; !isLast && err == nil || isLast && (err != nil || !slices.Equal(got, want)) {
				t.Errorf("with bit %d flipped, %q is taken for %v, %v", bit, damaged, got, err)
			}
		}
	}
	text = crashed
	for n := range text {
		got, err := states(text[:n])
		saves := 0 // that are left
		for _, start := range starts[1:] {
			if int64(n) >= start {
				saves++
			}
		}
		if int64(n) < starts[0] && err == nil || int64(n) >= starts[0] && (err != nil || len(got) != saves) {
			t.Errorf("cut to %d bytes, %q is taken for %v, %v", n, text[:n], got, err)
		}
	}
}

// TestAnInterruptedSaveIsCutOff and the next one takes its place.
func TestAnInterruptedSaveIsCutOff(t *testing.T) {
	for _, torn := range []string{"00000000 \n12345678 {", "0000", "00000000 \n" + strings.Repeat("\x00", 10_000)} {
		path := filepath.Join(t.TempDir(), "a")
		var at atomic.Int64
		k, _ := kept(t, path, &at)
		at.Store(1)
		k.Changed(1)
		closed(t, k)
		whole, _ := os.ReadFile(path)
		if err := os.WriteFile(path, append(whole, torn...), 0o600); err != nil {
			t.Fatal(err)
		}
		var log enginetest.Transcript
		cfg := config(path, &at)
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		for range 2 {
			k, saved, err := Open(cfg)
			if err != nil || saved == nil || saved.At != at.Load() {
				t.Fatalf("got %v, %v, want %d", saved, err, at.Load())
			}
			at.Add(1)
			k.Changed(1)
			closed(t, k)
		}
		if n := strings.Count(log.String(), "interrupted"); n != 1 {
			t.Errorf("the log says it %d times: %s", n, &log)
		}
	}
}

// TestOldVersionsAreRead and converted by the first save.
func TestOldVersionsAreRead(t *testing.T) {
	v2 := []byte(`{"checkpoint_of":"test","version":2,"state":{"at":3}`)
	for text, want := range map[string]*cursor{
		`{"checkpoint_of":"test","version":1,"state":{"at":3}}` + "\n": {3},
		string(fmt.Appendf(v2, sumFormat, sum(v2))):                    {3},
		string(sealed(header{"test", 2, json.RawMessage("null")})):     nil,
		`{"checkpoint_of":"test","version":0,"state":{}}`:              nil,
	} {
		path := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{3, 3, 4} {
			k, saved := kept(t, path, newInt(at))
			if (saved == nil) != (want == nil) || saved != nil && *saved != *want {
				t.Errorf("%s: got %v, want %v", text, saved, want)
			}
			if at == 3 && !t.Failed() { // what has not changed is not written
				closed(t, k)
				continue
			}
			k.Changed(1)
			closed(t, k)
			k, saved = kept(t, path, newInt(at))
			if saved == nil || saved.At != 4 || k.file.outdated {
				t.Errorf("%s: converted, got %v", text, saved)
			}
			closed(t, k)
		}
	}
}

func newInt(n int64) *atomic.Int64 {
	var at atomic.Int64
	at.Store(n)
	return &at
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
	other := &file{path: filepath.Join(dir, "a"), name: "a", kind: "test"}
	if _, err := other.open(nil, ignore, ignore); !errors.Is(err, flock.ErrHeld) {
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
