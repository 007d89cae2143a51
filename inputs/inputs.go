// Package inputs is the list of built-in inputs.
package inputs

import (
	_ "github.com/flowd-io/flowd/inputs/file"
	_ "github.com/flowd-io/flowd/inputs/generate"
	_ "github.com/flowd-io/flowd/inputs/http"
	_ "github.com/flowd-io/flowd/inputs/http_server"
	_ "github.com/flowd-io/flowd/inputs/pipe"
	_ "github.com/flowd-io/flowd/inputs/poll"
	_ "github.com/flowd-io/flowd/inputs/program"
	_ "github.com/flowd-io/flowd/inputs/sequence"
	_ "github.com/flowd-io/flowd/inputs/singer"
	_ "github.com/flowd-io/flowd/inputs/stdin"
)
