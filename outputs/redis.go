//go:build !no_redis && (!slim || redis)

package outputs

import (
	_ "github.com/flowd-io/flowd/outputs/redis_list"
	_ "github.com/flowd-io/flowd/outputs/redis_pubsub"
	_ "github.com/flowd-io/flowd/outputs/redis_stream"
)
