// Package caches is the list of built-in caches: importing it registers them all.
package caches

import (
	_ "github.com/flowd-io/flowd/internal/caches/file"
	_ "github.com/flowd-io/flowd/internal/caches/memory"
	_ "github.com/flowd-io/flowd/internal/caches/nats_kv"
	_ "github.com/flowd-io/flowd/internal/caches/sql"
)
