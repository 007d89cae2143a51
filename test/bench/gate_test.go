package main

import (
	"runtime"
	"testing"
	"time"
)

// These tests guard speed without a clock: they count heap objects, and compare CPU time with
// another program in the same run, with a wide margin.

// maxObjects limits the heap objects per message of a whole pipeline, by row. Limits are about
// twice the actual figures, so that another allocation per message in a hot loop fails.
var maxObjects = map[string]float64{
	"drop":        0.5,
	"copy":        0.5,
	"filter":      2,
	"stdin":       2,
	"map":         45,
	"generate":    5.5,
	"keyed":       20,
	"order":       4,
	"memory-file": 4,
}

func TestAllocationsOfPipelines(t *testing.T) {
	measured := 0
	for i := range rows {
		r := &rows[i]
		limit, ok := maxObjects[r.name]
		if !ok {
			continue
		}
		measured++
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w := testWorld(t)
			w.messages = 20_000
			got := w.allocs(r, &r.contestants[0])
			t.Logf("%.3f objects per message", got)
			if got <= 0 || got > limit {
				t.Errorf("got %.3f objects per message, want more than 0 and at most %v", got, limit)
			}
		})
	}
	if measured != len(maxObjects) {
		t.Errorf("measured %d rows, want %d: maxObjects names rows that do not exist", measured, len(maxObjects))
	}
}

// minCPURatio is how many times the CPU time of flowd a loop around encoding/json must take for
// the row filter. flowd is far faster, so only a serious regression fails.
const minCPURatio = 1.5

func TestFlowdTakesLessCPUThanEncodingJSON(t *testing.T) {
	t.Parallel()
	const few, many, rounds = 1000, 20_000, 3
	w := testWorld(t)
	w.messages = many
	cost := func(name string) time.Duration {
		for i := range rows {
			for j := range rows[i].contestants {
				c := &rows[i].contestants[j]
				if rows[i].name != "filter" || c.name != name {
					continue
				}
				spent := func(n int) time.Duration {
					s, err := runFiles(w, &rows[i], c, n, false)
					if err != nil {
						t.Fatal(err)
					}
					return s.CPU
				}
				return spent(many) - spent(few) // without startup
			}
		}
		t.Fatalf("row filter has no %s", name)
		return 0
	}
	// Other processes can only add to CPU time, so the minimum is the best estimate.
	flowd, byHand := time.Hour, time.Hour
	for range rounds {
		flowd, byHand = min(flowd, cost("flowd")), min(byHand, cost("encoding/json"))
	}
	t.Logf("flowd %v, encoding/json %v", flowd, byHand)
	if float64(flowd)*minCPURatio > float64(byHand) {
		t.Errorf("flowd took %v and encoding/json %v, want at most 1/%v of that", flowd, byHand, minCPURatio)
	}
}

// mostAtRest limits the anonymous memory of an idle flowd, in bytes.
const mostAtRest = 10 << 20

func TestMemoryAtRest(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skipf("the limit applies to linux/amd64 only: on %s/%s, pages are larger or can't be counted", runtime.GOOS,
			runtime.GOARCH)
	}
	w := testWorld(t)
	for i := range rows {
		if r := &rows[i]; r.name == "memory-idle" {
			s, err := runIdle(w, r, &r.contestants[0], 1, true)
			if err != nil {
				t.Fatal(err)
			}
			if t.Logf("%.1f MiB", float64(s.Peak)/(1<<20)); s.Peak == 0 || s.Peak > mostAtRest {
				t.Errorf("%d bytes of anonymous memory at rest, want more than 0 and at most %d", s.Peak, mostAtRest)
			}
			return
		}
	}
	t.Fatal("row memory-idle does not exist")
}
