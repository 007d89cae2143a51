// Package outputs is the list of built-in outputs.
package outputs

import (
	_ "github.com/flowd-io/flowd/outputs/drop"
	_ "github.com/flowd-io/flowd/outputs/fallback"
	_ "github.com/flowd-io/flowd/outputs/file"
	_ "github.com/flowd-io/flowd/outputs/http"
	_ "github.com/flowd-io/flowd/outputs/partition"
	_ "github.com/flowd-io/flowd/outputs/pipe"
	_ "github.com/flowd-io/flowd/outputs/program"
	_ "github.com/flowd-io/flowd/outputs/reply"
	_ "github.com/flowd-io/flowd/outputs/round_robin"
	_ "github.com/flowd-io/flowd/outputs/stdout"
)
