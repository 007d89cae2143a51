package test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func (f *fleet) noWorker() {
	f.serve(pipeline{pool: "timeout: 100ms, retries: 0"})
	f.hub.Send("1\n")
	f.hub.Stdin.Close()
	f.hub.Wait().Want(f.t, 0, "1 dead-lettered")
	f.wantDeadLetter("1", "timeout", "no worker", "flowd worker --pool embed")
}

func (f *fleet) workerAppears() {
	f.serve(pipeline{do: "{set: {done: true}}", pool: "timeout: 50ms, retries: -1"})
	f.hub.Send("{\"n\":1}\n")
	f.waitForPool(1, 0)
	f.join(1)
	if got, want := f.hub.Line(), `{"n":1,"done":true}`; got != want {
		f.t.Errorf("stdout has %s, want %s", got, want)
	}
	f.endHub(0, 1, 0)
}

func (f *fleet) workersFirst() {
	if f.spaces == nil {
		f.addr = freeAddress(f.t)
	}
	for range 2 {
		f.startWorker().Says("there is no connection to the hub")
	}
	f.serve(pipeline{})
	f.hub.Send(numbers(1, 4))
	f.finish(1, 4, f.workers...)
}

// redelivered is a pipeline with a checkpoint, which redelivers unfinished messages.
func (f *fleet) redelivered(n int) pipeline {
	write(f.t, f.dir, "in", numbers(1, n))
	return pipeline{
		input: "{file: {path: in, checkpoint: checkpoint}}", do: "{sleep: 20ms}",
		rest: "outputs: {out: {file: {path: out}}}\nengine: {max_in_flight: {messages: 16}}\n",
	}
}

// delivered returns the lines of the output file.
func (f *fleet) delivered() []string {
	f.t.Helper()
	found, err := filepath.Glob(filepath.Join(f.dir, "out"))
	if err != nil || len(found) == 0 {
		return nil
	}
	return strings.Fields(read(f.t, found[0]))
}

func (f *fleet) hubKilled()  { f.hubRestarts(syscall.SIGKILL) }
func (f *fleet) hubStopped() { f.hubRestarts(syscall.SIGTERM) }

// hubRestarts stops and restarts the hub twice while jobs run. The workers keep running.
func (f *fleet) hubRestarts(s syscall.Signal) {
	const n = 300
	f.serveWithWorkers(4, f.redelivered(n))
	for round := range 2 {
		f.eventually("some are done", func() bool { return len(f.delivered()) > 60*(round+1) })
		f.hub.Signal(s)
		r := f.hub.Wait()
		if s == syscall.SIGTERM {
			r.Want(f.t, 0, "draining")
		}
		f.serve(f.redelivered(n)) // with the same address
	}
	f.hub.Wait().Want(f.t, 0)
	got := f.delivered()
	slices.SortFunc(got, byNumber)
	if s == syscall.SIGKILL {
		got = slices.Compact(got) // duplicates are allowed
	}
	if want := strings.Fields(numbers(1, n)); !slices.Equal(got, want) {
		f.t.Errorf("delivered %q, want %q", got, want)
	}
	f.leave(f.workers...)
}

func (f *fleet) hubKilledDuringJob() {
	f.hold("1")
	p := pipeline{pool: "lease: 500ms"}
	f.serveWithWorkers(1, p)
	f.hub.Send("1\n")
	f.waitForRuns(1)
	f.hub.Signal(syscall.SIGKILL)
	f.hub.Wait()
	f.serve(p)
	f.waitForWorker(f.workers[0])
	f.hub.Send("2\n") // waits for the slot
	f.waitForPool(1, 0)
	f.release("1")
	if got := f.hub.Line(); got != "2" {
		f.t.Errorf("stdout has %q, want 2", got)
	}
	f.finish(1, 0, f.workers[0])
	f.wantRuns(2, nil)
}

