package avro

import (
	"errors"

	"github.com/flowd-io/flowd/internal/codec"
)

// placed is an error at a place in a document.
type placed struct {
	path string
	err  error
}

func (e *placed) Error() string { return e.path + ": " + e.err.Error() }

func (e *placed) Unwrap() error { return e.err }

// longestPath bounds what is shown of a place that is deep inside.
const longestPath = 200

// under is an error of a field or an item with this name.
func under(name string, err error) error {
	if errors.Is(err, codec.ErrLimit) {
		return err
	}
	at, ok := err.(*placed) //nolint:errorlint // it is not wrapped
	switch {
	case !ok:
		return &placed{clip(name), err}
	case len(at.path) < longestPath:
		at.path = clip(name) + "." + at.path
	}
	return at
}

func clip(name string) string {
	if len(name) > longestPath {
		return name[:longestPath] + "…"
	}
	return name
}
