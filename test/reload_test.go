package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

const mark = `
inputs:
  in: {stdin: {}}
processors:
  - set: {by: '"first"'}
outputs:
  out: {stdout: {}}
`

func TestSIGHUPReloads(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "mark.yaml", mark)
	p := start(t, dir, "-c", file)
	step := func(send, want string) {
		t.Helper()
		p.send(send + "\n")
		if got := p.line(); got != want {
			t.Errorf("stdout %s, want %s", got, want)
		}
	}
	step(`{"n":1}`, `{"n":1,"by":"first"}`)

	write(t, dir, "mark.yaml", strings.Replace(mark, "first", "second", 1))
	p.signal(syscall.SIGHUP)
	p.says("reloaded")
	step(`{"n":2}`, `{"n":2,"by":"second"}`)

	write(t, dir, "mark.yaml", strings.Replace(mark, "set:", "sett:", 1))
	p.signal(syscall.SIGHUP)
	p.says("what runs goes on as it was")
	step(`{"n":3}`, `{"n":3,"by":"second"}`)

	p.signal(syscall.SIGTERM)
	p.wait().want(t, 0, "mark: 3 received: 3 delivered", "unknown processor")
}

// Kubernetes mounts a file as a link to a link to a directory, and swaps the
// directory's link.
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
	version("..1", mark)
	if err := os.Symlink(filepath.Join("..data", "mark.yaml"), filepath.Join(mount, "mark.yaml")); err != nil {
		t.Fatal(err)
	}
	p := start(t, dir, "--watch", "-c", filepath.Join(mount, "mark.yaml"))
	p.send("{}\n")
	if got := p.line(); got != `{"by":"first"}` {
		t.Errorf("stdout %s", got)
	}
	version("..2", strings.Replace(mark, "first", "second", 1))
	p.says("reloaded")
	p.send("{}\n")
	if got := p.line(); got != `{"by":"second"}` {
		t.Errorf("stdout %s", got)
	}
	p.signal(syscall.SIGTERM)
	p.wait().want(t, 0, "mark: 2 received: 2 delivered")
}

func TestSIGUSR1DrainsAndStays(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "copy.yaml", copyLines))
	p.send("one\n")
	p.line()
	p.signal(syscall.SIGUSR1)
	p.says("copy: 1 received: 1 delivered")
	p.signal(syscall.SIGTTIN)
	p.says("copy: stopped, 1 received")
	p.signal(syscall.SIGTERM)
	p.wait().want(t, 0)
}

func TestAReloadSaysWhatItLeaves(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "copy.yaml", copyLines)
	p := start(t, dir, "-c", file)
	p.send("one\n")
	p.line()
	write(t, dir, "copy.yaml", copyLines+"service: {listen: 127.0.0.1:9600}\n")
	p.signal(syscall.SIGHUP)
	p.says("the section service has changed")
	p.says("reloaded")
	p.signal(syscall.SIGTERM)
	p.wait().want(t, 0, "copy: 1 received: 1 delivered")
}

// Its output was closed: what is written then is written by a new one.
func TestADrainedPipelineGoesOn(t *testing.T) {
	for _, by := range []syscall.Signal{syscall.SIGCONT, syscall.SIGHUP} {
		t.Run(by.String(), func(t *testing.T) {
			dir := t.TempDir()
			p := start(t, dir, "-c", write(t, dir, "count.yaml", `
inputs: {in: {generate: {interval: 10ms, body: "{n: counter()}"}}}
outputs: {file: {file: out.ndjson}, console: {stdout: {}}}
batchers: {both: {output: [file, console]}}
`))
			p.line()
			p.signal(syscall.SIGUSR1)
			p.says("count: ")
			lines := strings.Count(read(t, dir, "out.ndjson"), "\n")
			for range lines - 1 {
				p.line()
			}
			p.signal(by)
			if got, want := p.line(), fmt.Sprintf(`{"n":%d}`, lines+1); got != want {
				t.Errorf("it goes on with %s, want %s", got, want)
			}
			p.signal(syscall.SIGTERM)
			p.wait().want(t, 0)
		})
	}
}

// Both ends of a pipe were closed, and so was the pipe.
func TestDrainedPipelinesAreLinkedAgain(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", `
inputs: {in: {generate: {interval: 10ms, body: "{n: counter()}"}}}
outputs: {out: {pipe: link}}
`)
	write(t, dir, "b.yaml", "inputs: {in: {pipe: link}}\noutputs: {out: {stdout: {}}}\n")
	p := start(t, dir, "-c", dir)
	p.line()
	p.signal(syscall.SIGUSR1)
	p.says("a: ")
	n, _, _ := strings.Cut(strings.TrimPrefix(p.says("b: "), "b: "), " ")
	lines, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	for range lines - 1 {
		p.line()
	}
	p.signal(syscall.SIGCONT)
	if got, want := p.line(), fmt.Sprintf(`{"n":%d}`, lines+1); got != want {
		t.Errorf("it goes on with %s, want %s", got, want)
	}
	p.signal(syscall.SIGTERM)
	p.wait().want(t, 0)
}

func TestSIGTSTPPausesAndSIGCONTResumes(t *testing.T) {
	dir := t.TempDir()
	p := start(t, dir, "-c", write(t, dir, "copy.yaml", copyLines))
	p.send("one\n")
	p.line()
	p.signal(syscall.SIGTSTP)
	p.says("reading is paused")
	p.send("two\n")
	p.signal(syscall.SIGTTIN)
	p.says("copy: paused, 1 received")
	p.signal(syscall.SIGCONT)
	if got := p.line(); got != "two" {
		t.Errorf("stdout %s", got)
	}
	p.signal(syscall.SIGTERM)
	p.wait().want(t, 0, "copy: 2 received: 2 delivered")
}
