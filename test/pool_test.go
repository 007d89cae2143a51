package test

import "testing"

// TestPool tests what users observe of a pool, with slots in the process, in other processes
// on this machine, and in network namespaces.
func TestPool(t *testing.T) {
	rows := []struct {
		name  string
		where location
		test  func(*fleet)
	}{
		{"jobs come back edited, with metadata", everywhere, (*fleet).edits},
		{"as many jobs run at once as there are slots", everywhere, (*fleet).atOnce},
		{"several jobs at once take as long as one", everywhere, (*fleet).asLongAsOne},
		{"failures come back with their class and are not retried", everywhere, (*fleet).failures},
		{"failures are retried if configured", everywhere, (*fleet).failuresAgain},
		{"an attempt that takes too long is stopped", everywhere, (*fleet).tooLong},
		{"order_by holds", everywhere, (*fleet).order},
		{"batches stay batches: merged", everywhere, (*fleet).merged},
		{"batches stay batches: split", everywhere, (*fleet).split},
		{"no more than max_pending jobs are with workers", everywhere, (*fleet).maxPending},
		{"the steps of a pool change", everywhere, (*fleet).changed},

		{"no worker: the message fails", elsewhere, (*fleet).noWorker},
		{"no worker: a worker that joins later does the job", elsewhere, (*fleet).workerAppears},
		{"workers start before the hub", elsewhere, (*fleet).workersFirst},
		{"the hub is killed and restarted", elsewhere, (*fleet).hubKilled},
		{"the hub is stopped and restarted", elsewhere, (*fleet).hubEnds},
		{"the hub is killed during a job", elsewhere, (*fleet).hubKilledDuringJob},
		{"jobs of a dead hub do not affect the next hub", elsewhere, (*fleet).jobOfADeadHub},
		{"an idle worker dies", elsewhere, (*fleet).idleDies},
		{"a busy worker dies", elsewhere, (*fleet).busyDies},
		{"the only worker dies", elsewhere, (*fleet).onlyOneDies},
		{"a lost job is not retried", elsewhere, (*fleet).lostForGood},
		{"a job is lost and there is no other worker", elsewhere, (*fleet).lostAlone},
		{"a busy worker is stopped", elsewhere, (*fleet).busyEnds},
		{"a worker is stopped while jobs wait", elsewhere, (*fleet).endsBeforeOthers},
		{"a worker has no time to finish", elsewhere, (*fleet).handsBack},
		{"workers come and go under load", elsewhere, (*fleet).comeAndGo},
		{"a link is cut for longer than the lease", elsewhere, (*fleet).longCut},
		{"a link is cut for a moment", elsewhere, (*fleet).shortCut},
		{"a worker has several hubs", onLoopback, (*fleet).severalHubs},
		{"connections are reset", onLoopback, (*fleet).resets},
		{"links are slow", elsewhere, (*fleet).slowLinks},
		{"the second attempt succeeds, and the first answers late", elsewhere, (*fleet).lateAnswer},
		{"a payload is too large", elsewhere, (*fleet).tooLarge},
		{"pool ls shows pools, workers and jobs", elsewhere, (*fleet).listed},
		{"a random worker is killed every second", elsewhere, (*fleet).storm},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, w := range []location{inProcess, onLoopback, inNamespaces} {
				if row.where&w == 0 {
					continue
				}
				t.Run(w.String(), func(t *testing.T) {
					t.Parallel()
					row.test(newFleet(t, w))
				})
			}
		})
	}
}
