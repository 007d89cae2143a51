// Package batchers is the list of built-in batchers: importing it registers
// them all.
package batchers

import (
	_ "github.com/flowd-io/flowd/batchers/batch"
	_ "github.com/flowd-io/flowd/batchers/window"
)
