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
		{"jobs come back edited, with metadata", everywhere, (*fleet).editedMessages},
		{"as many jobs run at once as there are slots", everywhere, (*fleet).simultaneousJobs},
		{"several jobs at once take as long as one", everywhere, (*fleet).parallelJobs},
		{"failures come back with their class and are not retried", everywhere, (*fleet).failures},
		{"failures are retried if configured", everywhere, (*fleet).retriedFailures},
		{"an attempt that takes too long is stopped", everywhere, (*fleet).timeouts},
		{"order_by holds", everywhere, (*fleet).keepsOrder},
		{"batches stay batches: merged", everywhere, (*fleet).mergedBatches},
		{"batches stay batches: split", everywhere, (*fleet).splitBatches},
		{"no more than max_pending jobs are with workers", everywhere, (*fleet).maxPending},
		{"the steps of a pool change", everywhere, (*fleet).stepsChange},

		{"no worker: the message fails", elsewhere, (*fleet).noWorker},
		{"no worker: a worker that joins later does the job", elsewhere, (*fleet).workerAppears},
		{"workers start before the hub", elsewhere, (*fleet).workersFirst},
		{"the hub is killed and restarted", elsewhere, (*fleet).hubKilled},
		{"the hub is stopped and restarted", elsewhere, (*fleet).hubStopped},
		{"the hub is killed during a job", elsewhere, (*fleet).hubKilledDuringJob},
		{"jobs of a dead hub do not affect the next hub", elsewhere, (*fleet).jobOfADeadHub},
		{"an idle worker dies", elsewhere, (*fleet).idleWorkerDies},
		{"a busy worker dies", elsewhere, (*fleet).busyWorkerDies},
		{"the only worker dies", elsewhere, (*fleet).onlyWorkerDies},
		{"a lost job is not retried", elsewhere, (*fleet).lostJobIsNotRetried},
		{"a job is lost and there is no other worker", elsewhere, (*fleet).lostJobWithoutWorkers},
		{"a busy worker is stopped", elsewhere, (*fleet).busyWorkerStopped},
		{"a worker is stopped while jobs wait", elsewhere, (*fleet).stoppedWhileJobsWait},
		{"a worker has no time to finish", elsewhere, (*fleet).returnsUnfinishedJobs},
		{"workers come and go under load", elsewhere, (*fleet).workersComeAndGo},
		{"a link is cut for longer than the lease", elsewhere, (*fleet).longDisconnect},
		{"a link is cut for a moment", elsewhere, (*fleet).shortDisconnect},
		{"a worker has several hubs", onLoopback, (*fleet).severalHubs},
		{"connections are reset", onLoopback, (*fleet).resets},
		{"links are slow", elsewhere, (*fleet).slowLinks},
		{"the second attempt succeeds, and the first answers late", elsewhere, (*fleet).lateAnswer},
		{"a payload is too large", elsewhere, (*fleet).tooLarge},
		{"pool ls shows pools, workers and jobs", elsewhere, (*fleet).poolLs},
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
