//go:build !no_otel && (!slim || otel)

package outputs

import _ "github.com/flowd-io/flowd/outputs/otlp"
