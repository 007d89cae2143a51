//go:build no_vault || (slim && !vault)

package secrets

import "github.com/flowd-io/flowd/internal/components/builds"

// Vault is a mistake here.
type Vault struct{ builds.Absent[vault] }

type vault struct{}

func (vault) Family() string { return "vault" }
