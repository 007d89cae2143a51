package bench

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const poisoned = `
inputs:
  events: {file: {path: %q}}
processors:
  - http: http://127.0.0.1:9/ # where nobody listens
    when: %s
outputs:
  out: {stdout: {}}
engine: {on_failure: {then: drop}}
`

// BenchmarkPoison is file to standard output with one message in 20,000 that fails
// whenever it is tried. x_clean is how much longer all others take than where none
// fails, in the same run: it should be near 1.
func BenchmarkPoison(b *testing.B) {
	dir := b.TempDir()
	flowd, in := buildFlowd(b, dir), filepath.Join(dir, "in.ndjson")
	writeEvents(b, in, messages)
	const bad = messages / 20_000
	file := func(name, when string) string {
		path := filepath.Join(dir, name)
		writeFile(b, path, fmt.Sprintf(poisoned, in, when))
		return path
	}
	clean, ill := file("clean.yaml", "id % 20000 == -1"), file("ill.yaml", "id % 20000 == 777")
	var cleanTook, illTook time.Duration
	for b.Loop() {
		cleanTook += untilLine(b, messages, 0, flowd, "-c", clean)
		illTook += untilLine(b, messages-bad, 1, flowd, "-c", ill)
	}
	b.ReportMetric(illTook.Seconds()/cleanTook.Seconds(), "x_clean")
	b.ReportMetric(float64(b.N)*messages/illTook.Seconds(), "messages/s")
	b.ReportMetric(0, "ns/op")
}

// untilLine is how long flowd takes to write n lines; it must write no more, and end
// with a code.
func untilLine(b *testing.B, n, code int, flowd string, args ...string) (took time.Duration) {
	cmd := exec.Command(flowd, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	check(b, err)
	began, got := time.Now(), 0
	check(b, cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if got++; got == n {
			took = time.Since(began)
		}
	}
	check(b, lines.Err())
	_ = cmd.Wait() // the code tells
	if got != n || cmd.ProcessState.ExitCode() != code {
		b.Fatalf("%d lines, want %d; code %d, want %d\n%s", got, n, cmd.ProcessState.ExitCode(), code, errs.String())
	}
	return took
}
