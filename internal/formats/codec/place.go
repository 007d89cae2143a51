package codec

import "errors"

// placed is an error at a place in a document.
type placed struct {
	path string
	err  error
}

func (e *placed) Error() string { return e.path + ": " + e.err.Error() }

func (e *placed) Unwrap() error { return e.err }

// longestPath bounds what is shown of a deeply nested place.
const longestPath = 200

// Under is an error of a field or an item with this name.
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

// Clip shortens the name of a field or of an item for a complaint.
func Clip(name string) string {
	if len(name) > longestPath {
		return name[:longestPath] + "…"
	}
	return name
}
