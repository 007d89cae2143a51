package codec

import "errors"

// placed is an error with its place in a document.
type placed struct {
	path string
	err  error
}

func (e *placed) Error() string { return e.path + ": " + e.err.Error() }

func (e *placed) Unwrap() error { return e.err }

// longestPath bounds the shown path, in bytes.
const longestPath = 200

// Under adds the name of a field or item to an error.
func Under(name string, err error) error {
	if errors.Is(err, ErrLimit) {
		return err
	}
	at, ok := err.(*placed) //nolint:errorlint // it is not wrapped
	switch {
	case !ok:
		return &placed{Clip(name), err}
	case len(at.path) < longestPath:
		at.path = Clip(name) + "." + at.path
	}
	return at
}

// Clip shortens the name of a field or item for an error.
func Clip(name string) string {
	if len(name) > longestPath {
		return name[:longestPath] + "…"
	}
	return name
}
