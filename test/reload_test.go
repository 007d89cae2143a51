package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const markPipeline = `
inputs:
  in: {stdin: {}}
processors:
  - set: {by: '"first"'}
outputs:
  out: {stdout: {}}
`

func TestSIGHUPReloads(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "mark.yaml", markPipeline)
	p := start(t, dir, "-c", file)
	step := func(send, want string) {
		t.Helper()
		p.Send(send + "\n")
		if got := p.Line(); got != want {
			t.Errorf("stdout %s, want %s", got, want)
		}
	}
	step(`{"n":1}`, `{"n":1,"by":"first"}`)

	write(t, dir, "mark.yaml", strings.Replace(markPipeline, "first", "second", 1))
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	step(`{"n":2}`, `{"n":2,"by":"second"}`)

	write(t, dir, "mark.yaml", strings.Replace(markPipeline, "set:", "sett:", 1))
	p.Signal(syscall.SIGHUP)
	p.Says("nothing has changed")
	step(`{"n":3}`, `{"n":3,"by":"second"}`)

	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "mark: 3 received: 3 delivered", "unknown processor")
}

// Logs are rotated as logrotate does, without a signal and with SIGHUP.
func TestRotatedLogsAreReopened(t *testing.T) {
	dir := t.TempDir()
	file, log := write(t, dir, "p.yaml", "inputs: {in: {stdin: {}}}\noutputs: {out: {file: app.log}}\n"),
		filepath.Join(dir, "app.log")
	p := start(t, dir, "-c", file)
	step := func(name string) {
		t.Helper()
		p.Send(name + "\n")
		for late := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if text, _ := os.ReadFile(log); string(text) == name+"\n" {
				return
			}
			if time.Now().After(late) {
				t.Fatalf("%s was not written to app.log", name)
			}
		}
	}
	rotate := func(to string) {
		t.Helper()
		if err := os.Rename(log, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	step("a")
	rotate("app.log.1")
	step("b")
	p.Says("opening it again")
	rotate("app.log.2")
	p.Signal(syscall.SIGHUP)
	p.Says("reloaded")
	step("c")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "3 received")
	for name, want := range map[string]string{"app.log.1": "a\n", "app.log.2": "b\n", "app.log": "c\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want {
			t.Errorf("%s has %q, %v, want %q", name, got, err, want)
		}
	}
}

// Kubernetes mounts a file as a symbolic link through another link, which it replaces on changes.
func TestWatchSeesASwappedLink(t *testing.T) {
	dir := t.TempDir()
	mount := filepath.Join(dir, "mount")
	version := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(mount, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(mount, name), "mark.yaml", text)
		if err := os.Symlink(name, filepath.Join(mount, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(mount, "..tmp"), filepath.Join(mount, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", markPipeline)
	if err := os.Symlink(filepath.Join("..data", "mark.yaml"), filepath.Join(mount, "mark.yaml")); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "--watch", "-c", filepath.Join(mount, "mark.yaml"))
	p.Send("{}\n")
	if got := p.Line(); got != `{"by":"first"}` {
		t.Errorf("stdout %s", got)
	}
	version("..2", strings.Replace(markPipeline, "first", "second", 1))
	p.Says("reloaded")
	p.Send("{}\n")
	if got := p.Line(); got != `{"by":"second"}` {
		t.Errorf("stdout %s", got)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "mark: 2 received: 2 delivered")
}

func TestSIGUSR1DrainsAndStays(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "copy.yaml", copyPipeline))
	p.Send("one\n")
	p.Line()
	p.Signal(syscall.SIGUSR1)
	p.Says("copy: 1 received: 1 delivered")
	p.Signal(syscall.SIGTTIN)
	p.Says("copy: stopped, 1 received")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}

func TestAReloadReportsIgnoredChanges(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "copy.yaml", copyPipeline)
	p := start(t, dir, "-c", file)
	p.Send("one\n")
	p.Line()
	write(t, dir, "copy.yaml", copyPipeline+"service: {listen: 127.0.0.1:9600}\n")
	p.Signal(syscall.SIGHUP)
	p.Says("the changed section service is not applied")
	p.Says("reloaded")
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "copy: 1 received: 1 delivered")
}

