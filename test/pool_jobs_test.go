package test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func (f *fleet) editedMessages() {
	f.serveWithWorkers(4, pipeline{
		before: `{meta: {from: n, at: received_at(), gone: "1"}}`,
		do: `{filter: n != 3}, {set: {twice: n * 2, from: 'meta("from")', src: input(), same: 'meta("at") == received_at()'}},
			{meta: {back: n + 100, gone: nil}}`,
		behind: `{set: {back: 'meta("back")', kept: 'meta("from")', gone: 'meta("gone")', at: 'meta("at") == received_at()'}}`,
	})
	var want []string
	for n := 1; n <= 40; n++ {
		f.hub.Send(fmt.Sprintf("{\"n\":%d}\n", n))
		if n != 3 {
			want = append(want,
				fmt.Sprintf(`{"n":%d,"twice":%d,"from":%[1]d,"src":"in","same":true,"back":%[3]d,"kept":%[1]d,"gone":null,"at":true}`, n, 2*n, 100+n))
		}
	}
	f.hub.Stdin.Close()
	r := f.hub.Wait()
	r.Want(f.t, 0, "40 received: 39 delivered, 1 filtered")
	got := strings.Split(strings.TrimSpace(r.Stdout), "\n")
	slices.SortFunc(got, func(a, b string) int { return number(f.t, a, "n") - number(f.t, b, "n") })
	if !slices.Equal(got, want) {
		f.t.Errorf("stdout has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// number returns a numeric field of a JSON document.
func number(t *testing.T, text, name string) int {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	n, ok := doc[name].(float64)
	if !ok {
		t.Fatalf("%q has no number %s", text, name)
	}
	return int(n)
}

// simultaneousJobs holds a job on each of four slots, while four jobs wait.
func (f *fleet) simultaneousJobs() {
	f.hold("")
	f.serveWithWorkers(4, pipeline{})
	f.hub.Send(numbers(1, 8))
	f.waitForRuns(4)
	f.waitForPool(4, 4)
	busy := map[int]bool{}
	for _, r := range f.jobRuns() {
		busy[r.pid] = true
	}
	if want := map[bool]int{true: 4, false: 1}[f.remote()]; len(busy) != want || len(f.jobRuns()) != 4 {
		f.t.Errorf("running jobs: %v, want 4 in %d processes", f.jobRuns(), want)
	}
	f.release("")
	f.endHub(0, 1, 8)
	f.wantRuns(8, nil)
}

func (f *fleet) parallelJobs() {
	const each = 700 * time.Millisecond
	f.serveWithWorkers(4, pipeline{do: fmt.Sprintf(`{sleep: %v}`, each)})
	// A busy machine makes jobs slower, but sequential jobs can never take less than their sum.
	time4 := f.timeJobs(4)
	for tries := 1; time4 >= 4*each && tries < 10; tries++ {
		time4 = f.timeJobs(4)
	}
	if time4 >= 4*each {
		f.t.Errorf("four jobs on four slots took %v, and one takes %v", time4, each)
	}
	if time8 := f.timeJobs(8); time8 < 2*each {
		f.t.Errorf("eight jobs on four slots took %v, and one takes %v", time8, each)
	}
	f.endHub(0, 1, 0)
}

// timeJobs returns how long n jobs take.
func (f *fleet) timeJobs(n int) time.Duration {
	f.t.Helper()
	began := time.Now()
	f.hub.Send(numbers(1, n))
	if got := f.readLines(n); !slices.Equal(got, strings.Fields(numbers(1, n))) {
		f.t.Errorf("stdout has %q", got)
	}
	return time.Since(began)
}

// failing are steps that fail the messages 1, 2 and 3, each in another way.
const failing = job + `,
	{when: n == 1, fail: "not $(n)"},
	{when: n == 2, set: {x: n + "a"}},
	{when: n == 3, exec: {command: [sh, -c, "echo no good >&2; exit 3"]}},
	{set: {done: true}}`

func (f *fleet) failures() {
	f.serveWithWorkers(1, pipeline{do: failing, slots: 1})
	for n := range 4 {
		f.hub.Send(fmt.Sprintf("{\"n\":%d}\n", n+1))
	}
	if got, want := f.hub.Line(), `{"n":4,"done":true}`; got != want {
		f.t.Errorf("stdout has %s, want %s", got, want)
	}
	f.hub.Send("{\"n\":5}\n") // the same worker continues
	if got, want := f.hub.Line(), `{"n":5,"done":true}`; got != want {
		f.t.Errorf("stdout has %s, want %s", got, want)
	}
	f.hub.Stdin.Close()
	f.hub.Wait().Want(f.t, 0, "5 received: 2 delivered, 3 dead-lettered")
	var on []string
	if f.remote() {
		on = []string{f.name(f.workers[0])}
	}
	f.wantDeadLetter(`{"n":1}`, "permanent", append(on, "not 1", "fail")...)
	f.wantDeadLetter(`{"n":2}`, "expression", append(on, "set")...)
	f.wantDeadLetter(`{"n":3}`, "permanent", append(on, "exec", "no good", "3")...)
	if n := len(f.jobRuns()); n != 5 {
		f.t.Errorf("%d runs of 5 jobs: %v", n, f.jobRuns())
	}
}

func (f *fleet) retriedFailures() {
	f.serveWithWorkers(1, pipeline{do: failing, slots: 1, pool: "retries: 2, retry_on: [error]"})
	f.hub.Send("{\"n\":1}\n{\"n\":4}\n")
	if got, want := f.hub.Line(), `{"n":4,"done":true}`; got != want {
		f.t.Errorf("stdout has %s, want %s", got, want)
	}
	f.hub.Stdin.Close()
	f.hub.Wait().Want(f.t, 0)
	f.wantDeadLetter(`{"n":1}`, "permanent", "not 1")
	if got := f.counts(); got[`{"n":1}`] != 3 || got[`{"n":4}`] != 1 {
		f.t.Errorf("job runs: %v, want 3 of the failing job and 1 of the other", got)
	}
}

func (f *fleet) timeouts() {
	f.hold("1")
	f.serveWithWorkers(1, pipeline{slots: 1, pool: "timeout: 1500ms, retries: 1"})
	f.hub.Send("1\n")
	f.waitForRuns(2)
	f.eventually("a dead letter", func() bool { return len(f.deadLetters()) == 1 })
	f.hub.Send("2\n") // the slot is free again
	f.endHub(0, 2, 2)
	f.wantDeadLetter("1", "timeout", "1.5s", "2 attempts")
	f.wantRuns(2, map[string]int{"1": 2})
	f.release("1")
}

// keepsOrder interleaves keys. Jobs take different times, so that later messages of a key may be faster.
func (f *fleet) keepsOrder() {
	f.serveWithWorkers(4, pipeline{
		do:   `{sleep: "$((n * 7919) % 23)ms"}, {set: {done: true}}`,
		rest: "outputs: {out: {stdout: {}}}\nengine: {order_by: n % 5, workers: 4}\n",
	})
	const all = 200
	for n := range all {
		f.hub.Send(fmt.Sprintf("{\"n\":%d}\n", n))
	}
	last := map[int]int{}
	for range all {
		n := number(f.t, f.hub.Line(), "n")
		if before, ok := last[n%5]; ok && n != before+5 || !ok && n != n%5 {
			f.t.Errorf("message %d arrived after %d", n, before)
		}
		last[n%5] = n
	}
	f.endHub(0, 1, 0)
}

func (f *fleet) mergedBatches() {
	f.serveWithWorkers(4, pipeline{
		batch: "batch: {size: 5, timeout: 1h}", do: job +
			`, {archive: lines}, {meta: {sum: 'sum(map(split(trim(raw()), "\n"), int(#)))'}}`,
		behind: `{map: {sum: 'meta("sum")', lines: 'split(trim(raw()), "\n")'}}`,
	})
	f.hub.Send(numbers(1, 20))
	var all []string
	for _, line := range f.readLines(4) {
		var m struct {
			Sum   int
			Lines []string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || len(m.Lines) != 5 {
			f.t.Fatalf("%s is not a batch of 5: %v", line, err)
		}
		for _, l := range m.Lines {
			n, _ := strconv.Atoi(l)
			m.Sum -= n
		}
		if m.Sum != 0 {
			f.t.Errorf("%s has the metadata of another batch", line)
		}
		all = append(all, m.Lines...)
	}
	if slices.SortFunc(all, byNumber); !slices.Equal(all, strings.Fields(numbers(1, 20))) {
		f.t.Errorf("the batches have %q", all)
	}
	f.endHub(0, 1, 0)
	f.wantRuns(20, nil)
}

func (f *fleet) splitBatches() {
	f.serveWithWorkers(4, pipeline{batch: "batch: {size: 3, timeout: 1h}", do: `{split: this.of}, {set: {k: 'meta("k")'}}`,
		before: `{meta: {k: k}}`})
	f.hub.Send(`{"k":1,"of":[{"n":1},{"n":2}]}` + "\n" + `{"k":2,"of":[]}` + "\n" +
		`{"k":3,"of":[{"n":3},{"n":4},{"n":5}]}` + "\n")
	f.hub.Stdin.Close()
	r := f.hub.Wait()
	r.Want(f.t, 0, "3 received: 2 delivered, 1 filtered")
	got := strings.Fields(r.Stdout)
	slices.SortFunc(got, func(a, b string) int { return number(f.t, a, "n") - number(f.t, b, "n") })
	if want := []string{`{"n":1,"k":1}`, `{"n":2,"k":1}`, `{"n":3,"k":3}`, `{"n":4,"k":3}`,
		`{"n":5,"k":3}`}; !slices.Equal(got, want) {
		f.t.Errorf("stdout has %q, want %q", got, want)
	}
}

func (f *fleet) maxPending() {
	f.hold("")
	f.serveWithWorkers(4, pipeline{pool: "max_pending: 2"})
	f.hub.Send(numbers(1, 50))
	f.waitForRuns(2)
	f.waitForPool(48, 2)
	if n := len(f.jobRuns()); n != 2 {
		f.t.Errorf("%d jobs run, want 2", n)
	}
	f.release("")
	f.endHub(0, 1, 50)
	f.wantRuns(50, nil)
}

func (f *fleet) tooLarge() {
	long := strings.Repeat("x", 2<<20)
	p := pipeline{
		input:  "{stdin: {max_record: 8MiB}}",
		do:     `{when: x != nil, set: {x: len(x)}}, {when: n == 3, set: {y: '[repeat("y", 800000), repeat("y", 800000)]'}}`,
		behind: `{when: y != nil, set: {y: "len(y[0]) + len(y[1])"}}`,
	}
	messages := fmt.Sprintf("{\"n\":1,\"x\":%q}\n{\"n\":2}\n{\"n\":3}\n{\"n\":4}\n", long)
	f.serveWithWorkers(1, p)
	f.hub.Send(messages)
	f.hub.Stdin.Close()
	r := f.hub.Wait()
	r.Want(f.t, 0, "4 received: 2 delivered, 2 dead-lettered")
	if got := strings.Fields(r.Stdout); len(got) != 2 || !slices.Contains(got, `{"n":2}`) ||
		!slices.Contains(got, `{"n":4}`) {
		f.t.Errorf("stdout has %q", got)
	}
	f.wantDeadLetter(fmt.Sprintf(`{"n":1,"x":%q}`, long), "rejected", "2097", "raise service.cluster.max_payload")
	f.wantDeadLetter(`{"n":3}`, "rejected", "1600", "raise service.cluster.max_payload")

	p.cluster = "max_payload: 8MiB"
	f.serve(p)
	f.waitForWorker(f.workers[0]) // has reconnected
	f.hub.Send(messages)
	f.hub.Stdin.Close()
	r = f.hub.Wait()
	r.Want(f.t, 0, "4 received: 4 delivered")
	for _, want := range []string{`{"n":1,"x":2097152}`, `{"n":3,"y":1600000}`} {
		if !strings.Contains(r.Stdout, want) {
			f.t.Errorf("stdout lacks %s: %.200s", want, r.Stdout)
		}
	}
}

func (f *fleet) poolLs() {
	f.hold("")
	f.serve(pipeline{pool: "lease: 3s"})
	f.ls().Want(f.t, 0)
	if out := f.ls().Stdout; !strings.Contains(out, "embed of p") || !strings.Contains(out, "no workers") {
		f.t.Errorf("pool ls prints %s", out)
	}
	f.join(1, "--slots", "3")
	f.join(1)
	f.hub.Send(numbers(1, 6))
	f.waitForRuns(4)
	f.waitForPool(2, 4)
	f.eventually("both workers are busy", func() bool {
		m := f.state().Pools[0].Members
		slots := map[string]int{}
		for _, m := range m {
			if m.Slots != m.Busy || m.Version == "" {
				return false
			}
			slots[m.Name] = m.Slots
		}
		return len(m) == 2 && slots[f.name(f.workers[0])] == 3 && slots[f.name(f.workers[1])] == 1
	})
	r := f.ls()
	r.Want(f.t, 0)
	for _, part := range []string{"2 waiting, 4 in flight", "lease 3s", "SLOTS", "BUSY", "LEASE AGE", "VERSION",
		f.name(f.workers[0]), f.name(f.workers[1])} {
		if !strings.Contains(r.Stdout, part) {
			f.t.Errorf("pool ls lacks %q:\n%s", part, r.Stdout)
		}
	}
	f.release("")
	f.readLines(6)
	f.leave(f.workers[1])
	f.eventually("one worker is left", func() bool { return len(f.state().Pools[0].Members) == 1 })
	f.endHub(0, 1, 0)
}

// stepsChange reloads the pipeline with other steps, which running workers must get from the hub.
func (f *fleet) stepsChange() {
	f.serveWithWorkers(2, pipeline{do: "{set: {by: n + 10}}"})
	f.hub.Send("{\"n\":1}\n{\"n\":2}\n")
	if got, want := f.readLines(2), []string{`{"n":1,"by":11}`, `{"n":2,"by":12}`}; !slices.Equal(got, want) {
		f.t.Errorf("stdout has %s, want %s", got, want)
	}
	f.file(pipeline{do: "{set: {by: n + 20}}"})
	f.hub.Signal(syscall.SIGHUP)
	f.hub.Says("reloaded")
	f.hub.Send("{\"n\":3}\n{\"n\":4}\n")
	if got, want := f.readLines(2), []string{`{"n":3,"by":23}`, `{"n":4,"by":24}`}; !slices.Equal(got, want) {
		f.t.Errorf("stdout has %s, want %s", got, want)
	}
	f.finish(1, 0, f.workers...)
}
