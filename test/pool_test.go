package test

import "testing"

// TestPool is what users of a pool see, wherever its slots are: in the process, in
// processes on this machine, and in network namespaces.
func TestPool(t *testing.T) {
	rows := []struct {
		name  string
		where where
		test  func(*fleet)
	}{
		{"jobs come back edited, with metadata", everywhere, (*fleet).edits},
		{"as many jobs run at once as there are slots", everywhere, (*fleet).atOnce},
		{"several at once take as long as one", everywhere, (*fleet).asLongAsOne},
		{"failures come back typed and are not tried again", everywhere, (*fleet).failures},
		{"failures are tried again where that is asked for", everywhere, (*fleet).failuresAgain},
		{"a try that takes too long is stopped", everywhere, (*fleet).tooLong},
		{"order_by holds", everywhere, (*fleet).order},
		{"batches go as batches: merged", everywhere, (*fleet).merged},
		{"batches go as batches: split", everywhere, (*fleet).split},
		{"no more than max_pending are with workers", everywhere, (*fleet).maxPending},
		{"the steps of a pool change", everywhere, (*fleet).changed},

		{"no worker: the message fails", elsewhere, (*fleet).noWorker},
		{"no worker: one that appears does the job", elsewhere, (*fleet).workerAppears},
		{"workers are there before the hub", elsewhere, (*fleet).workersFirst},
		{"the hub is killed and comes back", elsewhere, (*fleet).hubKilled},
		{"the hub ends and comes back", elsewhere, (*fleet).hubEnds},
		{"the hub is killed during a job", elsewhere, (*fleet).hubKilledDuringJob},
		{"what is left of a hub does not touch jobs of the next", elsewhere, (*fleet).jobOfADeadHub},
		{"an idle worker dies", elsewhere, (*fleet).idleDies},
		{"a busy worker dies", elsewhere, (*fleet).busyDies},
		{"the only worker dies", elsewhere, (*fleet).onlyOneDies},
		{"a job is lost and not tried again", elsewhere, (*fleet).lostForGood},
		{"a job is lost and nobody else is there", elsewhere, (*fleet).lostAlone},
		{"a busy worker is told to end", elsewhere, (*fleet).busyEnds},
		{"a worker is told to end before jobs that wait", elsewhere, (*fleet).endsBeforeOthers},
		{"a worker has no time to finish", elsewhere, (*fleet).handsBack},
		{"workers come and go under load", elsewhere, (*fleet).comeAndGo},
		{"a link is cut for longer than the lease", elsewhere, (*fleet).longCut},
		{"a link is cut for a moment", elsewhere, (*fleet).shortCut},
		{"a worker has several hubs", onLoopback, (*fleet).severalHubs},
		{"connections are reset", onLoopback, (*fleet).resets},
		{"links are slow", elsewhere, (*fleet).slowLinks},
		{"the second try wins, and the first answers late", elsewhere, (*fleet).lateAnswer},
		{"a payload is too large", elsewhere, (*fleet).tooLarge},
		{"pool ls shows what there is", elsewhere, (*fleet).listed},
		{"a random worker is killed every second", elsewhere, (*fleet).storm},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, w := range []where{inProcess, onLoopback, inSpaces} {
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
