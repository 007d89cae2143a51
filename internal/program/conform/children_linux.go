package conform

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// launchers start the program as their child, which has to have the pipes.
var launchers = []string{"sh", "bash", "dash", "zsh", "env", "make", "npm", "npx", "pnpm", "yarn", "uv", "poetry", "bundle", "sudo",
	"docker"}

// playChildren looks for child processes that have inherited the pipes.
func playChildren(c *check) error {
	p, err := c.process()
	if err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	pipes := pipesOf(pid, 3, 4)
	if len(pipes) == 0 {
		return skipped("its open files can't be read")
	}
	all := descendants(pid)
	if len(all) == 0 {
		return skipped("it has none")
	}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if slices.Contains(launchers, strings.TrimSpace(string(name))) {
		return skipped("%s starts the program", strings.TrimSpace(string(name)))
	}
	for _, child := range all {
		for _, pipe := range pipesOf(child) {
			if slices.Contains(pipes, pipe) {
				text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
				return wrong(ruleExec, "its child process %d (%.80s) has inherited a pipe", child,
					strings.TrimSpace(strings.ReplaceAll(string(text), "\x00", " ")))
			}
		}
	}
	return nil
}

// pipesOf returns the pipes that a process has open as one of these descriptors, or as any.
func pipesOf(pid int, descriptors ...int) (all []string) {
	paths, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range paths {
		n, _ := strconv.Atoi(filepath.Base(path))
		to, err := os.Readlink(path)
		if err == nil && strings.HasPrefix(to, "pipe:") && (len(descriptors) == 0 || slices.Contains(descriptors, n)) {
			all = append(all, to)
		}
	}
	return all
}

// descendants returns the children of a process, and theirs.
func descendants(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range lists {
		text, _ := os.ReadFile(path) // fails if the thread has ended
		for child := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				all = append(append(all, n), descendants(n)...)
			}
		}
	}
	return all
}
