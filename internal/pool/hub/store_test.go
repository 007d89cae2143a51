package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/internal/pool/wire"
	"github.com/flowd-io/flowd/internal/systems/nats/embed"
)

// found are the files below a folder, except locks.
func found(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != embed.LockName {
			all = append(all, e.Name())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func put(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreHasOneOwner(t *testing.T) {
	c := &wire.Config{Store: "file", Dir: t.TempDir()}
	left := filepath.Join(c.Dir, "flowd-jobs", "jetstream", "left")
	put(t, left)
	first, err := openStore(c, "pipeline orders")
	if err != nil {
		t.Fatal(err)
	}
	if got := found(t, c.Dir); len(got) != 0 {
		t.Errorf("what another run has left is still there: %q", got)
	}
	put(t, left)
	_, err = openStore(c, "pipeline other")
	if want := fmt.Sprintf("%s belongs to another flowd: process %d, pipeline orders", first.dir,
		os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if got := found(t, c.Dir); len(got) != 1 {
		t.Errorf("the folder of another has %q", got)
	}
	first.close()
	if got := found(t, c.Dir); len(got) != 0 {
		t.Errorf("at the end there is %q", got)
	}
	second, err := openStore(c, "pipeline other")
	if err != nil {
		t.Fatal(err)
	}
	second.close()
}

func TestTemporaryStoresOfTheDeadAreRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, c := range []*wire.Config{{Store: "file"}, {Store: "memory"}, {Store: "memory", Dir: temp}} {
		living, err := openStore(c, "pipeline orders")
		if err != nil {
			t.Fatal(err)
		}
		dead, err := openStore(c, "pipeline orders")
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dead.dir, "jetstream", "left"))
		put(t, filepath.Join(temp, temporary+"unlocked", "theirs"))
		dead.lock.Close() // as the system does for a process that is killed
		next, err := openStore(c, "pipeline orders")
		if err != nil {
			t.Fatal(err)
		}
		for dir, want := range map[string]bool{living.dir: true, dead.dir: false, next.dir: true,
			filepath.Join(temp, temporary+"unlocked"): true} {
			if _, err := os.Stat(dir); (err == nil) != want {
				t.Errorf("%s: %v", dir, err)
			}
		}
		living.close()
		next.close()
		if left, _ := filepath.Glob(filepath.Join(temp, temporary+"*")); len(left) != 1 {
			t.Errorf("at the end there are %q", left)
		}
	}
}
