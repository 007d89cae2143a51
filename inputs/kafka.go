//go:build !no_kafka && (!slim || kafka)

package inputs

import _ "github.com/flowd-io/flowd/inputs/kafka"
