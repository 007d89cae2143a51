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

// memoryRows are compared by memory, at its most or at rest, and by the time to the
// first message. Limits of the design are absolute here.
var memoryRows = []row{
	{
		name: "memory-file", does: "the most anonymous memory for a file of any size: against one of an eighth", metric: peak,
		check: counted, data: events, times: 8,
		contestants: []contestant{
			inFlowd("edit"),
			{name: "an eighth of it", command: "$flowd -c $conf/edit.flowd.yaml", part: 8, limit: true},
			inBenthos("edit"),
		},
		goals: []goal{{atMost: 60}, {than: "an eighth of it", atLeast: 0.8}},
	},
	{
		name: "memory-keys", does: "the most anonymous memory for a million batch keys of one message each", metric: peak,
		check: counted, data: keyed(1_000_000), fixed: 1_000_000,
		contestants: []contestant{inFlowd("keyed")},
		goals:       []goal{{atMost: 150}},
	},
	{
		name: "memory-stalled", does: "anonymous memory behind an output that takes nothing, messages of 64 KiB",
		metric: peak, data: sized(64 << 10), fixed: 4000, run: stalled, needs: procfs,
		contestants: []contestant{inFlowd("stalled"), inBenthos("stalled")},
		goals:       []goal{{atMost: 150}},
	},
	{
		name: "memory-pipelines", does: "anonymous memory of 1,000 idle pipelines in one process", metric: peak, fixed: 1000,
		run: idlePipelines, needs: procfs,
		contestants: []contestant{{name: "flowd", command: "$flowd -c $pipelines"}},
		goals:       []goal{{atMost: 200}},
	},
	{
		name: "memory-idle", does: "anonymous memory at rest", metric: peak, fixed: 1, run: idle, data: events, needs: procfs,
		contestants: starters,
		goals:       []goal{{atMost: 10}},
	},
	{
		name: "start", does: "from the start of the process to the first message on stdout", metric: wall, fixed: 9,
		run: firstMessage, data: events,
		contestants: starters,
		goals:       []goal{{atMost: 20}},
	},
}

var starters = []contestant{
	inFlowd("pipe"), inBenthos("pipe"),
	{name: "jq", command: "$jq -c --unbuffered ."},
}

// procfs says why memory can't be measured while a process runs.
func procfs(*world) error {
	if anonymous("self") == 0 {
		return fmt.Errorf("memory of a running process is read from /proc, which %s does not have", runtime.GOOS)
	}
	return nil
}

// rest waits until a process has used no CPU time for a while.
func (p *process) rest() error {
	last, since := cpuOf(p.pid()), time.Now()
	return p.until(func() bool {
		if now := cpuOf(p.pid()); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	}, "does not come to rest")
}

// stalled is the runner of a row whose contestants write to a pipe that nobody reads, until
// they are idle. Then it is read, and everything must be there.
func stalled(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	p, err := w.piped(c.command, vars)
	if err != nil {
		return s, err
	}
	defer p.kill()
	if err := p.rest(); err != nil {
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

// idlePipelines starts n pipelines in one process and waits until it is at rest.
func idlePipelines(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
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
	if err := p.rest(); err != nil {
		return s, err
	}
	s.Peak = anonymous(p.pid())
	used, err := p.stop()
	s.CPU, s.Messages = used.cpu, n
	if told := len(delivered.FindAllString(used.stderr, -1)); err == nil && told == 0 {
		err = fmt.Errorf("no pipeline reported: %s", used.stderr)
	}
	return s, err
}

// idle starts a contestant, has one message through it, and looks at its memory when it
// is at rest.
func idle(w *world, r *row, c *contestant, _ int, _ bool) (s sample, err error) {
	err = w.first(r, c, func(p *process, _ time.Duration) error {
		err := p.rest()
		s.Peak = anonymous(p.pid())
		return err
	})
	return s, err
}

// firstMessage is the time from start to first message: the median of n starts, since
// one has more to do with the machine than with the program.
func firstMessage(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	var all []time.Duration
	for range n {
		err := w.first(r, c, func(_ *process, took time.Duration) error {
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

// first calls then when the first message has been delivered.
func (w *world) first(r *row, c *contestant, then func(p *process, took time.Duration) error) error {
	p, err := w.piped(c.command, nil)
	if err != nil {
		return err
	}
	defer p.kill()
	took, err := p.first(bufio.NewReader(p.from), r.data, unchanged)
	if err != nil {
		return err
	}
	if err := then(p, took); err != nil {
		return err
	}
	_, err = p.finish()
	return err
}
