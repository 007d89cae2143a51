//go:build !no_aws && (!slim || aws)

package inputs

import (
	_ "github.com/flowd-io/flowd/inputs/s3"
	_ "github.com/flowd-io/flowd/inputs/sqs"
)
