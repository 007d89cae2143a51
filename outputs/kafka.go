//go:build !no_kafka && (!slim || kafka)

package outputs

import _ "github.com/flowd-io/flowd/outputs/kafka"
