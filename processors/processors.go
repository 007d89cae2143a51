// Package processors is the list of built-in processors: importing it registers
// them all.
package processors

import (
	_ "github.com/flowd-io/flowd/processors/aggregate"
	_ "github.com/flowd-io/flowd/processors/archive"
	_ "github.com/flowd-io/flowd/processors/compress"
	_ "github.com/flowd-io/flowd/processors/decode"
	_ "github.com/flowd-io/flowd/processors/decompress"
	_ "github.com/flowd-io/flowd/processors/each"
	_ "github.com/flowd-io/flowd/processors/encode"
	_ "github.com/flowd-io/flowd/processors/fail"
	_ "github.com/flowd-io/flowd/processors/filter"
	_ "github.com/flowd-io/flowd/processors/keep"
	_ "github.com/flowd-io/flowd/processors/log"
	_ "github.com/flowd-io/flowd/processors/map"
	_ "github.com/flowd-io/flowd/processors/meta"
	_ "github.com/flowd-io/flowd/processors/rename"
	_ "github.com/flowd-io/flowd/processors/set"
	_ "github.com/flowd-io/flowd/processors/sleep"
	_ "github.com/flowd-io/flowd/processors/split"
	_ "github.com/flowd-io/flowd/processors/steps"
	_ "github.com/flowd-io/flowd/processors/switch"
	_ "github.com/flowd-io/flowd/processors/unset"
)
