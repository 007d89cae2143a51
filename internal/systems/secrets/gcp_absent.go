//go:build no_google || (slim && !google)

package secrets

import "github.com/flowd-io/flowd/internal/components/builds"

// GCP is a mistake here.
type GCP struct{ builds.Absent[gcp] }

type gcp struct{}

func (gcp) Family() string { return "google" }
