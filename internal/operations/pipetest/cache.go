package pipetest

import (
	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/internal/state/caches/memory" // in every build, so it can replace any other cache
	"github.com/flowd-io/flowd/schema"
)

// newCache replaces a cache outside the process. It starts empty, and has room for more than a test writes.
func newCache() engine.Plugin[engine.Cache] {
	var c config.CacheSpec
	n, _ := schema.ParseJSON(`{"memory": {"max_keys": 2147483647, "max_bytes": 2147483647}}`)
	schema.NewDecoder(nil).Decode(n, &c)
	return c.Use
}
