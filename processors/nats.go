//go:build !no_nats && (!slim || nats)

package processors

import _ "github.com/flowd-io/flowd/internal/pool/hub"
