//go:build !no_nats && (!slim || nats)

package caches

import _ "github.com/flowd-io/flowd/internal/state/caches/nats_kv"
