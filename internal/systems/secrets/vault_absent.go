//go:build no_vault || (slim && !vault)

package secrets

import (
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/flowd-io/flowd/schema"
)

// Vault is a mistake here.
type Vault struct{ builds.Absent[vault] }

type vault struct{}

func (vault) Family() string { return "vault" }

// lacks returns an error if this build lacks a manager.
func lacks(kind string) error {
	return &schema.LookupError{Code: schema.BadPlaceholder, Err: builds.Without(kind, "vault")}
}

func open(kind string, _ *Config) (manager, error) { return nil, lacks(kind) }
