package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"
)

var poisonRows = []row{
	{
		name: "poison", does: "file → stdout, while one message in 20,000 fails at every attempt",
		data: events, run: runPoison,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/poison.flowd.yaml", vars: map[string]string{"bad": "777"}},
			{name: "no failures", command: "$flowd -c $conf/poison.flowd.yaml", vars: map[string]string{"bad": "-1"},
				limit: true},
		},
		goals: []goal{{than: "no failures", atLeast: 0.95}},
	},
}

// runPoison measures the time until all messages but the failing ones have been delivered.
// If all is set, it also waits for the exit code, which reports failures.
func runPoison(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	p, err := w.startPiped(c.command, vars)
	if err != nil {
		return s, err
	}
	defer p.kill()
	want, seen := n, make(ids, n)
	for i := range n {
		if vars["bad"] == "777" && i%20_000 == 777 {
			seen[i] = true // must not arrive
			want--
		}
	}
	lines := bufio.NewReaderSize(p.from, 1<<18)
	for range want {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return s, fmt.Errorf("messages are missing: %w: %s", err, p.stderr.String())
		}
		if _, err := seen.mark(line); err != nil {
			return s, err
		}
	}
	s = sample{Messages: n, Wall: time.Since(p.began), Peak: anonymous(p.pid())}
	if !all {
		s.CPU = p.kill().cpu
		return s, nil
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		return s, errors.Join(err, fmt.Errorf("unexpected output: %.200s", rest))
	}
	<-p.ended
	code := 0
	if want < n {
		code = 1
	}
	if p.used.code != code {
		return s, fmt.Errorf("exit code %d, want %d: %s", p.used.code, code, p.used.stderr)
	}
	return s, nil
}
