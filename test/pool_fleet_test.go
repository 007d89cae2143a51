package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// location says where the slots of a pool are.
type location int

const (
	inProcess    location = 1 << iota // workers: 4
	onLoopback                        // four processes
	inNamespaces                      // four processes, each in a network namespace
	elsewhere    = onLoopback | inNamespaces
	everywhere   = inProcess | elsewhere
)

func (w location) String() string {
	return map[location]string{inProcess: "in process", onLoopback: "loopback", inNamespaces: "namespaces"}[w]
}

// fleet is a hub with its workers.
type fleet struct {
	t       *testing.T
	where   location
	dir     string
	addr    string // address of the hub
	hub     *process
	workers []*process
	proxies []*proxy // between workers and hub; empty: direct connections
	proxied bool
	spaces  *namespaces
	nats    *process // external NATS server; nil: the hub's own
}

const poolToken = "of-the-pool"

// jobScript is the program of most jobs; its parent is the worker. It records the run, waits
// while a hold file exists, and returns its input.
const jobScript = `
read -r m
echo "$PPID $m" >> ran
while [ -e hold ] || [ -e "hold.$m" ] || [ -e "hold.$PPID" ]; do sleep 0.05; done
echo "$m"
`

// job is the step that runs the script.
const job = `{exec: {command: [sh, job.sh], concurrency: 64}}`

// newFleet makes a fleet without processes.
func newFleet(t *testing.T, w location) *fleet {
	f := &fleet{t: t, where: w, dir: t.TempDir(), addr: "127.0.0.1:0"}
	write(t, f.dir, "job.sh", jobScript)
	write(t, f.dir, "ran", "")
	write(t, f.dir, "token", poolToken+"\n")
	if w == inNamespaces {
		f.spaces = newNamespaces(t)
		f.addr = f.spaces.hubAddr
	}
	return f
}

func (f *fleet) remote() bool { return f.where != inProcess }

// pipeline is a file with one pool, called embed.
type pipeline struct {
	input   string // stdin by default
	before  string // steps, as the items of a list
	pool    string // options of the pool
	slots   int    // slots in the process; 4 by default
	do      string // steps in the pool
	behind  string // steps after the pool
	batch   string // options of a batcher that has the pool; none by default
	rest    string // other sections of the file
	cluster string // options of service.cluster
	service string // other options of service
}

// file writes the pipeline.
func (f *fleet) file(p pipeline) string {
	f.t.Helper()
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	options := "workers: remote"
	if !f.remote() {
		options = fmt.Sprint("workers: ", max(p.slots, 1))
		if p.slots == 0 {
			options = "workers: 4"
		}
	}
	for option := range strings.SplitSeq(p.pool, ", ") {
		if option != "" && (f.remote() || !strings.HasPrefix(option, "lease")) {
			options += ", " + option
		}
	}
	if !strings.Contains(options, "timeout:") {
		options += ", timeout: 10m"
	}
	pool := fmt.Sprintf("{name: far, pool: {name: embed, %s, do: [%s]}}", options, or(p.do, job))
	steps := strings.Trim(p.before+", "+pool+", "+p.behind, ", ")
	text := "inputs: {in: " + or(p.input, "{stdin: {}}") + "}\n"
	if p.batch == "" {
		text += "processors: [" + steps + "]\n"
	} else {
		text += "batchers: {all: {" + p.batch + ", processors: [" + steps + "], output: out}}\n"
	}
	text += or(p.rest,
		"outputs: {out: {stdout: {}}, dead: {file: {path: dead.ndjson, framing: messages}}}\nengine: {on_failure: {dead_letter: dead}}\n")
	if !strings.Contains(text, "batchers:") {
		text += "batchers: {all: {batch: {timeout: 5ms}, output: out}}\n"
	}
	if f.remote() {
		cluster := "listen: \"" + f.addr + "\", token: " + poolToken
		if f.nats != nil {
			cluster = "url: \"" + f.addr + "\""
		}
		service := "cluster: {" + strings.TrimSuffix(cluster+", "+p.cluster, ", ") + "}"
		text += "service: {" + strings.TrimSuffix(service+", "+p.service, ", ") + "}\n"
	}
	return write(f.t, f.dir, "p.yaml", text)
}

