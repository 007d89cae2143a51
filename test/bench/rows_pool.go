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

// poolRows are about steps on workers. What they cost is measured from the first wave of
// messages on, when all workers are there.
var poolRows = []row{
	scale("pool-slots", "slots in this process", "$flowd -c $conf/pool-slots.flowd.yaml", "slots"),
	scale("pool-workers", "workers of one slot, processes on loopback", "$flowd -c $conf/pool-workers.flowd.yaml",
		"workers"),
	{
		name: "pool-hop", does: "stdin → one set on a worker with 32 slots → stdout, as fast as it goes", data: events,
		run:         pipes(critical),
		contestants: hops,
		goals:       []goal{{atLeast: 4}},
	},
	{
		name: "latency-pool", does: "the same, open loop at 20 % load", data: events, metric: p99,
		run: pipes(critical), open: true,
		contestants: hops,
		goals:       []goal{{atMost: 20}},
	},
}

var hops = []contestant{
	{name: "flowd", command: "$flowd -c $conf/hop.flowd.yaml", vars: map[string]string{"workers": "1", "slots": "32"}},
	{name: "in a lane", command: "$flowd -c $conf/hop-lane.flowd.yaml", limit: true},
	{name: "slots here", command: "$flowd -c $conf/hop-slots.flowd.yaml"},
}

// scale is a row that has 8 slots, against fewer. Each has as many messages for a slot.
func scale(name, of, command, each string) row {
	r := row{
		name: name, does: "a step of 20 ms on 8 " + of + ", against fewer", data: events, run: pipes(critical), cap: 160,
		contestants: []contestant{
			{name: "flowd", command: command, vars: map[string]string{each: "8", "wave": "8"}},
			{name: "8 sleepers", command: "$self baseline sleepers 8", vars: map[string]string{"wave": "8"},
				limit: true},
		},
		goals: []goal{{than: "8 sleepers", atLeast: 0.9}},
	}
	for _, n := range []int{1, 2, 4} {
		fewer := contestant{name: fmt.Sprintf("flowd, %d of them", n), command: command, part: 8 / n,
			vars: map[string]string{each: strconv.Itoa(n), "wave": strconv.Itoa(n)}}
		r.contestants = append(r.contestants, fewer)
		r.goals = append(r.goals, goal{than: fewer.name, atLeast: 0.9 * float64(8/n)})
	}
	return r
}

// join starts the workers of a hub, and waits until it has them.
func (w *world) join(hub *process, vars map[string]string) (workers []*process, err error) {
	n, _ := strconv.Atoi(vars["workers"]) // none: it has none
	if n == 0 {
		return nil, nil
	}
	if err := hub.listens(vars["listen"]); err != nil {
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
	return workers, hub.until(func() bool { return strings.Count(hub.stderr.String(), joined) >= n },
		fmt.Sprintf("did not say %d times %q", n, joined))
}

// sleepers is a number of goroutines that take lines, and sleep for 20 ms with each.
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
				os.Stdout.Write(line) // who reads misses what did not arrive
			}
		})
	}
	err = eachOf(bufio.NewReaderSize(os.Stdin, block), bufio.NewWriter(os.Stdout), func(line []byte) error {
		lines <- bytes.Clone(line)
		return nil
	})
	close(lines)
	all.Wait()
	return err
}
