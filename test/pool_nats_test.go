package test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsAddress is a variable that makes the test binary run a NATS server at this address, with
// its files in the current directory.
const natsAddress = "FLOWD_TEST_NATS"

// serveNATS runs a NATS server with JetStream until SIGTERM.
func serveNATS(addr string) {
	host, text, _ := net.SplitHostPort(addr)
	port, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{Host: host, Port: port, JetStream: true, StoreDir: "nats", NoSigs: true,
		NoLog: true})
	if err != nil {
		panic(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	s.Start()
	if s.ReadyForConnections(deadline) {
		fmt.Fprintln(os.Stderr, "ready")
	}
	<-signals
	s.Shutdown()
	s.WaitForShutdown()
}

// onNATS is a fleet whose jobs are in an external NATS server.
func onNATS(t *testing.T) *fleet {
	t.Helper()
	f := newFleet(t, onLoopback)
	f.addr = "nats://" + freeAddress(t)
	f.startNATS()
	return f
}

func (f *fleet) startNATS() {
	f.t.Helper()
	self, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	f.nats = startAs(f.t, f.dir, "env", natsAddress+"="+strings.TrimPrefix(f.addr, "nats://"), self)
	f.nats.Says("ready")
}

// jobStream returns the stream with the pool's jobs.
func (f *fleet) jobStream() (jetstream.JetStream, jetstream.Stream) {
	f.t.Helper()
	nc, err := nats.Connect(f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		f.t.Fatal(err)
	}
	stream, err := js.Stream(f.t.Context(), "flowd-embed")
	if err != nil {
		f.t.Fatal(err)
	}
	return js, stream
}

// waitForJobs waits until the queue has the given number of jobs.
func (f *fleet) waitForJobs(s jetstream.Stream, jobs uint64) {
	f.t.Helper()
	f.eventually(fmt.Sprintf("%d jobs in the queue", jobs), func() bool {
		info, err := s.Info(f.t.Context())
		return err == nil && info.State.Msgs == jobs
	})
}

// startSecondHub starts another hub with the same server and pool.
func (f *fleet) startSecondHub(p pipeline) *fleet {
	f.t.Helper()
	other := newFleet(f.t, onLoopback)
	other.addr, other.nats = f.addr, f.nats
	other.serve(p)
	return other
}

// TestPoolOnNATS tests what users observe of a pool whose jobs are in an external NATS server.
func TestPoolOnNATS(t *testing.T) {
	for _, row := range []struct {
		name string
		test func(*fleet)
	}{
		{"the server is killed, and loses its data", func(f *fleet) { f.natsRestarts("memory", syscall.SIGKILL) }},
		{"the server stops, and loses its data", func(f *fleet) { f.natsRestarts("memory", syscall.SIGTERM) }},
		{"the server is killed, and keeps its files", func(f *fleet) { f.natsRestarts("file", syscall.SIGKILL) }},
		{"the stream is purged", func(f *fleet) {
			f.damageQueue(func(ctx context.Context, _ jetstream.JetStream, s jetstream.Stream) error { return s.Purge(ctx) })
		}},
		{"the stream is deleted", func(f *fleet) {
			f.damageQueue(func(ctx context.Context, js jetstream.JetStream, _ jetstream.Stream) error {
				return js.DeleteStream(ctx, "flowd-embed")
			})
		}},
		{"the server delivers no jobs to workers", (*fleet).natsStalls},
		{"one of two hubs is killed", (*fleet).hubDiesBesideAnother},
		{"a hub is killed during a job that never ends", (*fleet).hubDiesDuringAJob},
		{"a hub is silent for longer than its lease", (*fleet).hubSilent},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.test(onNATS(t))
		})
	}
}

// natsRestarts restarts the server three times while jobs run.
func (f *fleet) natsRestarts(store string, s syscall.Signal) {
	const n = 3000
	f.serveWithWorkers(2, pipeline{
		input: fmt.Sprintf("{generate: {count: %d, body: '{n: counter()}'}}", n), do: "{sleep: 5ms}",
		pool: "lease: 1s, retries: -1, max_pending: 1000", cluster: "store: " + store,
		rest: "outputs: {out: {file: {path: out}}}\n",
	}, "--slots", "4")
	for round := range 3 {
		f.eventually("some are done", func() bool { return len(f.delivered()) > n/4*(round+1) })
		f.nats.Signal(s)
		f.nats.Wait()
		f.startNATS()
	}
	f.hub.Wait().Want(f.t, 0, "3,000 received: 3,000 delivered")
	got := f.delivered()
	slices.Sort(got)
	if once := len(slices.Compact(got)); once != n || len(got) != n {
		f.t.Errorf("%d messages were delivered, %d of them different, want each of %d once", len(got), once, n)
	}
	f.leave(f.workers...)
}

