package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"time"
)

var stdinRows = []row{
	{
		name: "latency-stdin", does: "stdin → stdout, open loop at 20 % load", data: events, metric: p99, run: pipes,
		open: true,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/pipe.flowd.yaml"},
			{name: "line copy", command: "$self baseline copy", limit: true},
			{name: "flowd, 20 % of its own", command: "$flowd -c $conf/pipe.flowd.yaml", own: true},
			{name: "benthos", command: "$benthos -c $conf/pipe.benthos.yaml"},
			{name: "jq", command: "$jq -c --unbuffered ."},
		},
		goals: []goal{{atMost: 5}},
	},
}

// pipes is the runner of rows whose contestants read a pipe and write another, each
// message as soon as it can be.
func pipes(w *world, r *row, c *contestant, n int, _ bool) (s sample, err error) {
	return w.flow(r, c, n, stream{})
}

// stream is what messages pass from one pipe to another.
type stream struct {
	vars  map[string]string
	ready func(p *process) error  // waits for what the process needs before there is a message
	done  func() error            // ends that when the last message has arrived
	wave  int                     // messages whose end starts the clock; else it starts with the first
	want  func(document) document // what becomes of a message that is checked
	all   bool                    // are looked at
}

// flow has n messages pass through a contestant.
func (w *world) flow(r *row, c *contestant, n int, through stream) (s sample, err error) {
	p, to, from, err := w.piped(c.command, through.vars)
	if err != nil {
		return s, err
	}
	defer p.kill()
	defer to.Close()
	defer from.Close()
	if through.ready != nil {
		if err := through.ready(p); err != nil {
			return s, err
		}
	}
	lines := bufio.NewReaderSize(from, 1<<18)
	// What starts late is not late with every message.
	if _, err := to.Write(append(r.data.line(nil, 0), '\n')); err != nil {
		return s, err
	}
	if _, err := lines.ReadSlice('\n'); err != nil {
		return s, fmt.Errorf("nothing comes out: %w: %s", err, p.stderr.String())
	}
	began := time.Now()
	sent := make(chan error, 1)
	go func() { sent <- c.send(to, r.data, n, began) }()
	all, seen := make([]time.Duration, 0, n), make([]bool, n)
	now, waved := time.Now(), began
	for len(all) < n {
		read := lines.Buffered() == 0
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return s, fmt.Errorf("%d of %d messages came out: %w: %s", len(all), n, err, p.stderr.String())
		}
		if read { // what arrived at once arrived at the same time
			now = time.Now()
		}
		id, err := idOf(line)
		if err != nil {
			return s, err
		}
		if id >= n || seen[id] {
			return s, fmt.Errorf("message %d came out twice", id)
		}
		seen[id] = true
		if through.want != nil && (through.all || len(all) == 0) {
			if err := same(line, r.data.line(nil, id), through.want); err != nil {
				return s, err
			}
		}
		all = append(all, now.Sub(c.due(began, id)))
		if len(all) == through.wave {
			waved = now
		}
	}
	took, counted := time.Since(began), n
	if through.wave > 0 {
		took, counted = max(now.Sub(waved), time.Millisecond), max(n-through.wave, 1)
	}
	if err := <-sent; err != nil {
		return s, err
	}
	if through.done != nil {
		if err := through.done(); err != nil {
			return s, err
		}
	}
	used, err := finish(p, to, from)
	if err != nil {
		return s, err
	}
	s = sample{Messages: counted, Bytes: int64(counted * len(r.data.line(nil, 0))), Wall: took, CPU: used.cpu,
		Peak: used.peak, Load: c.load}
	if c.load > 0 {
		s.quantiles(all)
	}
	return s, nil
}

// piped starts a command with a pipe to it and one from it.
func (w *world) piped(text string, vars map[string]string) (p *process, to, from *os.File, err error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, err
	}
	defer inR.Close() // the process has its own
	outR, outW, err := os.Pipe()
	if err != nil {
		inW.Close()
		return nil, nil, nil, err
	}
	defer outW.Close()
	if p, err = w.start(text, vars, inR, outW); err != nil {
		inW.Close()
		outR.Close()
		return nil, nil, nil, err
	}
	return p, inW, outR, nil
}

// finish ends a process by the end of its input. It must not write anything more.
func finish(p *process, to, from *os.File) (usage, error) {
	if err := to.Close(); err != nil {
		return usage{}, err
	}
	rest, err := io.ReadAll(from)
	if err != nil {
		return usage{}, err
	}
	if len(rest) > 0 {
		return usage{}, fmt.Errorf("more came out than went in: %.200s", rest)
	}
	return p.wait()
}

// due is when message i is to be sent.
func (c *contestant) due(began time.Time, i int) time.Time {
	if c.load == 0 {
		return began
	}
	return began.Add(time.Duration(float64(i) / c.load * 1e9))
}

// send writes messages when they are due, those that are due at the same time at once.
func (c *contestant) send(to io.Writer, d data, n int, began time.Time) error {
	const most = 1 << 16 // bytes at once
	var buf []byte
	for i := 0; i < n; {
		time.Sleep(time.Until(c.due(began, i)))
		now := time.Now()
		for buf = buf[:0]; i < n && len(buf) < most && !c.due(began, i).After(now); i++ {
			buf = append(d.line(buf, i), '\n')
		}
		if _, err := to.Write(buf); err != nil {
			return err
		}
	}
	return nil
}
