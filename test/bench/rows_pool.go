package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// poolRows measure steps on workers. The clock starts after a first wave of messages, when
// all workers have joined.
var poolRows = []row{
	scale("pool-slots", "slots in this process", "$flowd -c $conf/pool-slots.flowd.yaml", "slots"),
	scale("pool-workers", "workers with one slot each, as processes on loopback", "$flowd -c $conf/pool-workers.flowd.yaml",
		"workers"),
	{
		name: "pool-hop", does: "stdin → a set on a worker with 32 slots → stdout, at full speed", data: events,
		run:         runPipes(critical),
		contestants: hops,
		goals:       []goal{{atLeast: 4}},
	},
	{
		name: "latency-pool", does: "stdin → a set on a worker with 32 slots → stdout, open loop at 20 % load", data: events, metric: p99,
		run: runPipes(critical), open: true,
		contestants: hops,
		goals:       []goal{{atMost: 20}},
	},
}

var hops = []contestant{
	{name: "flowd", command: "$flowd -c $conf/hop.flowd.yaml", vars: map[string]string{"workers": "1", "slots": "32"}},
	{name: "in a lane", command: "$flowd -c $conf/hop-lane.flowd.yaml", limit: true},
	{name: "local slots", command: "$flowd -c $conf/hop-slots.flowd.yaml"},
}

// scale is a row that compares 8 slots with fewer. Every contestant gets the same number of
// messages per slot.
func scale(name, of, command, each string) row {
	r := row{
		name: name, does: "a step of 20 ms on 8 " + of + ", compared with fewer", data: events, run: runPipes(critical), cap: 160,
		contestants: []contestant{
			{name: "flowd", command: command, vars: map[string]string{each: "8", "wave": "8"}},
			{name: "8 sleepers", command: "$self baseline sleepers 8", vars: map[string]string{"wave": "8"},
				limit: true},
		},
		goals: []goal{{than: "8 sleepers", atLeast: 0.9}},
	}
	for _, n := range []int{1, 2, 4} {
		name := fmt.Sprintf("flowd, %d %s", n, each)
		if n == 1 {
			name = strings.TrimSuffix(name, "s")
		}
		fewer := contestant{name: name, command: command, divisor: 8 / n,
			vars: map[string]string{each: strconv.Itoa(n), "wave": strconv.Itoa(n)}}
		r.contestants = append(r.contestants, fewer)
		r.goals = append(r.goals, goal{than: fewer.name, atLeast: 0.9 * float64(8/n)})
	}
	return r
}

// join starts the workers of a hub and waits until they have joined.
func (w *world) join(hub *process, vars map[string]string) (workers []*process, err error) {
	n, _ := strconv.Atoi(vars["workers"]) // 0 if it is not set
	if n == 0 {
		return nil, nil
	}
	if err := hub.waitUntilListening(vars["listen"]); err != nil {
		return nil, err
	}
	for range n {
		p, err := w.start("$flowd worker --join $listen --pool bench --slots $slots", vars, nil, nil)
		if err != nil {
			return workers, err
		}
		workers = append(workers, p)
	}
	const joined = "a worker has joined the pool"
	return workers, hub.waitUntil(func() bool { return strings.Count(hub.stderr.String(), joined) >= n },
		fmt.Sprintf("did not log %q %d times", joined, n))
}

// sleepers runs args[0] goroutines that read lines from stdin and sleep 20 ms for each.
func sleepers(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	lines := make(chan []byte)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for line := range lines {
				time.Sleep(20 * time.Millisecond)
				line = append(bytes.TrimSuffix(line, []byte("}\n")), `,"severity":"critical"}`+"\n"...)
				os.Stdout.Write(line) // the reader detects missing lines
			}
		})
	}
	err = processLines(bufio.NewReaderSize(os.Stdin, block), bufio.NewWriter(os.Stdout), func(line []byte) error {
		lines <- bytes.Clone(line)
		return nil
	})
	close(lines)
	all.Wait()
	return err
}
