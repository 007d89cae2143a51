// Command migrate scores translations from Benthos, Bento and Redpanda Connect against a checkout of one of them, of
// which nothing enters this repository:
//
//	go run ./test/migrate bloblang --peer DIR    documented examples of Bloblang that give the same result
//	go run ./test/migrate differential           mappings that are made up, run by a benthos on PATH and by flowd
//	go run ./test/migrate configs --peer DIR     configurations that are translated whole
//	go run ./test/migrate tests --peer DIR       embedded tests that pass after translation
//
// It prints how many are the same and lists every other one with its reason. Each score is a file of this package.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

// scores are the commands.
var scores = map[string]func(args []string, stdout io.Writer) error{
	"bloblang":     bloblangScore,
	"differential": differential,
	"configs":      ofPeer(configs),
	"tests":        ofPeer(tests),
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
