package test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every command waits for the initialisation of all packages, used or not. Time is
// no measure in a test, but what is allocated then is the same in each run: tables,
// regular expressions, and schemas, which belong where they are used first.
func TestPackagesInitialiseLittle(t *testing.T) {
	const (
		most = 7 << 19  // bytes of all; libraries for JSON Schema, AWS and metrics need most of 2.7 MB
		ours = 64 << 10 // of each package of this module
	)
	cmd := exec.CommandContext(t.Context(), binary, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("flowd version: %v\n%s", err, trace.String())
	}
	type share struct {
		pkg   string
		bytes int
	}
	var all []share
	total := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(trace.String(), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, share{m[1], n})
		total += n
		if strings.HasPrefix(m[1], module+"/") && n > ours {
			t.Errorf("%s allocates %d bytes when a program starts, want at most %d (make it on first use: sync.OnceValue)", m[1], n, ours)
		}
	}
	if len(all) < 50 {
		t.Fatalf("only %d packages are in the trace:\n%s", len(all), trace.String())
	}
	if total > most {
		slices.SortFunc(all, func(a, b share) int { return b.bytes - a.bytes })
		var first strings.Builder
		for _, s := range all[:10] {
			fmt.Fprintf(&first, "%9d %s\n", s.bytes, s.pkg)
		}
		t.Errorf("packages allocate %d bytes when flowd starts, want at most %d:\n%s", total, most, first.String())
	}
}