// serve starts the hub. When it is started again, it has the same address.
func (f *fleet) serve(p pipeline) {
	f.t.Helper()
	f.startHub(f.file(p))
}

// startHub starts the hub with a pipeline file.
func (f *fleet) startHub(file string) {
	f.t.Helper()
	args := []string{binary, "-c", file}
	if f.spaces != nil {
		args = f.spaces.inHub(args)
	}
	f.hub = startAs(f.t, f.dir, args[0], args[1:]...)
	if f.remote() && f.nats == nil {
		_, addr, _ := strings.Cut(f.hub.Says("workers may join"), "addr=")
		f.addr, _, _ = strings.Cut(addr, " ")
	}
}

// serveWithWorkers starts the hub and n workers, unless the slots are in the process.
func (f *fleet) serveWithWorkers(n int, p pipeline, args ...string) {
	f.t.Helper()
	f.serve(p)
	f.join(n, args...)
}

// join starts n workers and waits until the hub knows them.
func (f *fleet) join(n int, args ...string) {
	f.t.Helper()
	if !f.remote() {
		return
	}
	from := len(f.workers)
	for range n {
		f.startWorker(args...)
	}
	for _, w := range f.workers[from:] {
		f.waitForWorker(w)
	}
}

// waitForWorker waits until the hub knows a worker.
func (f *fleet) waitForWorker(w *process) {
	f.t.Helper()
	f.hub.Says(fmt.Sprintf("worker=%s slots=", f.name(w)))
}

// name returns the name of a worker in logs and in pool ls.
func (f *fleet) name(p *process) string {
	host, err := os.Hostname()
	if err != nil {
		f.t.Fatal(err)
	}
	return fmt.Sprintf("%s/%d", host, p.Cmd.Process.Pid)
}

// startWorker starts another worker, by default with one slot.
func (f *fleet) startWorker(args ...string) *process {
	f.t.Helper()
	to := f.addr
	if f.proxied && f.spaces == nil {
		f.proxies = append(f.proxies, startProxy(f.t, f.addr))
		to = f.proxies[len(f.proxies)-1].addr
	}
	line := []string{binary, "worker", "--join", to, "--pool", "embed", "--token-file", "token"}
	if !slices.Contains(args, "--slots") {
		line = append(line, "--slots", "1")
	}
	line = append(line, args...)
	if f.spaces != nil {
		line = f.spaces.inWorker(len(f.workers), line)
	}
	w := startAs(f.t, f.dir, line[0], line[1:]...)
	f.workers = append(f.workers, w)
	return w
}

// jobRun is an execution of a job.
type jobRun struct {
	pid int
	job string
}

// jobRuns returns the runs so far.
func (f *fleet) jobRuns() (all []jobRun) {
	f.t.Helper()
	for line := range strings.Lines(read(f.t, f.dir, "ran")) {
		pid, job, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(pid)
		if err != nil {
			f.t.Fatalf("%q is not a job run", line)
		}
		all = append(all, jobRun{n, job})
	}
	return all
}

// waitForRuns waits for n runs.
func (f *fleet) waitForRuns(n int) []jobRun {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d runs", n), func() bool { return len(f.jobRuns()) >= n })
	return f.jobRuns()
}

// counts returns how often each job ran.
func (f *fleet) counts() map[string]int {
	f.t.Helper()
	n := map[string]int{}
	for _, r := range f.jobRuns() {
		n[r.job]++
	}
	return n
}

