//go:build no_aws || (slim && !aws)

package kafka

import (
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/twmb/franz-go/pkg/sasl"
)

// keys can't be configured in builds without AWS.
type keys struct{ builds.Absent[family] }

type family struct{}

func (family) Family() string { return "aws" }

func withKeys(*keys) (sasl.Mechanism, error) {
	return nil, builds.Without("mechanism AWS_MSK_IAM", "aws")
}
