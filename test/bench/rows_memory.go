package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"
)

// memoryRows are compared by peak memory, by memory at rest, and by the time to the first
// message. Their goals are absolute.
var memoryRows = []row{
	{
		name: "memory-file", does: "file → set → drop: peak memory, compared with an eighth of the file", metric: peak,
		check: counted, data: events, times: 8,
		contestants: []contestant{
			inFlowd("edit"),
			{name: "an eighth of the file", command: "$flowd -c $conf/edit.flowd.yaml", divisor: 8, limit: true},
			inBenthos("edit"),
		},
		goals: []goal{{atMost: 60}, {than: "an eighth of the file", atLeast: 0.8}},
	},
	{
		name: "memory-keys", does: "file → a million open batches of one message each → drop: peak memory", metric: peak,
		check: counted, data: keyed(1_000_000), fixed: 1_000_000,
		contestants: []contestant{inFlowd("keyed")},
		goals:       []goal{{atMost: 150}},
	},
	{
		name: "memory-stalled", does: "memory while the output is blocked, with messages of 64 KiB",
		metric: peak, data: sized(64 << 10), fixed: 4000, run: runStalled, needs: procfs,
		contestants: []contestant{inFlowd("stalled"), inBenthos("stalled")},
		goals:       []goal{{atMost: 150}},
	},
	{
		name: "memory-pipelines", does: "memory of a process with 1,000 idle pipelines", metric: peak, fixed: 1000,
		run: runIdlePipelines, needs: procfs,
		contestants: []contestant{{name: "flowd", command: "$flowd -c $pipelines"}},
		goals:       []goal{{atMost: 200}},
	},
	{
		name: "memory-idle", does: "memory at rest, after one message", metric: peak, fixed: 1, run: runIdle, data: events, needs: procfs,
		contestants: starters,
		goals:       []goal{{atMost: 10}},
	},
	{
		name: "start", does: "time from the start of the process to the first message on stdout", metric: wall, fixed: 9,
		run: runFirstMessage, data: events,
		contestants: starters,
		goals:       []goal{{atMost: 20}},
	},
}

var starters = []contestant{
	inFlowd("pipe"), inBenthos("pipe"),
	{name: "jq", command: "$jq -c --unbuffered ."},
}

// procfs returns an error if the memory of a running process can't be read.
func procfs(*world) error {
	if anonymous("self") == 0 {
		return fmt.Errorf("the memory of a running process is read from /proc, which %s does not have", runtime.GOOS)
	}
	return nil
}

// waitUntilIdle waits until a process has used no CPU time for 300 ms.
func (p *process) waitUntilIdle() error {
	last, since := cpuOf(p.pid()), time.Now()
	return p.waitUntil(func() bool {
		if now := cpuOf(p.pid()); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	}, "does not become idle")
}

// runStalled is the runner of a row whose contestants write to a pipe that is not read. It
// measures their memory once they are idle. Then it reads the pipe and checks all messages.
func runStalled(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	p, err := w.startPiped(c.command, vars)
	if err != nil {
		return s, err
	}
	defer p.kill()
	if err := p.waitUntilIdle(); err != nil {
		return s, err
	}
	s.Peak = anonymous(p.pid())
	out, err := os.Create(vars["out"])
	if err != nil {
		return s, err
	}
	_, err = io.Copy(out, p.from)
	if err := errors.Join(err, out.Close()); err != nil {
		return s, err
	}
	used, err := p.wait()
	if err != nil {
		return s, err
	}
	s.Messages, s.CPU = n, used.cpu
	return s, copied(output{n: n, in: vars["in"], out: vars["out"], all: all})
}

// runIdlePipelines starts n pipelines in one process and measures its memory once it is idle.
func runIdlePipelines(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	dir, err := w.pipelines(n, "inputs: {in: {generate: {interval: 1h, body: '{}'}}}\n"+drops)
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	p, err := w.start(c.command, map[string]string{"pipelines": dir}, nil, nil)
	if err != nil {
		return s, err
	}
	defer p.kill()
	if err := p.waitUntilIdle(); err != nil {
		return s, err
	}
	s.Peak = anonymous(p.pid())
	used, err := p.stop()
	s.CPU, s.Messages = used.cpu, n
	if told := len(delivered.FindAllString(used.stderr, -1)); err == nil && told == 0 {
		err = fmt.Errorf("no pipeline reported its end: %s", used.stderr)
	}
	return s, err
}

// runIdle sends one message through a contestant and measures its memory once it is idle.
func runIdle(w *world, r *row, c *contestant, _ int, _ bool) (s sample, err error) {
	err = w.withFirstMessage(r, c, func(p *process, _ time.Duration) error {
		err := p.waitUntilIdle()
		s.Peak = anonymous(p.pid())
		return err
	})
	return s, err
}

// runFirstMessage measures the time from start to the first message. It takes the median of
// n starts, since a single one varies with the machine.
func runFirstMessage(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	var all []time.Duration
	for range n {
		err := w.withFirstMessage(r, c, func(_ *process, took time.Duration) error {
			all = append(all, took)
			return nil
		})
		if err != nil {
			return s, err
		}
	}
	slices.Sort(all)
	s.Wall = all[len(all)/2]
	return s, nil
}

// withFirstMessage starts a contestant and calls then once the first message has been delivered.
func (w *world) withFirstMessage(r *row, c *contestant, then func(p *process, took time.Duration) error) error {
	p, err := w.startPiped(c.command, nil)
	if err != nil {
		return err
	}
	defer p.kill()
	took, err := p.sendFirst(bufio.NewReader(p.from), r.data, unchanged)
	if err != nil {
		return err
	}
	if err := then(p, took); err != nil {
		return err
	}
	_, err = p.finish()
	return err
}
