package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Keep is how long a server lives: as long as the go command that [Share] has found, or, if zero, as long as the test
// binary.
type Keep struct {
	file  string // what the binaries know of the server, and their lock
	pid   int    // of the go command
	since string // when that was started, since numbers are used again
}

// Share gives what start says of a server, as one server for all test binaries of a go command: the first to ask starts
// it, the others wait for that, and learn from a file what start has said, as JSON. It ends with the go command, however
// that goes. Where no go command has started this binary, the server is of this binary alone.
//
// Address is where the server listens, so that one that has crashed is started again.
func Share[T any](name string, start func(Keep) (T, error), address func(T) string) (said T, err error) {
	keep := parent(name)
	if keep.file == "" {
		return start(keep)
	}
	f, err := lock(keep.file)
	if err != nil {
		return said, fmt.Errorf("share a server: %w", err)
	}
	defer f.Close() // which unlocks it
	if json.NewDecoder(f).Decode(&said) == nil && Listens(address(said)) {
		return said, nil
	}
	var none T
	if said, err = start(keep); err == nil {
		err = keep.write(f, said)
	}
	if err != nil {
		_ = os.Remove(keep.file) // the next one tries again
		return none, err
	}
	return said, nil
}

// Alone runs f while no other process of this user that calls it with the same name does, where the system can tell.
func Alone(name string, f func() error) error {
	held, err := lock(filepath.Join(os.TempDir(), fmt.Sprint(name, "-", os.Getuid())))
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("wait until no one else is at it: %w", err)
	}
	if held != nil {
		defer held.Close() // which unlocks it
	}
	return f()
}

func (Keep) write(f *os.File, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	return err
}
