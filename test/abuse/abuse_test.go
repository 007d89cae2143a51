// Package abuse attacks the built binary as a hostile client, message, file, worker or
// log reader would. Each row of the table is one case; none may crash flowd, leak a
// secret, or take more memory, disk or time than its budget.
package abuse

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/flowd-io/flowd/test/flowdtest"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // most wait for processes, and compute nothing
		_ = f.Value.Set("4")
	}
	remove, err := flowdtest.Build()
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	if remove != nil {
		remove()
	}
	os.Exit(code)
}

// attack is one case.
type attack struct {
	name string // what the attacker tries
	try  func(t *testing.T)
}

// TestAbuse tries every attack. The groups are those of SECURITY.md.
func TestAbuse(t *testing.T) {
	groups := []struct {
		name    string
		attacks []attack
	}{
		{"http clients", httpClients},
		{"size and shape of data", shapes},
		{"validation", validations},
		{"configuration", configurations},
		{"names built from data", names},
		{"calling out", callingOut},
		{"hostile servers", slices.Concat(servers, webServers)},
		{"files and machine", machine},
		{"cluster", cluster},
		{"what others learn", disclosures},
		{"log", logs},
		{"terminal", terminal},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, a := range g.attacks {
				t.Run(a.name, func(t *testing.T) {
					t.Parallel()
					a.try(t)
				})
			}
		})
	}
}
