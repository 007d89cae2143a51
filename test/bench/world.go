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

// configs are the pipelines and programs of flowd and its peers, side by side.
//
//go:embed configs
var configs embed.FS

// world is what all rows of a run share.
type world struct {
	ctx      context.Context // of the whole run: ends what it has started
	dir      string          // for files, on tmpfs where there is one
	vars     map[string]string
	rounds   int
	messages int           // at most, in one run of one contestant
	turn     time.Duration // that a run should take
	budget   time.Duration // for all rows
	due      time.Time     // when the row that is measured has had its time
	checked  int           // messages that are all checked
	log      io.Writer     // what is being done

	broker   *brokertest.Broker // started by the first row that needs it
	cluster  *cluster           // the same
	redis    string             // its URL; the same
	serial   int                // of its streams
	postgres string             // its URL; the same
	house    string             // the URL of a ClickHouse; the same
	mqtt     *mqtttest.Server   // the same
	nats     *jetStreams        // the same
	wrong    []string           // answers that were wrong, and programs that failed
}

// peers are searched on PATH.
var peers = []string{"benthos", "jq"}

// newWorld makes the folder and looks for all programs. flowd is built, unless the path
// of one is given.
func newWorld(ctx context.Context, flowd, before string) (w *world, err error) {
	root := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		root = "/dev/shm" // else disks would be measured
	}
	w = &world{ctx: ctx, log: io.Discard, vars: map[string]string{}, rounds: 5, messages: 1_000_000, turn: turn,
		budget: budget, checked: 2000}
	if w.dir, err = os.MkdirTemp(root, "flowd-bench"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
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
		w.vars[name], _ = exec.LookPath(name) // "" where it is missing
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

// prepare makes the input of a run; what is returned is $in in commands, and IN in the
// environment, where configurations find it.
func (w *world) prepare(r *row, c *contestant, n int) (map[string]string, error) {
	vars := map[string]string{"n": strconv.Itoa(n), "count": strconv.Itoa(n), "out": filepath.Join(w.dir, "out")}
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

// pipelines makes a folder of n pipeline files with the same text.
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

// once runs a contestant to its end.
func (w *world) once(r *row, c *contestant, n int) (usage, error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return usage{}, err
	}
	return w.do(c.command, vars)
}

// files is the runner of rows whose contestants read a file, and end with it.
func files(w *world, r *row, c *contestant, n int, all bool) (sample, error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return sample{}, err
	}
	if err := os.RemoveAll(vars["out"]); err != nil {
		return sample{}, err
	}
	used, err := w.do(c.command, vars)
	if err != nil {
		return sample{}, err
	}
	s := used.sample(data{}, n, used.wall)
	s.Bytes, _ = strconv.ParseInt(vars["size"], 10, 64) // none where nothing is read
	right := r.check
	if c.check != nil {
		right = c.check
	}
	return s, right(output{
		data: r.data, n: n, in: vars["in"], out: vars["out"], stderr: used.stderr, all: all,
		flowd: c.isFlowd(),
	})
}