// damageQueue calls do while jobs wait in the queue, and again while the queue is empty.
func (f *fleet) damageQueue(do func(context.Context, jetstream.JetStream, jetstream.Stream) error) {
	f.serve(pipeline{pool: "retries: 0"})
	f.eventually("a queue", func() bool { return strings.Contains(f.ls().Stdout, "embed of p") })
	js, stream := f.jobStream()
	f.hub.Send(numbers(1, 20))
	f.waitForJobs(stream, 20)
	if err := do(f.t.Context(), js, stream); err != nil {
		f.t.Fatal(err)
	}
	f.join(1, "--slots", "4")
	f.readLines(20)
	if err := do(f.t.Context(), js, stream); err != nil {
		f.t.Fatal(err)
	}
	f.hub.Send(numbers(21, 24))
	f.finish(21, 24, f.workers...)
	f.wantRuns(24, nil)
}

// natsStalls pauses the queue's consumers, so that free workers get no jobs.
func (f *fleet) natsStalls() {
	f.serveWithWorkers(1, pipeline{service: "listen: \"127.0.0.1:0\""})
	_, at, _ := strings.Cut(f.hub.Says("admin API listening"), "address=")
	at, _, _ = strings.Cut(at, " ")
	ready := func() (code int, text string) {
		r, err := http.Get("http://" + at + "/ready")
		if err != nil {
			f.t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			f.t.Fatal(err)
		}
		return r.StatusCode, string(body)
	}
	_, stream := f.jobStream()
	for name := range stream.ConsumerNames(f.t.Context()).Name() {
		if _, err := stream.PauseConsumer(f.t.Context(), name, time.Now().Add(time.Hour)); err != nil {
			f.t.Fatal(err)
		}
	}
	f.hub.Send("1\n")
	if code, text := ready(); code != http.StatusOK {
		f.t.Errorf("/ready fails at once: %s", text)
	}
	f.eventually("/ready fails", func() bool { code, _ := ready(); return code == http.StatusServiceUnavailable })
	if _, text := ready(); !strings.Contains(text, "pool_stalled") || !strings.Contains(text, "step far") ||
		!strings.Contains(text, "does not give them to the workers") {
		f.t.Errorf("/ready answers %s", text)
	}
	f.hub.Says("jobs wait although workers of the pool are free")
	for name := range stream.ConsumerNames(f.t.Context()).Name() {
		if _, err := stream.ResumeConsumer(f.t.Context(), name); err != nil {
			f.t.Fatal(err)
		}
	}
	f.hub.Send("2\n") // the server delivers waiting jobs when another arrives
	f.readLines(2)
	f.eventually("/ready succeeds again", func() bool { code, _ := ready(); return code == http.StatusOK })
	f.finish(1, 0, f.workers...)
}

// hubDiesBesideAnother kills one of two hubs. Its jobs must not delay the other's, even before its lease expires.
func (f *fleet) hubDiesBesideAnother() {
	f.serveWithWorkers(1, pipeline{pool: "lease: 1h", do: "{sleep: 5ms}"}, "--slots", "2")
	other := f.startSecondHub(pipeline{pool: "lease: 1h", do: "{sleep: 5ms}"})
	other.waitForWorker(f.workers[0])
	f.hub.Send(numbers(1, 1000))
	f.readLines(50)
	f.kill(f.hub)
	other.hub.Send(numbers(1, 50))
	other.finish(1, 50)
	f.leave(f.workers...)
}

// hubDiesDuringAJob kills a hub, which can't report that its job has timed out.
func (f *fleet) hubDiesDuringAJob() {
	f.startBusyWorker(1, "timeout: 500ms, retries: -1")
	f.kill(f.hub)
	other := f.startSecondHub(pipeline{do: "{set: {done: true}}"})
	other.waitForWorker(f.workers[0])
	other.hub.Send("{}\n")
	if got, want := other.hub.Line(), `{"done":true}`; got != want {
		f.t.Errorf("got %s on stdout, want %s", got, want)
	}
	other.endHub(0, 1, 0)
	f.leave(f.workers...)
}

// hubSilent suspends a hub for longer than its lease. Its jobs are set aside, and done when it is back.
func (f *fleet) hubSilent() {
	f.serveWithWorkers(1, pipeline{pool: "lease: 500ms, retries: -1", do: "{sleep: 10ms}"}, "--slots", "2")
	_, stream := f.jobStream()
	f.hub.Send(numbers(1, 500))
	got := f.readLines(50)
	f.hub.Signal(syscall.SIGSTOP)
	f.workers[0].Says("its jobs are set aside")
	f.eventually("the queue is almost empty", func() bool {
		info, err := stream.Info(f.t.Context())
		return err == nil && info.State.Msgs < 20 // a few results are kept for the hub
	})
	f.hub.Signal(syscall.SIGCONT)
	got = append(got, f.readLines(450)...)
	slices.SortFunc(got, byNumber)
	if want := strings.Fields(numbers(1, 500)); !slices.Equal(got, want) {
		f.t.Errorf("got %q on stdout, want %q", got, want)
	}
	f.finish(1, 0, f.workers...)
}
