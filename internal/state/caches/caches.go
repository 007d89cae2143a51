// Package caches is the list of built-in caches: importing it registers them all.
package caches

import (
	_ "github.com/flowd-io/flowd/internal/state/caches/file"
	_ "github.com/flowd-io/flowd/internal/state/caches/memory"
)
