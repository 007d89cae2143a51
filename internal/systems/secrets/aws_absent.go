//go:build no_aws || (slim && !aws)

package secrets

import "github.com/flowd-io/flowd/internal/components/builds"

// AWS is a mistake here.
type AWS struct{ builds.Absent[amazon] }

type amazon struct{}

func (amazon) Family() string { return "aws" }
