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
	for _, tt := range []struct{ inFlight, percent, limit int }{
		{0, 400, 64 << 20}, {64 << 20, 400, 128 << 20}, {128 << 20, 200, 256 << 20}, {1 << 30, 100, 2 << 30},
		{math.MaxInt, 100, 2 << 40},
	} {
		Set(tt.inFlight)
		if got := debug.SetMemoryLimit(-1); got != int64(tt.limit) {
			t.Errorf("with %d bytes in flight the limit is %d, want %d", tt.inFlight, got, tt.limit)
		}
		if got := debug.SetGCPercent(100); got != tt.percent {
			t.Errorf("with %d bytes in flight GOGC is %d, want %d", tt.inFlight, got, tt.percent)
		}
	}
}

// A limit below what is in use would make the process collect all the time.
func TestTheLimitIsNeverWhatAProcessWorksAgainst(t *testing.T) {
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
