package checkpoint

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Whatever is where the checkpoint should be: it is understood, or refused with a reason
// and left as it is. What is understood is what the next run reads, too.
func FuzzOpen(f *testing.F) {
	type state = map[string]any
	dir := f.TempDir()
	path := filepath.Join(dir, "checkpoint.json")
	open := func(t testing.TB) (*Keeper[state], *state, error) {
		t.Helper()
		var kept state
		k, saved, err := Open(Config[state]{Path: path, Kind: "file", Owner: "test", Log: slog.New(slog.DiscardHandler),
			State: func() state { return kept }})
		if saved != nil {
			kept = *saved
		}
		return k, saved, err
	}
	k, _, err := open(f)
	if err != nil {
		f.Fatal(err)
	}
	k.Changed(1)
	if err := k.Close(); err != nil {
		f.Fatal(err)
	}
	written, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(written)
	f.Add(written[:len(written)/2])
	f.Add(bytes.Replace(written, []byte(`"file"`), []byte(`"fil\u0065"`), 1))
	f.Add([]byte("00000000 \n"))
	f.Add(append(bytes.Clone(written), "00000000 \n01234567 {}\n00000000 \n"...))
	f.Add([]byte(""))
	f.Add([]byte("{}"))
	f.Add([]byte(`{"checkpoint_of":"file","version":1,"state":{"a":1e400}}`))
	f.Add([]byte(`{"checkpoint_of":"file","version":99,"state":{}}`))
	f.Add([]byte(`{"checkpoint_of":"file","version":1,"version":0,"state":{"a":{"b":[1,2]}}}`))
	f.Add([]byte(`{"checkpoint_of":"file","version":1,"state":` + strings.Repeat("[", 20_000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k, saved, err := open(t)
		if err != nil {
			if now, _ := os.ReadFile(path); !bytes.Equal(now, text) {
				t.Fatalf("%v, and the file is not as it was", err)
			}
			return
		}
		k.Changed(1)
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		k, again, err := open(t)
		if err != nil {
			t.Fatalf("what was written can't be read: %v", err)
		}
		if saved != nil && (again == nil || !reflect.DeepEqual(*saved, *again)) {
			t.Fatalf("read %v, and then %v", saved, again)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
