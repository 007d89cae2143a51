// Command migrate scores translations from Benthos, Bento and Redpanda Connect. It reads a checkout of one of them, and
// copies nothing from there into this repository:
//
//	go run ./test/migrate bloblang --peer DIR    documented examples of Bloblang that give the same result
//	go run ./test/migrate differential           random mappings, run by a benthos on PATH and by flowd
//	go run ./test/migrate configs --peer DIR     configurations that are translated completely
//	go run ./test/migrate tests --peer DIR       embedded tests that pass after translation
//
// It prints how many are right, and lists all others with the reason. Each score has its own file in this package.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

// scores are the subcommands.
var scores = map[string]func(args []string, stdout io.Writer) error{
	"bloblang":     scoreBloblang,
	"differential": scoreDifferential,
	"configs":      withPeer(scoreConfigs),
	"tests":        withPeer(scoreTests),
}

func main() {
	names := make([]string, 0, len(scores))
	for name := range scores {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(os.Args) < 2 || scores[os.Args[1]] == nil {
		fmt.Fprintf(os.Stderr, "migrate: expected one of %v, then --peer DIR\n", names)
		os.Exit(2)
	}
	if err := scores[os.Args[1]](os.Args[2:], os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}
