// Package idle measures what pipelines keep that have nothing to do.
package idle

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/flowd-io/flowd/batchers"
	"github.com/flowd-io/flowd/config"
	"github.com/flowd-io/flowd/engine"
	_ "github.com/flowd-io/flowd/inputs"
	_ "github.com/flowd-io/flowd/outputs"
	_ "github.com/flowd-io/flowd/processors"
)

const (
	pipelines = 1000
	most      = 300 << 10 // bytes of each; about 220,000 is what it is
)

const pipeline = `
inputs:
  ticks: {generate: {interval: 24h, body: '{"n": counter()}'}}
processors:
  - filter: n >= 0
  - set: {next: n + 1}
batchers:
  few: {batch: {size: 100, timeout: 1s}, output: out}
outputs:
  out: {drop: {}}
`

// A thousand pipelines, each of which has had one message and waits for the next,
// have a share of memory each that no block for reading fits into.
func TestIdlePipelinesKeepLittle(t *testing.T) {
	dir := t.TempDir()
	for i := range pipelines {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("p%d.yaml", i)), []byte(pipeline), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		before := inUse()
		set, problems := config.Load([]string{dir}, config.Options{Log: slog.New(slog.DiscardHandler)})
		if len(problems) > 0 || len(set.Pipelines) != pipelines {
			t.Fatalf("%d pipelines, problems %v", len(set.Pipelines), problems)
		}
		stop, end := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, p := range set.Pipelines {
			running.Go(func() {
				if r := p.Plan.Run(stop, t.Context()); r.Err != nil || r.Stats.Roots.Ended[engine.Delivered] != 1 {
					t.Errorf("run: %d messages delivered, error %v", r.Stats.Roots.Ended[engine.Delivered], r.Err)
				}
			})
		}
		time.Sleep(time.Minute) // virtual: the batches have left by then
		synctest.Wait()
		after := inUse()
		if each := int64(after-before) / pipelines; each > most {
			t.Errorf("an idle pipeline keeps %d bytes, want at most %d", each, most)
		} else {
			t.Logf("an idle pipeline keeps %d bytes", each)
		}
		end()
		running.Wait()
		runtime.KeepAlive(set)
	})
}

// inUse is what heap and stacks take.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
