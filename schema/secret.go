package schema

import (
	"fmt"
	"log/slog"
)

// Secret is text that is always masked: every way of printing or encoding it gives "***".
type Secret struct{ text string }

var (
	_ fmt.Formatter  = Secret{}
	_ slog.LogValuer = Secret{}
)

const mask = "***"

// NewSecret makes a secret of text.
func NewSecret(text string) Secret { return Secret{text} }

// Reveal returns the secret itself, for the one call that needs it.
func (s Secret) Reveal() string { return s.text }

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == "" }

// String returns "***".
func (Secret) String() string { return mask }

// GoString returns "***".
func (Secret) GoString() string { return mask }

// Format prints "***" whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, mask) }

// MarshalText returns "***".
func (Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }

// MarshalJSON returns "***".
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + mask + `"`), nil }

// MarshalYAML returns "***".
func (Secret) MarshalYAML() (any, error) { return mask, nil }

// LogValue returns "***".
func (Secret) LogValue() slog.Value { return slog.StringValue(mask) }
