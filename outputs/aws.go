//go:build !no_aws && (!slim || aws)

package outputs

import (
	_ "github.com/flowd-io/flowd/outputs/s3"
	_ "github.com/flowd-io/flowd/outputs/sns"
	_ "github.com/flowd-io/flowd/outputs/sqs"
)
