// Package secrets reads the values of placeholders such as ${vault:PATH#FIELD} from secrets managers. Start at [Store]:
// package config asks it when files are loaded.
//
// The client of Vault is part of this package: a read takes two GET requests, so HashiCorp's own client would add more
// than a dozen modules for little. Amazon's SDK finds the credentials and signs the one request that is needed: its package
// for this service would allocate 230 KB in each process.
package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/components/builds"
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
	GCP   *GCP   `yaml:"gcp_secret" oneof:"manager" doc:"Google Cloud's Secret Manager: the values of ${gcp_secret:NAME} and ${gcp_secret:NAME#FIELD}."`
	Azure *Azure `yaml:"azure_secret" oneof:"manager" doc:"Azure Key Vault: the values of ${azure_secret:VAULT/NAME} and ${azure_secret:VAULT/NAME#FIELD}."`
	AWS   *AWS   `yaml:"aws_secret" oneof:"manager" doc:"AWS Secrets Manager: the values of ${aws_secret:NAME} and ${aws_secret:NAME#FIELD}."`

	Refresh time.Duration `yaml:"refresh" check:"min=1s" doc:"How often secrets are read again while pipelines run. If a value has changed, the files are reloaded. By default, secrets are read only at the start and at reloads."`
}

// Kind returns the word with which placeholders begin that refer to this manager, or "" if the configuration is not
// valid.
func (c *Config) Kind() string {
	switch {
	case c.Vault != nil:
		return "vault"
	case c.AWS != nil:
		return "aws_secret"
	case c.GCP != nil:
		return "gcp_secret"
	case c.Azure != nil:
		return "azure_secret"
	}
	return ""
}

// families are the build tags of managers, by kind.
var families = map[string]string{"vault": "vault", "aws_secret": "aws", "gcp_secret": "google", "azure_secret": "azure"}

// openers make the clients of the managers in this build, by kind. They do no network I/O. The configuration may be nil.
var openers = map[string]func(*Config) (manager, error){}

// lacks returns an error if this build lacks a manager.
func lacks(kind string) error {
	if openers[kind] != nil {
		return nil
	}
	return &schema.LookupError{Code: schema.BadPlaceholder, Err: builds.Without(kind, families[kind])}
}

const (
	mostAnswer = 2 << 20 // bytes; no manager stores a secret of more than 1 MiB by default
	mostQuoted = 300     // bytes of an error
)

// manager is the client of a secrets manager. Its methods are called concurrently.
type manager interface {
	// origin identifies the place that secrets come from: a cached value is valid for the same place only.
	origin() string
	// read returns the fields of a secret. Errors never contain a value.
	read(ctx context.Context, path string) (map[string]string, error)
	// close closes idle connections.
	close()
}

// ref is what a placeholder refers to.
type ref struct{ kind, path, field string }

// newRef splits the name of a placeholder, such as "vault:PATH#FIELD".
func newRef(name string) (r ref, err error) {
	kind, rest, _ := strings.Cut(name, ":")
	r.kind, r.path = kind, rest
	i := strings.LastIndexByte(rest, '#')
	if i >= 0 {
		r.path, r.field = rest[:i], rest[i+1:]
	}
	valid, form := r.path != "" && (i < 0 || r.field != ""), "NAME} or ${"+kind+":NAME#FIELD}"
	if kind == "vault" {
		r.path = strings.Trim(r.path, "/")
		odd := func(part string) bool { return part == "" || part == "." || part == ".." }
		valid, form = r.field != "" && !slices.ContainsFunc(strings.Split(r.path, "/"), odd), "PATH#FIELD}"
	}
	if !valid {
		return r, &schema.LookupError{Code: schema.BadPlaceholder, Err: errors.New("does not name a secret, or a field of one"),
			Remedy: "write ${" + kind + ":" + form}
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

func (s secret) has(field string) bool {
	_, ok := s.fields[field]
	return ok
}

// value returns a field of a secret.
func (s secret) value(r ref) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	value, ok := s.fields[r.field]
	if !ok && len(s.fields) == 1 && s.has(whole) {
		return "", Missing(fmt.Sprintf("the secret has no field %q, since it is not a JSON object", r.field),
			"leave out #"+r.field)
	}
	if !ok {
		return "", Missing(fmt.Sprintf("the secret has no field %q", r.field),
			schema.Suggest(r.field, names(s.fields), "correct the name, or give a default with :-"))
	}
	return value, nil
}

// whole is the name of a field that has the whole text of a secret.
const whole = ""

// names returns the names of fields, sorted.
func names(fields map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(name string) bool { return name == whole })
}

// fieldsOf returns the fields of a secret that is a text: the whole, and its fields if it is a JSON object.
func fieldsOf(text string) map[string]string {
	var data map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &data) != nil {
		data = nil
	}
	fields := textsOf(data)
	fields[whole] = text
	return fields
}

// textsOf returns JSON values as texts: strings without quotes, other values as they are written. It leaves out null.
func textsOf(data map[string]json.RawMessage) map[string]string {
	texts := make(map[string]string, len(data)+1)
	for name, value := range data {
		var text *string
		if json.Unmarshal(value, &text) != nil {
			texts[name] = string(value)
		} else if text != nil {
			texts[name] = *text
		}
	}
	return texts
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
