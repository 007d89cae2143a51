package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/flowd-io/flowd/internal/testing/brokertest"
	"github.com/flowd-io/flowd/internal/testing/mqtttest"
)

// configs has the pipelines of flowd and the configurations of its peers.
//
//go:embed configs
var configs embed.FS

// world has the state that all rows share.
type world struct {
	ctx      context.Context // of the whole run: cancelling it kills all processes
	dir      string          // for files, on tmpfs if available
	vars     map[string]string
	rounds   int
	messages int           // upper limit for one run of a contestant
	turn     time.Duration // how long one run of a contestant should take
	budget   time.Duration // for all rows
	due      time.Time     // when the current row has used up its share of the budget
	checked  int           // runs with at most so many messages are checked completely
	log      io.Writer     // progress
	cold     bool          // drop the page cache between the warm-up and the measurement of an HTTP row

	// Servers are started by the first row that needs them.
	broker     *brokertest.Broker
	cluster    *cluster
	redis      string // URL
	serial     int    // makes names of Redis streams unique
	postgres   string // URL
	clickhouse string // URL
	mqtt       *mqtttest.Server
	nats       *jetStreams

	failures []string // wrong answers, and failures of contestants
}

// peers are looked up on PATH.
var peers = []string{"benthos", "jq", "python3", "node"}

// newWorld creates the working directory and finds all programs. It builds flowd unless a
// path is given.
func newWorld(ctx context.Context, flowd, before string) (w *world, err error) {
	root := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		root = "/dev/shm" // so that no disk is measured
	}
	w = &world{ctx: ctx, log: io.Discard, vars: map[string]string{}, rounds: 5, messages: 1_000_000, turn: turn,
		budget: budget, checked: 2000}
	if w.dir, err = os.MkdirTemp(root, "flowd-bench"); err != nil {
		return nil, err
	}
	made := w // a return of an error sets w to nil
	defer func() {
		if err != nil {
			made.close()
		}
	}()
	w.vars["conf"] = filepath.Join(w.dir, "configs")
	if err := os.CopyFS(w.dir, configs); err != nil {
		return nil, err
	}
	if w.vars["self"], err = os.Executable(); err != nil {
		return nil, err
	}
	if flowd == "" {
		flowd = filepath.Join(w.dir, "flowd")
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", flowd,
			"github.com/flowd-io/flowd/cmd/flowd").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build flowd: %w\n%s", err, out)
		}
	}
	if w.vars["flowd"], err = filepath.Abs(flowd); err != nil {
		return nil, err
	}
	if before != "" {
		if w.vars["before"], err = filepath.Abs(before); err != nil {
			return nil, err
		}
	}
	for _, name := range peers {
		w.vars[name], _ = exec.LookPath(name) // "" if it is missing
	}
	return w, nil
}

func (w *world) close() error {
	var ended error
	if w.cluster != nil {
		ended = w.cluster.close()
	}
	if w.nats != nil {
		ended = errors.Join(ended, w.nats.close())
	}
	return errors.Join(ended, os.RemoveAll(w.dir))
}

// prepare writes the input file of a run. It returns variables for the command: $in there
// is IN in the environment, where configurations read it.
func (w *world) prepare(r *row, c *contestant, n int) (map[string]string, error) {
	vars := map[string]string{"n": strconv.Itoa(n), "count": strconv.Itoa(n), "out": filepath.Join(w.dir, "out"), "conf": w.vars["conf"],
		"sdk": w.vars["sdk"]}
	maps.Copy(vars, c.vars)
	if r.data.line != nil {
		path, size, err := w.file(r.data, n)
		if err != nil {
			return nil, err
		}
		vars["in"], vars["size"] = path, strconv.FormatInt(size, 10)
	}
	return vars, nil
}

// pipelines creates a directory with n pipeline files of the same text.
func (w *world) pipelines(n int, text string) (dir string, err error) {
	dir, err = os.MkdirTemp(w.dir, "pipelines")
	if err != nil {
		return "", err
	}
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%d.yaml", i)), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// runToEnd runs a contestant and waits until it exits.
func (w *world) runToEnd(r *row, c *contestant, n int) (usage, error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return usage{}, err
	}
	return w.runCommand(c.command, vars)
}

// runFiles is the runner of rows whose contestants read a file and exit at its end.
func runFiles(w *world, r *row, c *contestant, n int, all bool) (sample, error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return sample{}, err
	}
	if err := os.RemoveAll(vars["out"]); err != nil {
		return sample{}, err
	}
	used, err := w.runCommand(c.command, vars)
	if err != nil {
		return sample{}, err
	}
	s := used.sample(data{}, n, used.wall)
	s.Bytes, _ = strconv.ParseInt(vars["size"], 10, 64) // 0 if the row has no input file
	right := r.check
	if c.check != nil {
		right = c.check
	}
	return s, right(output{
		data: r.data, n: n, in: vars["in"], out: vars["out"], stderr: used.stderr, all: all,
		flowd: c.isFlowd(),
	})
}
