//go:build !no_nats && (!slim || nats)

package outputs

import _ "github.com/flowd-io/flowd/outputs/nats"
