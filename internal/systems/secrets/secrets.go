// Package secrets reads the values of placeholders such as ${vault:PATH#FIELD} from secrets managers. Start at [Store]:
// package config asks it when files are loaded.
//
// The client of Vault is part of this package: a read takes two GET requests, so HashiCorp's own client would add more
// than a dozen modules for little.
package secrets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/flowd-io/flowd/schema"
)

// Unavailable is the code of a secret that can't be read now, but perhaps later: its manager is down.
const Unavailable = "secret-unavailable"

func init() {
	schema.AddCode(Unavailable, "A secrets manager can't be reached, or is not working; the value of a placeholder is not known.")
}

// Config configures one secrets manager, an entry of `resources.secrets`.
type Config struct {
	Vault *Vault `yaml:"vault" oneof:"manager" doc:"HashiCorp Vault or OpenBao: the values of ${vault:PATH#FIELD}."`
}

// Kind returns the word with which placeholders begin that refer to this manager, or "" if the configuration is not
// valid.
func (c *Config) Kind() string {
	if c.Vault != nil {
		return "vault"
	}
	return ""
}

// manager is the client of a secrets manager. Its methods are called concurrently.
type manager interface {
	// origin identifies the place that secrets come from: a cached value is valid for the same place only.
	origin() string
	// read returns the fields of a secret. Errors never contain a value.
	read(ctx context.Context, path string) (map[string]string, error)
}

// ref is what a placeholder refers to.
type ref struct{ kind, path, field string }

// newRef splits the name of a placeholder, "vault:PATH#FIELD".
func newRef(name string) (r ref, err error) {
	kind, rest, _ := strings.Cut(name, ":")
	r.kind = kind
	if i := strings.LastIndexByte(rest, '#'); i >= 0 {
		r.path, r.field = strings.Trim(rest[:i], "/"), rest[i+1:]
	}
	odd := func(part string) bool { return part == "" || part == "." || part == ".." }
	if r.field == "" || slices.ContainsFunc(strings.Split(r.path, "/"), odd) {
		return r, &schema.LookupError{Code: schema.BadPlaceholder, Err: errors.New("does not name a field of a secret"),
			Remedy: "write ${" + kind + ":PATH#FIELD}"}
	}
	return r, nil
}

// Check returns an error if the name of a placeholder is not valid, or if this build of flowd lacks its manager. It
// does no I/O.
func Check(name string) error {
	r, err := newRef(name)
	if err == nil {
		err = lacks(r.kind)
	}
	return err
}

// secret is the result of reading a secret.
type secret struct {
	fields map[string]string
	err    error
}

// value returns a field of a secret.
func (s secret) value(r ref) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	value, ok := s.fields[r.field]
	if !ok {
		return "", Missing(fmt.Sprintf("the secret has no field %q", r.field),
			schema.Suggest(r.field, slices.Sorted(maps.Keys(s.fields)), "correct the name, or give a default with :-"))
	}
	return value, nil
}

// Missing returns the error of a value that does not exist: the default of its placeholder applies.
func Missing(text, remedy string) error {
	return &schema.LookupError{Err: absent(text), Remedy: remedy}
}

// refused returns the error of a request that fails again until somebody changes something.
func refused(remedy, format string, args ...any) error {
	return &schema.LookupError{Err: fmt.Errorf(format, args...), Remedy: remedy}
}

// down returns the error of a manager that may work later.
func down(remedy, format string, args ...any) error {
	return &schema.LookupError{Code: Unavailable, Err: fmt.Errorf(format, args...), Remedy: remedy}
}

// isDown reports whether an error may go away.
func isDown(err error) bool {
	e, ok := errors.AsType[*schema.LookupError](err)
	return ok && e.Code == Unavailable
}

// absent is the text of an error that is fs.ErrNotExist.
type absent string

func (a absent) Error() string { return string(a) }

func (absent) Is(target error) bool { return target == fs.ErrNotExist }
