//go:build !no_redis && (!slim || redis)

package processors

import _ "github.com/flowd-io/flowd/processors/redis"
