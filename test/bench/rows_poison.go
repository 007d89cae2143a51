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
		name: "poison", does: "one message in 20,000 fails whenever it is tried: until all others are out",
		data: events, run: others,
		contestants: []contestant{
			{name: "flowd", command: "$flowd -c $conf/poison.flowd.yaml", vars: map[string]string{"bad": "777"}},
			{name: "clean", command: "$flowd -c $conf/poison.flowd.yaml", vars: map[string]string{"bad": "-1"},
				limit: true},
		},
		goals: []goal{{than: "clean", atLeast: 0.95}},
	},
}

// others measures how long it takes until all messages are out but those that fail.
// When every message is looked at, the end of the process is, too: it reports failures.
func others(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
	vars, err := w.prepare(r, c, n)
	if err != nil {
		return s, err
	}
	p, err := w.piped(c.command, vars)
	if err != nil {
		return s, err
	}
	defer p.kill()
	want, seen := n, make(ids, n)
	for i := range n {
		if vars["bad"] == "777" && i%20_000 == 777 {
			seen[i] = true // once would be too often
			want--
		}
	}
	lines := bufio.NewReaderSize(p.from, 1<<18)
	for range want {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return s, fmt.Errorf("not all came out: %w: %s", err, p.stderr.String())
		}
		if _, err := seen.add(line); err != nil {
			return s, err
		}
	}
	s = sample{Messages: n, Wall: time.Since(p.began), Peak: anonymous(p.pid())}
	if !all {
		s.CPU = p.kill().cpu
		return s, nil
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		return s, errors.Join(err, fmt.Errorf("more came out: %.200s", rest))
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
