//go:build !no_redis && (!slim || redis)

package caches

import _ "github.com/flowd-io/flowd/internal/state/caches/redis"
