package runtime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/schema"
	"github.com/google/go-cmp/cmp"
)

// scheduled waits for a time, and reads two sources.
type scheduled struct {
	*Source
	at time.Time
}

func (s scheduled) Due() time.Time { return s.at }
func (scheduled) Sources() []engine.SourceState {
	return []engine.SourceState{{Name: "a", State: "failed", Err: "no route"}, {Name: "b", State: "empty"}}
}

func TestASnapshotShowsEdgesInstancesAndSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Hour)
		p := pipe(unread(), &Sink{})
		p.Inputs = Named("in", engine.InputSpec{Concurrency: 2, Use: engine.Use(func(env engine.Env) (engine.Input, error) {
			if env.Index == 1 {
				return &Source{Fail: errors.New("refused")}, nil
			}
			return scheduled{unread(), at}, nil
		})})
		p.Outputs = schema.MapOf(schema.Entry[engine.OutputSpec]{Key: "out", Value: (&Sink{}).Output()},
			schema.Entry[engine.OutputSpec]{Key: "dead", Value: (&Sink{}).Output()})
		p.Engine.OnFailure.DeadLetter = "dead"
		plan := Build(t, p)
		stop, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); plan.Run(stop, context.Background()) }()
		synctest.Wait()
		s := plan.Snapshot()
		edges := []engine.Edge{{From: "input in", To: "output out"}, {From: "output out", To: "output dead", Failed: true}}
		if diff := cmp.Diff(edges, s.Edges); diff != "" {
			t.Errorf("edges (-want +got):\n%s", diff)
		}
		in := s.Inputs[0]
		instances := []engine.InstanceState{{State: "reading"}, {State: "restarting", Restarts: 1, Err: "refused"}}
		if diff := cmp.Diff(instances, in.Instances); diff != "" {
			t.Errorf("instances (-want +got):\n%s", diff)
		}
		if !in.Due.Equal(at) || len(in.Sources) != 2 || in.Sources[0].Err != "no route" {
			t.Errorf("due %s, sources %+v", in.Due, in.Sources)
		}
		cancel()
		<-done
	})
}
