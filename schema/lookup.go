package schema

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Lookup returns the value of a placeholder's name: an environment variable, "file:PATH", or a secret (see [Managed]).
// An error says why an existing value can't be read. It may be a [*LookupError]. With an error that is fs.ErrNotExist,
// the default of the placeholder applies, if there is one.
type Lookup func(name string) (value string, ok bool, err error)

// LookupError is an error of a [Lookup] that has a code or a remedy.
type LookupError struct {
	Err    error
	Code   string // "": UnresolvedPlaceholder
	Remedy string
}

func (e *LookupError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LookupError) Unwrap() error { return e.Err }

// managers are the secrets managers that placeholders can name.
var managers = []string{"aws_secret", "azure_secret", "gcp_secret", "vault"}

// Managed reports whether the name of a placeholder refers to a secret in a secrets manager, such as
// "vault:PATH#FIELD".
func Managed(name string) bool {
	kind, _, ok := strings.Cut(name, ":")
	return ok && slices.Contains(managers, kind)
}

// maxFile bounds the files of ${file:…}, in bytes.
const maxFile = 1 << 20

// Environment looks up names in the environment, and reads regular files of at most 1 MiB without the newline at
// their end. It knows no secrets managers.
func Environment(name string) (value string, ok bool, err error) {
	path, isFile := strings.CutPrefix(name, "file:")
	if !isFile {
		value, ok = os.LookupEnv(name)
		return value, ok, nil
	}
	value, err = readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	return value, err == nil, err
}

func readFile(path string) (string, error) {
	// Opening a named pipe would wait for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return "", cause(err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return "", cause(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", cause(err)
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("is larger than %v", Size(maxFile))
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

// cause removes the path from an error, since the placeholder contains it.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
