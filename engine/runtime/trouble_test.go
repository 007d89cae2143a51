package runtime_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/engine/runtime"
)

// ill is a cache that reports a trouble.
type ill struct{ engine.Cache }

func (ill) Trouble() *engine.Trouble { return &engine.Trouble{Indicator: "ill", Cause: "fever"} }

func TestTheTroubleOfACacheIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := &Source{Payloads: numbers(10), Takes: engine.TakesOne, PerRead: 1, Every: time.Second}
		p := pipe(src, &Sink{}, engine.StepSpec{Use: engine.Use(func(env engine.Env) (engine.Processor, error) {
			_, err := env.Cache("seen")
			return engine.ProcessorFunc(func(context.Context, *engine.Message) error { return nil }), err
		})})
		plan, problems := runtime.Build(p, runtime.Options{Caches: map[string]engine.Plugin[engine.Cache]{
			"seen": engine.Use(func(engine.Env) (engine.Cache, error) { return ill{}, nil }),
		}})
		if plan == nil {
			t.Fatal(problems)
		}
		done := make2(plan)
		time.Sleep(time.Second)
		all := plan.Snapshot().Troubles
		if len(all) != 1 || all[0].Place != "cache seen" || all[0].Cause != "fever" {
			t.Errorf("got %+v", all)
		}
		<-done
	})
}
