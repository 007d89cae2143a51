package test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

const copyPipeline = `
inputs:
  in: {stdin: {}}
outputs:
  out: {stdout: {}}
`

func TestASignalDrains(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			dir := t.TempDir()
			p := start(t, dir, "-c", write(t, dir, "copy.yaml", copyPipeline))
			p.Send("one\n")
			if got := p.Line(); got != "one" {
				t.Errorf("stdout %q, want one", got)
			}
			p.Signal(s) // stdin is still open
			p.Wait().Want(t, 0, "draining", "copy: 1 received: 1 delivered")
		})
	}
}

const stuckPipeline = `
inputs:
  in: {stdin: {}}
processors:
  - log: arrived
  - sleep: 1h
outputs:
  out: {stdout: {}}
engine:
  timeout: 2h
`

// stdin can't redeliver messages.
func TestADrainTimeoutLosesMessagesFromStdin(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "stuck.yaml", stuckPipeline), "-s", "engine.drain.timeout=200ms")
	p.Send("one\n")
	p.Says("arrived")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 1, "the pipeline stopped before this message was finished, and its source can't redeliver it",
		"unfinished messages were lost", "1 received: 1 dropped")
}

func TestASecondSignalStopsHard(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "stuck.yaml", stuckPipeline), "-s", "engine.drain.timeout=1h")
	p.Send("one\n")
	p.Says("arrived")
	p.Signal(syscall.SIGTERM)
	p.Says("draining")
	p.Signal(syscall.SIGINT)
	p.Wait().Want(t, 1, "stopping at once", "1 received: 1 dropped")
}

// GNU timeout signals a process and then its group.
func TestOneSignalThatComesTwiceDrains(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "stuck.yaml", stuckPipeline), "-s", "engine.drain.timeout=300ms")
	p.Send("one\n")
	p.Says("arrived")
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGTERM)
	got := p.Wait()
	got.Want(t, 1, "draining", "1 received: 1 dropped")
	if strings.Contains(got.Stderr, "stopping at once") {
		t.Errorf("the signal counted twice:\n%s", got.Stderr)
	}
}

// A reader that closes stdout ends the run, even though stdin is still open.
func TestAClosedStdoutEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "copy.yaml", copyPipeline))
	p.Send("one\n")
	p.Line()
	if err := p.Stdout.Close(); err != nil { // as head -1 does
		t.Fatal(err)
	}
	p.Send("two\n")
	p.Wait().Want(t, 1, "output out", "standard output was closed by its reader")
}

// A signal during loading neither kills the process nor is lost.
func TestSignalsDuringLoading(t *testing.T) {
	var long strings.Builder
	long.WriteString("inputs: {in: {stdin: {}}}\noutputs: {out: {stdout: {}}}\nprocessors:\n")
	for i := range 10_000 {
		fmt.Fprintf(&long, "  - set: {f%d: 'n + %d'}\n", i%100, i)
	}
	for _, signals := range [][]syscall.Signal{{syscall.SIGHUP}, {syscall.SIGTERM}, {syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGTERM}} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			dir := t.TempDir()
			p := start(t, dir, "-c", write(t, dir, "long.yaml", long.String()))
			for n, known := p.Reads(); n < int64(long.Len()); n, known = p.Reads() { // until it has read the file
				if !known {
					t.Skip("SKIPPED: without /proc, the test can't know when the files are being read")
				}
				runtime.Gosched()
			}
			for _, s := range signals {
				p.Signal(s)
			}
			if signals[len(signals)-1] == syscall.SIGHUP {
				p.Says("reloaded")
				p.Signal(syscall.SIGTERM)
			}
			p.Wait().Want(t, 0, "draining")
		})
	}
}
