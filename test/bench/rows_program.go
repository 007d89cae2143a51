package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// programRows compare steps in other languages with a loop in the same language that only reads and writes lines.
var programRows = []row{
	{
		name: "program-python", does: "file → batches of 256 through a step in Python that does nothing → file", data: events, check: copied,
		fixed: 500_000, needs: interpreter("python3"),
		contestants: []contestant{
			inFlowd("program-python"), {name: "lines in Python", command: "$python3 $conf/lines.py < $in > $out", limit: true},
			{name: "one by one", command: "$flowd -c $conf/program-python-each.flowd.yaml"},
			{name: "exec, stream", command: "$flowd -c $conf/exec-python.flowd.yaml"},
		},
		goals: []goal{{atLeast: 100}, {than: "exec, stream", atLeast: 5}, {than: "lines in Python", atLeast: 0.5}},
	},
	{
		name: "program-node", does: "file → batches of 256 through a step in Node.js that does nothing → file", data: events, check: copied,
		fixed: 500_000, needs: interpreter("node"),
		contestants: []contestant{
			inFlowd("program-node"), {name: "lines in Node.js", command: "$node $conf/lines.mjs < $in > $out", limit: true},
		},
		goals: []goal{{atLeast: 100}, {than: "lines in Node.js", atLeast: 0.5}},
	},
}

// interpreter returns a check that an interpreter is on PATH. It makes the modules of folder sdk known to configurations.
func interpreter(name string) func(w *world) error {
	return func(w *world) error {
		if w.vars[name] == "" {
			return fmt.Errorf("%s is not on PATH", name)
		}
		root, err := exec.CommandContext(w.ctx, "go", "list", "-m", "-f", "{{.Dir}}").Output()
		if err != nil {
			return errors.New("the folder sdk is not found (run it in the repository)")
		}
		w.vars["sdk"] = filepath.Join(strings.TrimSpace(string(root)), "sdk")
		return nil
	}
}
