//go:build !no_otel && (!slim || otel)

package inputs

import _ "github.com/flowd-io/flowd/inputs/otlp"