// wantRuns fails the test unless the jobs 1 to n ran once each, except those in other.
func (f *fleet) wantRuns(n int, other map[string]int) {
	f.t.Helper()
	got := f.counts()
	for i := range n {
		job := strconv.Itoa(i + 1)
		want := 1
		if m, ok := other[job]; ok {
			want = m
		}
		if got[job] != want {
			f.t.Errorf("job %s ran %d times, want %d: %v", job, got[job], want, f.jobRuns())
		}
	}
}

// startBusyWorker starts a hub and n workers, holds job 1, and returns the index of the worker that runs it.
func (f *fleet) startBusyWorker(n int, pool string) (i int) {
	f.t.Helper()
	f.hold("1")
	f.serveWithWorkers(n, pipeline{pool: pool})
	f.hub.Send("1\n")
	return f.workerWithPID(f.waitForRuns(1)[0].pid)
}

// workerWithPID returns the index of the worker with a process id.
func (f *fleet) workerWithPID(pid int) (i int) {
	f.t.Helper()
	i = slices.IndexFunc(f.workers, func(w *process) bool { return w.Cmd.Process.Pid == pid })
	if i < 0 {
		f.t.Fatalf("no worker has the process id %d", pid)
	}
	return i
}

// eventually waits until shows returns true. what names the condition in the failure message.
func (f *fleet) eventually(what string, shows func() bool) {
	f.t.Helper()
	for end := time.Now().Add(deadline); !shows(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("never: %s\nran: %v\n%s", what, f.jobRuns(), f.transcripts())
		}
	}
}

// transcripts returns the stderr of all processes.
func (f *fleet) transcripts() string {
	var b strings.Builder
	if f.hub != nil {
		fmt.Fprintf(&b, "hub:\n%s\n", f.hub.Stderr.Text())
	}
	for _, w := range f.workers {
		fmt.Fprintf(&b, "worker %d:\n%s\n", w.Cmd.Process.Pid, w.Stderr.Text())
	}
	return b.String()
}

// hold makes jobs wait: all (""), or those with a name or on a worker.
func (f *fleet) hold(names ...string) {
	for _, name := range names {
		write(f.t, f.dir, strings.TrimSuffix("hold."+name, "."), "")
	}
}

// release lets held jobs continue.
func (f *fleet) release(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(f.dir, strings.TrimSuffix("hold."+name, "."))); err != nil {
			f.t.Fatal(err)
		}
	}
}

// numbers returns the numbers in [from, to], one per line.
func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// readLines returns the next n lines of the hub's stdout, sorted as numbers.
func (f *fleet) readLines(n int) []string {
	f.t.Helper()
	var all []string
	for range n {
		all = append(all, f.hub.Line())
	}
	slices.SortFunc(all, byNumber)
	return all
}

func byNumber(a, b string) int {
	if n := len(a) - len(b); n != 0 {
		return n
	}
	return strings.Compare(a, b)
}

// endHub closes the hub's stdin, and fails the test unless it exits with code and the rest of
// its output has the numbers in [from, to].
func (f *fleet) endHub(code, from, to int) result {
	f.t.Helper()
	f.hub.Stdin.Close()
	r := f.hub.Wait()
	r.Want(f.t, code)
	got := strings.Fields(r.Stdout)
	slices.SortFunc(got, byNumber)
	if want := strings.Fields(numbers(from, to)); !slices.Equal(got, want) {
		f.t.Errorf("stdout has %q, want %q\n%s", got, want, f.transcripts())
	}
	return r
}

// finish waits until the hub has printed the numbers in [from, to], and stops the workers and
// then the hub. All must exit with 0.
func (f *fleet) finish(from, to int, workers ...*process) {
	f.t.Helper()
	if got, want := f.readLines(max(0, to-from+1)), strings.Fields(numbers(from, to)); !slices.Equal(got, want) {
		f.t.Errorf("stdout has %q, want %q\n%s", got, want, f.transcripts())
	}
	f.leave(workers...)
	f.endHub(0, 1, 0)
}

