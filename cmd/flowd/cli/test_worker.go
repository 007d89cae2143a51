package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/internal/operations/pipetest"
	"github.com/spf13/cobra"
)

// runWorker runs a test in its own process: each test begins at the same virtual time, without leftovers of another,
// and one that crashes or hangs does not affect others.
func runWorker(ctx context.Context, t *testRun, o testOptions) pipetest.Result {
	exe, err := os.Executable()
	if err != nil {
		return broken("flowd can't find its own executable: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	args := []string{"test", fmt.Sprintf("--worker=%d:%d", t.number[0], t.number[1])}
	for _, s := range o.set {
		args = append(args, "--set="+s)
	}
	for _, dir := range o.plugins {
		args = append(args, "--plugins="+dir)
	}
	cmd := exec.CommandContext(ctx, exe, append(append(args, "--"), o.files...)...)
	var out bytes.Buffer
	var said head
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &said, time.Second
	cmd.Env = os.Environ()
	for name, value := range t.test.Env.All() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	err = cmd.Run()

	var res pipetest.Result
	switch {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return broken(
			"not finished after %v of real time: a step computes or waits for another system (mock it, or raise --timeout)",
			o.timeout)
	case ctx.Err() != nil:
		return broken("interrupted")
	case err != nil:
		return broken("the test's process ended: %v\n%s", err, crash(said.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &res); err != nil {
		return broken("the test's process did not answer: %v\n%s", err, crash(said.String()))
	}
	return res
}

func broken(format string, args ...any) pipetest.Result {
	return pipetest.Result{Differences: []pipetest.Difference{{At: "run",
		Got: strings.TrimSpace(fmt.Sprintf(format, args...))}}}
}

// crash returns what a crashed process wrote, from its panic on.
func crash(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "panic:") || strings.HasPrefix(l, "fatal error:") {
			lines = lines[i:]
			break
		}
	}
	return strings.Join(lines[:min(len(lines), 12)], "\n")
}

// head keeps the beginning of what is written.
type head struct{ bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	const most = 64 << 10
	h.Buffer.Write(p[:min(len(p), max(0, most-h.Len()))])
	return len(p), nil
}

// testWorker runs one test, and writes the result to stdout.
func testWorker(cmd *cobra.Command, o testOptions) error {
	var pipeline, number int
	if _, err := fmt.Sscanf(o.worker, "%d:%d", &pipeline, &number); err != nil {
		return usage("--worker is for flowd's own use")
	}
	answer := messages(cmd.OutOrStdout())
	os.Stdout = os.Stderr // a step's prints must not mix with the result
	runtime.GOMAXPROCS(1) // goroutines take turns in the same order each time

	loaded, problems := config.Load(o.files, config.Options{Set: o.set, Plugins: o.plugins, Testing: true})
	if n, _ := count(problems); n > 0 || pipeline >= len(loaded.Pipelines) ||
		number >= len(loaded.Pipelines[pipeline].Tests()) {
		return errors.New("the files have changed meanwhile")
	}
	res, err := pipetest.Run(loaded.Rehearse(loaded.Pipelines[pipeline], number))
	if err != nil {
		res = broken("%v", err)
	}
	for _, p := range res.Problems {
		p.Excerpt = ""
		res.Differences = append(res.Differences, pipetest.Difference{At: "run", Got: p.String()})
	}
	return json.NewEncoder(answer).Encode(res)
}
