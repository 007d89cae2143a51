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
	vars, p, from, err := w.intoPipe(r, c, n)
	if err != nil {
		return s, err
	}
	defer from.Close()
	defer p.kill()
	bad := func(id int) bool { return vars["bad"] == "777" && id%20_000 == 777 }
	want := 0
	for i := range n {
		if !bad(i) {
			want++
		}
	}
	lines, seen := bufio.NewReaderSize(from, 1<<18), make([]bool, n)
	for range want {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return s, fmt.Errorf("not all came out: %w: %s", err, p.stderr.String())
		}
		id, err := idOf(line)
		if err != nil {
			return s, err
		}
		if id >= n || bad(id) || seen[id] {
			return s, fmt.Errorf("message %d came out", id)
		}
		seen[id] = true
	}
	s = sample{Messages: n, Wall: time.Since(p.began), Peak: highWater(fmt.Sprint(p.cmd.Process.Pid))}
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
