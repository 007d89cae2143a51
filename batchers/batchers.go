// Package batchers registers all built-in batchers when it is imported.
package batchers

import (
	_ "github.com/flowd-io/flowd/batchers/batch"
	_ "github.com/flowd-io/flowd/batchers/window"
)
