package poll

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/google/go-cmp/cmp"
)

func TestSourcesShowTheirStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, empty, broken := numbered("full", 10), newQueue("empty"), newQueue("broken")
		broken.fails = []error{errors.New("no route")}
		broken.opens = []error{nil, errors.New("still no route"), errors.New("still no route"), errors.New("still no route")}
		in := running(t, pollOf(t, weighted, time.Minute, weights{{full, 3}, {empty, 1}, {broken, 1}}))
		for n := 0; n < 10; {
			n += len(read(t, in, 100))
		}
		synctest.Wait()
		got := in.Sources()
		for i := range got {
			if got[i].Name == "empty" && got[i].Due.Before(time.Now().Add(time.Second)) {
				t.Errorf("the empty source is due at %s", got[i].Due)
			}
			got[i].Due = time.Time{}
		}
		want := []engine.SourceState{
			{Name: "broken", State: "restarting", Weight: 1, Err: "no route"},
			{Name: "full", State: "reading", Weight: 3, Received: 10, InFlight: 10},
			{Name: "empty", State: "empty", Weight: 1},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sources (-want +got):\n%s", diff)
		}
	})
}
