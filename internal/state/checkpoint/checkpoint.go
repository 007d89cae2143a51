// Package checkpoint keeps the state of an input in a file, such as how far files were read, or a cursor. Start at
// [Open], for one small state, or at [New], for many entries of which few change at a time. Both write a [Log]. Its
// format is in format.go.
package checkpoint

import (
	"encoding/json"
	"iter"
	"log/slog"

	"github.com/flowd-io/flowd/engine"
)

// Config says what to keep, and where.
type Config[T any] struct {
	Path  string
	Kind  string       // of the state, such as "sql"; the checkpoint of another kind is rejected
	Owner string       // whose state it is, for errors: "input log of pipeline orders"
	Log   *slog.Logger // for when saving fails and when it works again

	// State returns the state to save. It is called from any goroutine, one call at a time.
	State func() T
}

// Owner names the input that env is for, as Config.Owner does.
func Owner(env engine.Env) string {
	if env.Pipeline == "" {
		return "input " + env.Name
	}
	return "input " + env.Name + " of pipeline " + env.Pipeline
}

// Traits returns the traits of an input that can continue at a position if it has a checkpoint, whose path may be "".
func Traits(path string) engine.Traits {
	if path == "" {
		return engine.Traits{TakesBack: engine.TakesNothing}
	}
	return engine.Traits{TakesBack: engine.TakesPosition}
}

// Keeper saves one small state soon after it changes. Its methods are those of [Log].
type Keeper[T any] struct{ *Log }

// Open reads the state in a file and keeps it there until Close. saved is nil if no state was ever saved. It creates
// a missing file, so that an unwritable path is found now. A file that can't be parsed is an error. State is first
// called after Open has returned.
func Open[T any](cfg Config[T]) (k *Keeper[T], saved *T, err error) {
	load := func(state []byte) error {
		saved = new(T)
		return json.Unmarshal(state, saved)
	}
	state := func(yield func([]byte, error) bool) { yield(json.Marshal(cfg.State())) }
	l := New(Entries{
		Path: cfg.Path, Kind: cfg.Kind, Owner: cfg.Owner, Log: cfg.Log, Load: load, Convert: load,
		All: state, Len: func() int { return 1 },
		Changed: func() (iter.Seq2[[]byte, error], func()) { return state, func() {} },
	})
	if err := l.Open(); err != nil {
		return nil, nil, err
	}
	return &Keeper[T]{l}, saved, nil
}
