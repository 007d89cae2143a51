//go:build no_aws || (slim && !aws)

package kafka

import (
	"github.com/flowd-io/flowd/internal/components/builds"
	"github.com/twmb/franz-go/pkg/sasl"
)

// keys are a mistake here.
type keys struct{ builds.Absent[family] }

type family struct{}

func (family) Family() string { return "aws" }

func byKeys(*keys) (sasl.Mechanism, error) {
	return nil, builds.Without("mechanism AWS_MSK_IAM", "aws")
}