// jobOfADeadHub: a worker is busy with a job of a dead hub. Its reports on that job must not
// count for a job of the next hub, which another worker loses.
func (f *fleet) jobOfADeadHub() {
	f.hold("1", "2")
	p := pipeline{pool: "lease: 500ms"}
	f.serveWithWorkers(1, p)
	f.hub.Send("1\n")
	f.waitForRuns(1)
	f.hub.Signal(syscall.SIGKILL)
	f.hub.Wait()
	f.serve(p)
	f.waitForWorker(f.workers[0])
	f.join(1)
	f.hub.Send("2\n")
	f.waitForRuns(2)
	f.kill(f.workers[1])
	f.join(1)
	f.waitForRuns(3) // by the third worker, after the lease
	f.release("2")
	f.endHub(0, 2, 2)
	f.release("1")
	f.wantRuns(2, map[string]int{"2": 2})
}

func (f *fleet) idleWorkerDies() {
	f.serveWithWorkers(4, pipeline{pool: "lease: 1h"}) // a job of a dead worker would not come back in time
	f.hub.Send(numbers(1, 4))
	f.readLines(4)
	f.kill(f.workers[0])
	f.hub.Says("no longer heard from")
	f.hub.Send(numbers(5, 12))
	f.finish(5, 12, f.workers[1:]...)
	f.wantRuns(12, nil)
}

func (f *fleet) busyWorkerDies() {
	f.hold("1", "2", "3", "4")
	f.serveWithWorkers(4, pipeline{pool: "lease: 500ms"})
	f.hub.Send(numbers(1, 4))
	runs := f.waitForRuns(4)
	i := slices.IndexFunc(runs, func(r jobRun) bool { return r.job == "1" })
	dead := f.workerWithPID(runs[i].pid)
	f.kill(f.workers[dead])
	f.release("2")
	if again := f.waitForRuns(5)[4]; again.job != "1" || again.pid == runs[i].pid {
		f.t.Errorf("the job of the dead worker was not given to another one: %v", f.jobRuns())
	}
	f.release("1", "3", "4")
	f.finish(1, 4, slices.Delete(f.workers, dead, dead+1)...)
	f.wantRuns(4, map[string]int{"1": 2})
}

func (f *fleet) onlyWorkerDies() {
	f.startBusyWorker(1, "lease: 500ms")
	f.kill(f.workers[0])
	f.hub.Says("no longer heard from")
	f.join(1)
	f.waitForRuns(2)
	f.release("1")
	f.finish(1, 1, f.workers[1])
	f.wantRuns(1, map[string]int{"1": 2})
}

func (f *fleet) lostJobIsNotRetried() {
	f.startBusyWorker(1, "lease: 500ms, retries: 0")
	f.join(1)
	f.kill(f.workers[0])
	f.eventually("a dead letter", func() bool { return len(f.deadLetters()) == 1 })
	f.wantDeadLetter("1", "transient", "embed", "gone")
	f.hub.Send("2\n")
	f.finish(2, 2, f.workers[1])
	f.wantRuns(2, nil)
	f.release("1")
}

// lostJobWithoutWorkers loses a job while there is no other worker.
func (f *fleet) lostJobWithoutWorkers() {
	f.startBusyWorker(1, "lease: 500ms, retries: 0")
	f.kill(f.workers[0])
	f.eventually("a dead letter", func() bool { return len(f.deadLetters()) == 1 })
	f.endHub(0, 1, 0)
	f.wantDeadLetter("1", "transient", "embed", "gone")
	f.release("1")
}

func (f *fleet) busyWorkerStopped() {
	f.startBusyWorker(1, "lease: 500ms, retries: 0")
	w := f.workers[0]
	w.Signal(syscall.SIGTERM)
	w.Says("draining")
	f.release("1")
	w.Wait().Want(f.t, 0)
	f.endHub(0, 1, 1)
	f.wantRuns(1, nil)
}

