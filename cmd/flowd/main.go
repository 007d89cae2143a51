// Command flowd runs pipelines that are written as YAML files.
package main

import (
	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/cmd/flowd/cli"
	_ "github.com/flowd-io/flowd/inputs"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

func main() { cli.Main() }
