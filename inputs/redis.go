//go:build !no_redis && (!slim || redis)

package inputs

import (
	_ "github.com/flowd-io/flowd/inputs/redis_list"
	_ "github.com/flowd-io/flowd/inputs/redis_pubsub"
	_ "github.com/flowd-io/flowd/inputs/redis_stream"
)