// returnsUnfinishedJobs stops a worker that can't finish its jobs within --grace. The jobs go to another
// worker, and this does not count as an attempt.
func (f *fleet) returnsUnfinishedJobs() {
	f.serve(pipeline{pool: "retries: 0, lease: 1h"})
	w := f.startWorker("--slots", "4", "--grace", "100ms")
	f.waitForWorker(w)
	f.hold("")
	f.hub.Send(numbers(1, 4))
	f.waitForRuns(4)
	f.join(1, "--slots", "4")
	w.Signal(syscall.SIGTERM)
	w.Wait().Want(f.t, 0)
	f.waitForRuns(8)
	f.release("")
	f.finish(1, 4, f.workers[1])
	f.wantRuns(4, map[string]int{"1": 2, "2": 2, "3": 2, "4": 2})
}

func (f *fleet) stoppedWhileJobsWait() {
	f.startBusyWorker(1, "retries: 0")
	f.hub.Send(numbers(2, 4))
	f.waitForPool(3, 1)
	w := f.workers[0]
	w.Signal(syscall.SIGTERM)
	w.Says("draining")
	f.join(1)
	if got := f.readLines(3); !slices.Equal(got, []string{"2", "3", "4"}) {
		f.t.Errorf("stdout has %q", got)
	}
	f.release("1")
	w.Wait().Want(f.t, 0)
	f.finish(1, 1, f.workers[1])
	f.wantRuns(4, nil)
}

// workersComeAndGo starts and stops workers. Jobs are not retried, so none may be lost.
func (f *fleet) workersComeAndGo() {
	const n = 400
	f.serveWithWorkers(2, pipeline{pool: "retries: 0", do: job + ", {sleep: 10ms}"})
	f.hub.Send(numbers(1, n))
	for i := range 6 {
		f.waitForRuns(50 * (i + 1))
		f.join(1)
		f.leave(f.workers[i])
	}
	f.finish(1, n, f.workers[6:]...)
	f.wantRuns(n, nil)
}

// severalHubs joins a worker to two hubs.
func (f *fleet) severalHubs() {
	other := newFleet(f.t, onLoopback)
	f.serve(pipeline{do: "{set: {by: 1}}"})
	other.serve(pipeline{do: "{set: {by: 2}}"})
	w := f.startWorker("--join", other.addr, "--pool", "unknown")
	for _, h := range []*fleet{f, other} {
		h.waitForWorker(w)
	}
	for i, h := range []*fleet{f, other, f, other} {
		h.hub.Send("{}\n")
		if got, want := h.hub.Line(), fmt.Sprintf(`{"by":%d}`, i%2+1); got != want {
			f.t.Errorf("stdout has %s, want %s", got, want)
		}
	}
	f.leave(w)
	f.endHub(0, 1, 0)
	other.endHub(0, 1, 0)
}

func (f *fleet) longDisconnect() {
	f.proxied = true
	cut := f.startBusyWorker(2, "lease: 500ms")
	f.unplug(cut)
	if second := f.workerWithPID(f.waitForRuns(2)[1].pid); second == cut {
		f.t.Error("the job was given to the disconnected worker again")
	}
	f.release("1")
	if got := f.hub.Line(); got != "1" {
		f.t.Errorf("stdout has %q", got)
	}
	f.plug(cut)
	f.allAtWork(2, 2) // including the worker that was disconnected
	f.finish(1, 0, f.workers...)
	f.wantRuns(1, map[string]int{"1": 2})
}

// allAtWork sends one job per worker, starting with number from, and waits until each worker has
// had one and all are done.
func (f *fleet) allAtWork(from, workers int) {
	f.t.Helper()
	before := len(f.jobRuns())
	f.hold("")
	f.hub.Send(numbers(from, from+workers-1))
	runs := f.waitForRuns(before + workers)[before:]
	f.release("")
	at := map[int]bool{}
	for _, r := range runs {
		at[r.pid] = true
	}
	if got := f.readLines(workers); !slices.Equal(got, strings.Fields(numbers(from, from+workers-1))) ||
		len(at) != workers {
		f.t.Errorf("got %q on stdout, run by %v, want a job on each of %d workers", got, runs, workers)
	}
}

