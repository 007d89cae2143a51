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
		run: pipes(unchanged), open: true,
		contestants: []contestant{
			inFlowd("pipe"), theLimit("line copy", "copy"),
			{name: "flowd, 20 % of its own", command: "$flowd -c $conf/pipe.flowd.yaml", own: true},
			inBenthos("pipe"),
			{name: "jq", command: "$jq -c --unbuffered ."},
		},
		goals: []goal{{atMost: 5}},
	},
}

// pipes is the runner of rows whose contestants read a pipe and write another, each message
// as soon as it can be; want is what becomes of one. They may have workers in other
// processes: as many as the variable workers says, with this many slots.
func pipes(want func(document) document) runner {
	return func(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
		address, err := freeAddress()
		if err != nil {
			return s, err
		}
		vars := map[string]string{"listen": address, "slots": "1"}
		maps.Copy(vars, c.vars)
		p, err := w.piped(c.command, vars)
		if err != nil {
			return s, err
		}
		defer p.kill()
		workers, err := w.join(p, vars)
		for _, worker := range workers {
			defer worker.kill() // where it has not ended before
		}
		if err != nil {
			return s, err
		}
		lines := bufio.NewReaderSize(p.from, 1<<18)
		// What starts late is not late with every message.
		if _, err := p.first(lines, r.data, want); err != nil {
			return s, err
		}
		began := time.Now()
		sent := make(chan error, 1)
		go func() { sent <- c.send(p.to, r.data, n, began) }()
		wave, _ := strconv.Atoi(vars["wave"]) // messages whose end starts the clock; else it starts with the first
		latencies, seen := make([]time.Duration, 0, n), make(ids, n)
		now, waved := time.Now(), began
		for len(latencies) < n {
			read := lines.Buffered() == 0
			line, err := lines.ReadSlice('\n')
			if err != nil {
				return s, fmt.Errorf("%d of %d messages came out: %w: %s", len(latencies), n, err, p.stderr.String())
			}
			if read { // what arrived at once arrived at the same time
				now = time.Now()
			}
			id, err := seen.add(line)
			if err != nil {
				return s, err
			}
			if all {
				if err := same(line, r.data.line(nil, id), want); err != nil {
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
		var theirs time.Duration // CPU time of workers
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

// first sends message 0 through a process, and says how long after its start it was out.
func (p *process) first(lines *bufio.Reader, d data, want func(document) document) (time.Duration, error) {
	if _, err := p.to.Write(append(d.line(nil, 0), '\n')); err != nil {
		return 0, err
	}
	line, err := lines.ReadSlice('\n')
	took := time.Since(p.began)
	if err != nil {
		return 0, fmt.Errorf("nothing comes out: %w: %s", err, p.stderr.String())
	}
	return took, same(line, d.line(nil, 0), want)
}

func unchanged(d document) document { return d }

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
