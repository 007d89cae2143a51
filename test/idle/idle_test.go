// Package idle measures the memory of idle pipelines.
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
	most      = 300 << 10 // bytes per pipeline; the actual figure is about 220,000
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

// Each pipeline has processed one message and waits for the next. The limit is too small for
// a pipeline that keeps its read buffers.
func TestMemoryOfIdlePipelines(t *testing.T) {
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
		time.Sleep(time.Minute) // virtual time, until the batches have been sent
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

// inUse returns the memory of heap and stacks.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // the second collection empties sync.Pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
