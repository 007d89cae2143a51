package headroom

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestTheHeapGrowsByWhatMayBeInFlight(t *testing.T) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		t.Fatal("unset GOGC and GOMEMLIMIT: they replace what is tested here")
	}
	within(t, files())
	for _, tt := range []struct{ inFlight, percent, limit int }{
		{0, 400, 64 << 20}, {64 << 20, 400, 128 << 20}, {128 << 20, 200, 256 << 20}, {1 << 30, 100, 2 << 30},
		{math.MaxInt, 100, 2 << 40},
	} {
		Set(tt.inFlight)
		if got := debug.SetMemoryLimit(-1); got != int64(tt.limit) {
			t.Errorf("with %d bytes in flight the limit is %d, want %d", tt.inFlight, got, tt.limit)
		}
		if got := growth(percent(tt.inFlight), 1<<30); got != tt.percent {
			t.Errorf("with %d bytes in flight GOGC is %d, want %d", tt.inFlight, got, tt.percent)
		}
	}
}

// A heap that follows a live heap of a few MiB up and down would be returned to the system and faulted in all the time.
func TestASmallLiveHeapLeavesRoomForAConstantAmountOfGarbage(t *testing.T) {
	for live := leastHeap; live <= 16<<20; live += 1 << 18 {
		goal := live * growth(100, live) / 100
		if off := goal - max(live, leastGarbage); off > 0 || off < -leastGarbage/20 {
			t.Errorf("with a live heap of %d bytes there is room for %d bytes of garbage", live, goal)
		}
	}
	Set(0)
	keep := make([]byte, 5<<20)
	runtime.GC()
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}}
	for range 100 { // until the cleanup has run, which each collection starts
		metrics.Read(sample)
		if got := int(sample[0].Value.Uint64()*sample[1].Value.Uint64()) / 100; got > leastGarbage*3/4 && got < leastGarbage*5/4 {
			return
		}
		runtime.GC()
	}
	runtime.KeepAlive(keep)
	t.Errorf("GOGC is %d with %d bytes in use", sample[0].Value.Uint64(), sample[1].Value.Uint64())
}

// A limit below what is in use would make the process collect all the time.
func TestTheLimitIsNeverWhatAProcessWorksAgainst(t *testing.T) {
	within(t, files())
	Set(1 << 20)
	keep := make([]byte, 200<<20)
	runtime.GC()
	room := func() int {
		s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		return int(s[0].Value.Uint64()) - int(s[1].Value.Uint64())
	}
	for range 100 { // until the cleanup has run, which each collection starts
		if runtime.Gosched(); room() > 90<<20 {
			break
		}
		runtime.GC()
	}
	if got := room(); got < 90<<20 {
		t.Errorf("with 200 MiB in use a collection is due after %d bytes, want about half as much", got)
	}
	runtime.KeepAlive(keep)
	keep = nil
	for range 100 {
		if runtime.GC(); debug.SetMemoryLimit(-1) == leastLimit {
			return
		}
	}
	t.Errorf("the limit is still %d after the memory was released, want %d", debug.SetMemoryLimit(-1), leastLimit)
}

func TestUsersDecide(t *testing.T) {
	within(t, files())
	Set(0)
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, "off")
			if Set(1 << 30); debug.SetMemoryLimit(-1) != leastLimit {
				t.Errorf("%s is set, but the limit is now %d", name, debug.SetMemoryLimit(-1))
			}
		})
	}
}
