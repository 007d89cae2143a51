package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"strconv"
	"time"
)

var stdinRows = []row{
	{
		name: "latency-stdin", does: "stdin → stdout, open loop at 20 % load", data: events, metric: p99,
		run: runPipes(unchanged), open: true,
		contestants: []contestant{
			inFlowd("pipe"), theLimit("line copy", "copy"),
			{name: "flowd at its own 20 %", command: "$flowd -c $conf/pipe.flowd.yaml", ownLoad: true},
			inBenthos("pipe"),
			{name: "jq", command: "$jq -c --unbuffered ."},
		},
		goals: []goal{{atMost: 5}},
	},
}

// runPipes is the runner of rows whose contestants read stdin and write each message to stdout
// as soon as possible. want makes the expected output of an input. The variables workers and
// slots say how many workers join the contestant, and how many slots each has.
func runPipes(want func(document) document) runner {
	return func(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
		address, err := freeAddress()
		if err != nil {
			return s, err
		}
		vars := map[string]string{"listen": address, "slots": "1"}
		maps.Copy(vars, c.vars)
		p, err := w.startPiped(c.command, vars)
		if err != nil {
			return s, err
		}
		defer p.kill()
		workers, err := w.join(p, vars)
		for _, worker := range workers {
			defer worker.kill() // after an error
		}
		if err != nil {
			return s, err
		}
		lines := bufio.NewReaderSize(p.from, 1<<18)
		// The time to start must not count as latency.
		if _, err := p.sendFirst(lines, r.data, want); err != nil {
			return s, err
		}
		began := time.Now()
		sent := make(chan error, 1)
		go func() { sent <- c.send(p.to, r.data, n, began) }()
		wave, _ := strconv.Atoi(vars["wave"]) // messages before the clock starts
		latencies, seen := make([]time.Duration, 0, n), make(ids, n)
		now, waved := time.Now(), began
		for len(latencies) < n {
			read := lines.Buffered() == 0
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return s, fmt.Errorf("%d of %d messages arrived: %w: %s", len(latencies), n, err, p.stderr.String())
			}
			if read { // all messages of one read arrive at the same time
				now = time.Now()
			}
			id, err := seen.mark(line)
			if err != nil {
				return s, err
			}
			if all {
				if err := compareDocuments(line, r.data.line(nil, id), want); err != nil {
					return s, err
				}
			}
			latencies = append(latencies, now.Sub(c.due(began, id)))
			if len(latencies) == wave {
				waved = now
			}
		}
		took, counted := time.Since(began), n
		if wave > 0 {
			took, counted = max(now.Sub(waved), time.Millisecond), max(n-wave, 1)
		}
		if err := <-sent; err != nil {
			return s, err
		}
		var theirs time.Duration // CPU time of the workers
		for _, worker := range workers {
			used, err := worker.stop()
			if err != nil {
				return s, err
			}
			theirs += used.cpu
		}
		used, err := p.finish()
		if err != nil {
			return s, err
		}
		s = used.sample(r.data, counted, took)
		s.CPU += theirs
		if s.Load = c.load; c.load > 0 {
			s.quantiles(latencies)
		}
		return s, nil
	}
}

// sendFirst sends message 0 through a process, and returns the time from the start of the process to its output.
func (p *process) sendFirst(lines *bufio.Reader, d data, want func(document) document) (time.Duration, error) {
	if _, err := p.to.Write(append(d.line(nil, 0), '\n')); err != nil {
		return 0, err
	}
	line, err := lines.ReadSlice('\n')
	took := time.Since(p.began)
	if err != nil {
		return 0, fmt.Errorf("no output: %w: %s", err, p.stderr.String())
	}
	return took, compareDocuments(line, d.line(nil, 0), want)
}

func unchanged(d document) document { return d }

// due returns when message i should be sent.
func (c *contestant) due(began time.Time, i int) time.Time {
	if c.load == 0 {
		return began
	}
	return began.Add(time.Duration(float64(i) / c.load * 1e9))
}

// send writes n messages when they are due. It writes messages that are due together at once.
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
