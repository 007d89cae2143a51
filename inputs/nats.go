//go:build !no_nats && (!slim || nats)

package inputs

import _ "github.com/flowd-io/flowd/inputs/nats"
