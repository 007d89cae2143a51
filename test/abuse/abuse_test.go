// Package abuse attacks the built binary, with hostile clients, messages, files, workers and
// servers. Each row of a table is one attack. No attack may crash flowd, reveal a secret, or
// use more memory, disk or time than its budget.
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
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // most tests only wait for processes
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

// attack is one test case.
type attack struct {
	name string // what the attacker does
	try  func(t *testing.T)
}

// TestAbuse runs every attack. SECURITY.md has the same groups.
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