// shortDisconnect disconnects a worker for less than the lease, so that it keeps its job.
func (f *fleet) shortDisconnect() {
	f.proxied = true
	cut := f.startBusyWorker(2, "lease: 20s, retries: 0")
	f.unplug(cut)
	f.release("1") // the result can't be sent
	f.hub.Says("no longer heard from")
	f.plug(cut)
	if got := f.hub.Line(); got != "1" {
		f.t.Errorf("stdout has %q", got)
	}
	f.allAtWork(2, 2)
	f.finish(1, 0, f.workers...)
	f.wantRuns(3, nil)
}

func (f *fleet) resets() {
	f.proxied = true
	f.hold("1", "2")
	f.serveWithWorkers(2, pipeline{pool: "lease: 20s, retries: 0"})
	f.hub.Send(numbers(1, 2))
	f.waitForRuns(2)
	for i, p := range f.proxies {
		p.cut()
		f.workers[i].Says("there is no connection to the hub")
	}
	f.release("1", "2")
	if got := f.readLines(2); !slices.Equal(got, []string{"1", "2"}) {
		f.t.Errorf("stdout has %q", got)
	}
	f.allAtWork(3, 2)
	f.finish(1, 0, f.workers...)
	f.wantRuns(4, nil)
}

func (f *fleet) slowLinks() {
	f.proxied = true
	f.serveWithWorkers(4, pipeline{pool: "lease: 2s, retries: 0"})
	for i := range f.workers {
		f.slow(i)
	}
	f.hub.Send(numbers(1, 20))
	f.finish(1, 20, f.workers...)
	f.wantRuns(20, nil)
}

// lateAnswer disconnects the first worker, so that it does not learn that its attempt has timed out.
func (f *fleet) lateAnswer() {
	f.proxied = true
	first := f.startBusyWorker(2, "lease: 1h, timeout: 3s, retries: 5")
	f.unplug(first)
	f.waitForRuns(2) // by the other worker, or by an open request of the first one
	f.release("1")
	if got := f.hub.Line(); got != "1" {
		f.t.Errorf("stdout has %q", got)
	}
	f.plug(first)
	f.eventually("the first worker has reported that it is free", func() bool {
		members := f.state().Pools[0].Members
		return len(members) == 2 && members[0].Busy+members[1].Busy == 0
	})
	f.allAtWork(2, 2)
	f.finish(1, 0, f.workers...)
}

// storm runs 10,000 jobs on 16 slots (4,000 in namespaces), and kills and replaces a random
// worker every second.
func (f *fleet) storm() {
	n := 10_000
	if f.where == inNamespaces {
		n = 4000
	}
	f.serveWithWorkers(4, pipeline{
		input: fmt.Sprintf("{generate: {count: %d, body: '{n: counter()}'}}", n),
		do:    "{sleep: 20ms}, {set: {twice: n * 2}}",
		pool:  "retries: -1, lease: 1s", rest: "outputs: {out: {file: {path: out}}}\n",
	}, "--slots", "4")
	ended := make(chan result, 1)
	go func() { ended <- f.hub.Wait() }()
	killed := 0
	for every := time.NewTicker(time.Second); ; {
		select {
		case <-every.C:
			i := rand.IntN(4)
			f.kill(f.workers[i])
			killed++
			w := f.startWorker("--slots", "4") // replaces the dead one
			f.workers[i], f.workers = w, f.workers[:4]
			continue
		case r := <-ended:
			every.Stop()
			all := fmt.Sprintf("%d,000", n/1000)
			r.Want(f.t, 0, all+" received: "+all+" delivered")
		}
		break
	}
	if killed < 3 {
		f.t.Errorf("%d workers were killed, want at least 3", killed)
	}
	seen := map[int]int{}
	for _, line := range f.delivered() {
		seen[number(f.t, line, "n")]++
		if number(f.t, line, "twice") != 2*number(f.t, line, "n") {
			f.t.Fatalf("the output has a wrong line: %s", line)
		}
	}
	for i, times := range seen {
		if times != 1 {
			f.t.Errorf("%s was delivered %d times", strconv.Itoa(i), times)
		}
	}
	if len(seen) != n {
		f.t.Errorf("%d of %d messages were delivered", len(seen), n)
	}
	f.leave(f.workers...)
}
