// Command myflowd is flowd with three plugins more.
package main

import (
	_ "example.com/myflowd/columns"
	_ "example.com/myflowd/countdown"
	_ "example.com/myflowd/mask"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/cmd/flowd/cli"
	_ "github.com/flowd-io/flowd/inputs"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

func main() { cli.Main() }