// leave stops workers and fails the test unless they exit with 0.
func (f *fleet) leave(workers ...*process) {
	f.t.Helper()
	for _, w := range workers {
		w.Signal(syscall.SIGTERM)
	}
	for _, w := range workers {
		w.Wait().Want(f.t, 0)
	}
}

// kill kills a process.
func (f *fleet) kill(w *process) {
	f.t.Helper()
	w.Signal(syscall.SIGKILL)
	w.Wait()
}

// deadLetter is a dead letter.
type deadLetter struct {
	Payload string
	Meta    struct {
		Class   string `json:"error_class"`
		Message string `json:"error_message"`
		Step    string `json:"error_step"`
	}
}

// deadLetters returns the dead letters by payload.
func (f *fleet) deadLetters() map[string]deadLetter {
	f.t.Helper()
	all := map[string]deadLetter{}
	text, err := os.ReadFile(filepath.Join(f.dir, "dead.ndjson"))
	if err != nil && !os.IsNotExist(err) {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var raw struct {
			Payload json.RawMessage
			deadLetter
		}
		if err := json.Unmarshal([]byte(line), &raw); err != nil {
			f.t.Fatalf("%s: %v", line, err)
		}
		l := deadLetter{Meta: raw.Meta}
		if json.Unmarshal(raw.Payload, &l.Payload) != nil {
			l.Payload = string(raw.Payload)
		}
		if _, twice := all[l.Payload]; twice {
			f.t.Errorf("%s has two dead letters", l.Payload)
		}
		all[l.Payload] = l
	}
	return all
}

// wantDeadLetter fails the test unless a payload has a dead letter of a class whose error
// contains each of parts.
func (f *fleet) wantDeadLetter(payload, class string, parts ...string) {
	f.t.Helper()
	l, ok := f.deadLetters()[payload]
	if !ok || l.Meta.Class != class {
		f.t.Errorf("%s: the dead letter is %+v, want class %s\n%s", payload, l, class, f.transcripts())
		return
	}
	for _, part := range parts {
		if !strings.Contains(l.Meta.Step+": "+l.Meta.Message, part) {
			f.t.Errorf("%s: the dead letter has %+v, want %q in it", payload, l.Meta, part)
		}
	}
}

// hubState is a hub in the output of `flowd pool ls --json`.
type hubState struct {
	Pools []struct {
		Name     string
		Waiting  int
		InFlight int `json:"in_flight"`
		Members  []struct {
			Name, Version string
			Slots, Busy   int
		}
	}
}

// ls runs `flowd pool ls` with further arguments.
func (f *fleet) ls(args ...string) result {
	f.t.Helper()
	line := append([]string{binary, "pool", "ls", "--join", f.addr, "--token-file", "token"}, args...)
	if f.spaces != nil {
		line = f.spaces.inHub(line)
	}
	return command(f.t, f.dir, "", line[0], line[1:]...)
}

// state waits until the hub has the pool, and returns its state.
func (f *fleet) state() (s hubState) {
	f.t.Helper()
	f.eventually("the pool", func() bool {
		r := f.ls("--json")
		r.Want(f.t, 0)
		var all []hubState
		if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil || len(all) != 1 || len(all[0].Pools) > 1 {
			f.t.Fatalf("flowd pool ls --json prints %s%s: %v", r.Stdout, r.Stderr, err)
		}
		s = all[0]
		return len(s.Pools) == 1
	})
	return s
}

// waitForPool waits until the pool has these numbers of jobs. It does nothing if the slots are in the process.
func (f *fleet) waitForPool(waiting, inFlight int) {
	f.t.Helper()
	if !f.remote() {
		return
	}
	f.eventually(fmt.Sprintf("%d waiting and %d in flight", waiting, inFlight), func() bool {
		p := f.state().Pools[0]
		return p.Waiting == waiting && p.InFlight == inFlight
	})
}
