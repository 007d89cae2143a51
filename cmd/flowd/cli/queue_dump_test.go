package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/systems/queue"
)

// puts has a dump write one message.
func puts(t *testing.T, d *dump, payload string) error {
	t.Helper()
	_, err := d.put(t.Context(), []queue.Message{{Payload: []byte(payload)}})
	return err
}

func TestADumpWhoseFileMovesRemovesNothing(t *testing.T) {
	for name, does := range map[string]func(path string) error{
		"renamed": func(path string) error { return os.Rename(path, path+".1") },
		"deleted": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".1"), os.WriteFile(path, []byte("mine"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			d, err := newDump(io.Discard, path)
			if err != nil {
				t.Fatal(err)
			}
			d.sync = true
			if err := does(path); err != nil {
				t.Fatal(err)
			}
			if err := puts(t, d, "a"); err == nil || !strings.Contains(err.Error(), path+" was renamed or deleted") {
				t.Errorf("got %v", err)
			}
			if err := d.close(); err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(path); name == "replaced" && string(text) != "mine" {
				t.Errorf("the other file has %q, %v", text, err)
			}
		})
	}
}

func TestADumpOnAFullDiskKeepsWholeLines(t *testing.T) {
	enginetest.InFullDisk(t, func(t *testing.T, limit func(bytes int64)) {
		path := filepath.Join(t.TempDir(), "x")
		d, err := newDump(io.Discard, path)
		if err != nil {
			t.Fatal(err)
		}
		if err := puts(t, d, "a"); err != nil {
			t.Fatal(err)
		}
		limit(d.at + 5)
		if err := puts(t, d, "b"); err == nil || !strings.Contains(err.Error(), "begin again with another file") {
			t.Errorf("got %v", err)
		}
		limit(-1)
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(path); string(text) != `{"payload":"a"}`+"\n" {
			t.Errorf("the file has %q", text)
		}
	})
}
