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
		most = 2600 << 10 // bytes of all, which are about 2,340 KiB: AWS takes a third of them
		ours = 40 << 10   // of each package of this module
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

var collection = regexp.MustCompile(`(?m)^gc \d+ @.* \d+->\d+->(\d+) MB, (\d+) MB goal`)

// collections runs flowd and says of each collection how much of the heap it kept, and
// how large it let the heap grow before, in MB.
func collections(t *testing.T, stdin, config string) (kept, goals []int) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "p.yaml", "inputs: {in: {stdin: {}}}\noutputs: {out: {drop: {}}}\n"+config)
	cmd := exec.CommandContext(t.Context(), binary, "-c", "p.yaml")
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GODEBUG=gctrace=1", "GOGC=", "GOMEMLIMIT=")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("flowd: %v\n%s", err, trace.String())
	}
	for _, m := range collection.FindAllStringSubmatch(trace.String(), -1) {
		for i, list := range []*[]int{&kept, &goals} {
			n, err := strconv.Atoi(m[i+1])
			if err != nil {
				t.Fatal(err)
			}
			*list = append(*list, n)
		}
	}
	return kept, goals
}

// TestCollectionsAreFarApart: by default a heap that is as small as this one would be collected at each 4 MB.
func TestCollectionsAreFarApart(t *testing.T) {
	t.Parallel()
	kept, goals := collections(t, strings.Repeat("{}\n", 300), `processors: [{set: {s: 'repeat("x", 1048576)'}}]`)
	if len(goals) < 4 {
		t.Fatalf("%d collections of 300 MB, want more", len(goals))
	}
	for i := range goals[2:] { // the first ones are part of the start
		if used, goal := kept[1+i], goals[2+i]; goal < min(4*used, 100) || goal > 300 {
			t.Errorf("with %d MB in use, a collection is due at %d MB, want four times as many, up to what is left of 128 MB", used, goal)
		}
	}
}
