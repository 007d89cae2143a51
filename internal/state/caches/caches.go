// Package caches registers all built-in caches when it is imported.
package caches

import (
	_ "github.com/flowd-io/flowd/internal/state/caches/file"
	_ "github.com/flowd-io/flowd/internal/state/caches/memory"
)
