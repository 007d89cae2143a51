package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
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
		run:         pooled,
		contestants: hops,
		goals:       []goal{{atLeast: 4}},
	},
	{
		name: "latency-pool", does: "the same, open loop at 20 % load", data: events, metric: p99, run: pooled,
		open:        true,
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
		name: name, does: "a step of 20 ms on 8 " + of + ", against fewer", data: events, run: pooled, cap: 160,
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

// pooled is the runner of rows whose contestants may have workers in other processes: as
// many as the variable workers says, with this many slots.
func pooled(w *world, r *row, c *contestant, n int, all bool) (s sample, err error) {
	address, err := freeAddress()
	if err != nil {
		return s, err
	}
	vars := map[string]string{"listen": address, "slots": "1"}
	maps.Copy(vars, c.vars)
	wave, _ := strconv.Atoi(vars["wave"])         // none: from the first message on
	processes, _ := strconv.Atoi(vars["workers"]) // none: it has none
	var workers []*process
	defer func() {
		for _, p := range workers {
			p.kill() // where it has not ended before
		}
	}()
	var theirs time.Duration // CPU time
	through := stream{vars: vars, wave: wave, want: critical, all: all}
	through.ready = func(hub *process) error {
		if processes == 0 {
			return nil
		}
		if err := hub.listens(address); err != nil {
			return err
		}
		for range processes {
			p, err := w.start("$flowd worker --join $listen --pool bench --slots $slots", vars, nil, nil)
			if err != nil {
				return err
			}
			workers = append(workers, p)
		}
		return hub.says("a worker has joined the pool", processes)
	}
	through.done = func() error {
		for _, p := range workers {
			used, err := p.stop()
			if err != nil {
				return err
			}
			theirs += used.cpu
		}
		return nil
	}
	s, err = w.flow(r, c, n, through)
	s.CPU += theirs
	return s, err
}

// says waits until a process has said something so often.
func (p *process) says(what string, often int) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(20 * time.Second); strings.Count(p.stderr.String(), what) < often; {
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("it ended: %s", p.used.stderr)
		case <-late:
			return fmt.Errorf("it did not say %d times %q: %s", often, what, p.stderr.String())
		}
	}
	return nil
}

// sleepers is a number of goroutines that take lines, and sleep for 20 ms with each.
func sleepers(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	lines, failed := make(chan []byte), make(chan error, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for line := range lines {
				time.Sleep(20 * time.Millisecond)
				line = append(bytes.TrimSuffix(line, []byte("}\n")), `,"severity":"critical"}`+"\n"...)
				if _, err := os.Stdout.Write(line); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	in := bufio.NewReaderSize(os.Stdin, block)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		select {
		case lines <- line:
		case err := <-failed:
			return err
		}
	}
	close(lines)
	all.Wait()
	return nil
}
