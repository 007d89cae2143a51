package cli

import (
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/google/go-cmp/cmp"
)

func TestASnapshotAsLines(t *testing.T) {
	const at = "input log, path a.log, line 17"
	got := stagesText(engine.Snapshot{
		Pipeline: "orders", State: engine.Running, Messages: 5, Bytes: 2048, MaxBytes: 4096, Lanes: 4, LanesBusy: 1,
		Waiting: 3, Retries: 2, OldestUnsettled: 1500 * time.Millisecond, OldestAt: at,
		Held: &engine.Held{At: at, For: "a retry of output lake", Err: "refused", Age: time.Second,
			Due: 3 * time.Second},
		Inputs: []engine.InputState{{Name: "log", State: "waiting", Received: 20}},
		Outputs: []engine.OutputState{{Name: "lake", Queued: 4, QueuedBytes: 1024, Writing: 1, Concurrency: 2,
			Written: 15, Failed: 1, Breaker: "open", Err: "refused"}},
	})
	want := `flowd: orders: running, 0 received, 5 in flight (2048 of 4096 bytes), oldest 1.5s, 3 waiting outside the queues, 2 of them for a retry
flowd: orders: input log: waiting, 20 read, 0 restarts
flowd: orders: oldest in flight: input log, path a.log, line 17
flowd: orders: oldest waiting: input log, path a.log, line 17, 1s old, for a retry of output lake, continues in 3s: refused
flowd: orders: lanes: 1 of 4 busy
flowd: orders: output lake: 4 queued (1024 bytes), 1 of 2 writes in flight, 15 written, 1 failed, breaker open: refused
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
