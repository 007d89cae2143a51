//go:build no_azure || (slim && !azure)

package secrets

import "github.com/flowd-io/flowd/internal/components/builds"

// Azure is a mistake here.
type Azure struct{ builds.Absent[keyVault] }

type keyVault struct{}

func (keyVault) Family() string { return "azure" }