// Draining has closed the output, so a new one must be opened.
func TestADrainedPipelineRestarts(t *testing.T) {
	for _, by := range []syscall.Signal{syscall.SIGCONT, syscall.SIGHUP} {
		t.Run(by.String(), func(t *testing.T) {
			dir := t.TempDir()
			p := start(t, dir, "-c", write(t, dir, "count.yaml", `
inputs: {in: {generate: {interval: 10ms, body: "{n: counter()}"}}}
outputs: {file: {file: out.ndjson}, console: {stdout: {}}}
batchers: {both: {output: [file, console]}}
`))
			p.Line()
			p.Signal(syscall.SIGUSR1)
			p.Says("count: ")
			lines := strings.Count(read(t, dir, "out.ndjson"), "\n")
			for range lines - 1 {
				p.Line()
			}
			p.Signal(by)
			if got, want := p.Line(), fmt.Sprintf(`{"n":%d}`, lines+1); got != want {
				t.Errorf("it continues with %s, want %s", got, want)
			}
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(t, 0)
		})
	}
}

// Draining has closed both ends of a pipe, and the pipe itself.
func TestDrainedPipesAreReconnected(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", `
inputs: {in: {generate: {interval: 10ms, body: "{n: counter()}"}}}
outputs: {out: {pipe: link}}
`)
	write(t, dir, "b.yaml", "inputs: {in: {pipe: link}}\noutputs: {out: {stdout: {}}}\n")
	p := start(t, dir, "-c", dir)
	p.Line()
	p.Signal(syscall.SIGUSR1)
	p.Says("a: ")
	n, _, _ := strings.Cut(strings.TrimPrefix(p.Says("b: "), "b: "), " ")
	lines, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	for range lines - 1 {
		p.Line()
	}
	p.Signal(syscall.SIGCONT)
	if got, want := p.Line(), fmt.Sprintf(`{"n":%d}`, lines+1); got != want {
		t.Errorf("it continues with %s, want %s", got, want)
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0)
}

func TestSIGTSTPPausesAndSIGCONTResumes(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "copy.yaml", copyPipeline))
	p.Send("one\n")
	p.Line()
	p.Signal(syscall.SIGTSTP)
	p.Says("reading is paused")
	for late := time.Now().Add(deadline); !strings.Contains(p.Stderr.Text(), "copy: input in: paused, 1 read"); {
		if time.Now().After(late) { // a Read may still return when the pause begins
			t.Fatalf("it does not pause:\n%s", p.Stderr.Text())
		}
		p.Signal(syscall.SIGTTIN)
		time.Sleep(10 * time.Millisecond)
	}
	p.Send("two\n")
	p.Signal(syscall.SIGTTIN)
	p.Says("copy: paused, 1 received")
	p.Signal(syscall.SIGCONT)
	if got := p.Line(); got != "two" || strings.Contains(p.Stderr.Text(), "copy: paused, 2 received") {
		t.Errorf("stdout %s, stderr:\n%s", got, p.Stderr.Text())
	}
	p.Signal(syscall.SIGTERM)
	p.Wait().Want(t, 0, "copy: 2 received: 2 delivered")
}

// --watch and SIGHUP also reload included files.
func TestAReloadSeesIncludedFiles(t *testing.T) {
	for _, how := range []string{"--watch", "SIGHUP"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			marks := func(name string) {
				t.Helper()
				write(t, dir, "parts/marks.yaml", "resources: {steps: {mark: [{set: {by: '\""+name+"\"'}}]}}\n")
			}
			if err := os.Mkdir(filepath.Join(dir, "parts"), 0o700); err != nil {
				t.Fatal(err)
			}
			marks("first")
			args := []string{"-c", write(t, dir, "mark.yaml", "include: parts/*.yaml\n"+
				strings.Replace(markPipeline, `set: {by: '"first"'}`, "steps: mark", 1))}
			if how == "--watch" {
				args = append(args, how)
			}
			p := start(t, dir, args...)
			p.Send("{}\n")
			if got := p.Line(); got != `{"by":"first"}` {
				t.Errorf("stdout %s", got)
			}
			if marks("second"); how == "SIGHUP" {
				p.Signal(syscall.SIGHUP)
			}
			p.Says("reloaded")
			p.Send("{}\n")
			if got := p.Line(); got != `{"by":"second"}` {
				t.Errorf("stdout %s", got)
			}
			p.Signal(syscall.SIGTERM)
			p.Wait().Want(t, 0, "mark: 2 received: 2 delivered")
		})
	}
}
