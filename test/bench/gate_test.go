package main

import (
	"runtime"
	"testing"
	"time"
)

// These hold speed where a clock can't: objects are counted, and CPU time is compared
// with that of another program in the same run, with much room.

// atMost is how many heap objects a message may cost in a whole pipeline, about twice
// what it does: one more allocation per message in a hot loop fails.
var atMost = map[string]float64{
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
		limit, ok := atMost[r.name]
		if !ok {
			continue
		}
		measured++
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w := testWorld(t)
			w.messages = 20_000
			got := w.allocs(r, &r.contestants[0])
			t.Logf("%.3f objects a message", got)
			if got <= 0 || got > limit {
				t.Errorf("%.3f objects a message, want more than none and at most %v", got, limit)
			}
		})
	}
	if measured != len(atMost) {
		t.Errorf("%d rows were measured, the table has %d", measured, len(atMost))
	}
}

// least is how many times less CPU than a loop around encoding/json flowd has to take
// for filter and two fields. It takes far less; what fails here is slow by any measure.
const least = 1.5

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
					s, err := files(w, &rows[i], c, n, false)
					if err != nil {
						t.Fatal(err)
					}
					return s.CPU
				}
				return spent(many) - spent(few) // without the start
			}
		}
		t.Fatalf("row filter has no %s", name)
		return 0
	}
	// Whatever else runs only adds to CPU time, so the least of some turns is nearest.
	flowd, byHand := time.Hour, time.Hour
	for range rounds {
		flowd, byHand = min(flowd, cost("flowd")), min(byHand, cost("encoding/json"))
	}
	t.Logf("flowd %v, encoding/json %v", flowd, byHand)
	if float64(flowd)*least > float64(byHand) {
		t.Errorf("flowd takes %v for what encoding/json takes %v for, want %v times less", flowd, byHand, least)
	}
}

// mostAtRest is how much anonymous memory flowd may have when nothing happens, in bytes.
const mostAtRest = 10 << 20

func TestMemoryAtRest(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skipf("the limit is one of linux/amd64: pages are larger elsewhere, or can't be counted on %s", runtime.GOOS)
	}
	w := testWorld(t)
	for i := range rows {
		if r := &rows[i]; r.name == "memory-idle" {
			s, err := idle(w, r, &r.contestants[0], 1, true)
			if err != nil {
				t.Fatal(err)
			}
			if t.Logf("%.1f MiB", float64(s.Peak)/(1<<20)); s.Peak == 0 || s.Peak > mostAtRest {
				t.Errorf("%d bytes of anonymous memory at rest, want more than none and at most %d", s.Peak, mostAtRest)
			}
			return
		}
	}
	t.Fatal("there is no row memory-idle")
}
