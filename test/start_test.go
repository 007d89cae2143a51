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

// Every command waits for the initialisation of all packages, used or not. A test can't rely
// on time, but allocations are the same in each run. Tables, regular expressions and schemas
// should be made on first use.
func TestPackagesInitialiseLittle(t *testing.T) {
	const (
		most = 2960 << 10 // bytes for all packages; about 2,840 KiB are used, a third of them by AWS, a seventh by OTLP's schemas
		ours = 40 << 10   // bytes for a package of this module
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
			t.Errorf("%s allocates %d bytes when it is initialised, want at most %d (use sync.OnceValue)", m[1], n, ours)
		}
	}
	if len(all) < 50 {
		t.Fatalf("the trace has only %d packages:\n%s", len(all), trace.String())
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

// collections runs flowd, and returns the live heap and the goal of each garbage collection, in MB.
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

// TestCollectionsAreFarApart: with Go's defaults, so small a heap would be collected every 4 MB. Where CPU time is short,
// messages pile up. A heap that is no longer small may grow by less, since the memory limit bounds it, too.
func TestCollectionsAreFarApart(t *testing.T) {
	kept, goals := collections(t, strings.Repeat("{}\n", 300), `processors: [{set: {s: 'repeat("x", 1048576)'}}]`)
	if len(goals) < 4 {
		t.Fatalf("%d collections for 300 MB, want at least 4", len(goals))
	}
	for i := range goals[2:] { // the first ones are part of startup
		used, goal := kept[1+i], goals[2+i]
		least := 4 * used
		if used > 16 {
			least = used * 3 / 2
		}
		if goal < least || goal > 300 {
			t.Errorf("with %d MB in use, a collection is due at %d MB, want at least %d and at most 300", used, goal, least)
		}
	}
}
