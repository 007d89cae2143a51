package headroom

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestTheHeapGrowsByHeadroomBetweenCollections(t *testing.T) {
	if chosen() {
		t.Fatal("unset GOGC and GOMEMLIMIT: they take the place of what is tested here")
	}
	if room := left(t); room < headroom {
		t.Errorf("the first collection is due after %d bytes, want %d or more", room, headroom)
	}
	release := Leave()
	nested := Leave()
	runtime.GC()
	collected(measure()) // as the cleanup has it soon
	for _, used := range []int{0, 40 << 20} {
		keep := make([]byte, used)
		runtime.GC()
		room := left(t)
		// Where little else is done, as here, it may be up to three times as much.
		if least, most := headroom+used/4, mostTimes*headroom+(used+8<<20)/4; room < least || room > most {
			t.Errorf("with %d bytes in use, a collection is due after %d bytes, want %d to %d", used, room, least, most)
		}
		runtime.KeepAlive(keep)
	}
	nested()
	nested()
	if was := debug.SetGCPercent(growth); was < growth || was > usual {
		t.Errorf("GOGC is %d while room is left, want %d to %d", was, growth, usual)
	}
	release()
	if was := debug.SetGCPercent(usual); was != usual {
		t.Errorf("GOGC is %d when no room is left, want %d", was, usual)
	}
}

// TestTheHeapGrowsMoreWhereBlocksAreUnpacked, and as before when that has ended.
func TestTheHeapGrowsMoreWhereBlocksAreUnpacked(t *testing.T) {
	defer Leave()()
	room := func() int {
		runtime.GC()
		collected(measure())
		return left(t)
	}
	release := Blocks()
	if got := room(); got < blocksTimes*headroom-1<<20 { // the growth is in whole percents
		t.Errorf("a collection is due after %d bytes, want about %d", got, blocksTimes*headroom)
	}
	release()
	release()
	if got := room(); got > mostTimes*headroom+(8<<20)/4 {
		t.Errorf("a collection is due after %d bytes when nothing is unpacked any more, want %d at most", got,
			mostTimes*headroom)
	}
}

// TestTheHeapGrowsMoreWhereCollectionsTakeMuch has some that do, and then some that do not.
func TestTheHeapGrowsMoreWhereCollectionsTakeMuch(t *testing.T) {
	times, mean := 1, middle
	for _, tt := range []struct {
		times int
		part  float64
		want  int
	}{{1, 0.25, 1}, {100, 0.06, 1}, {3, 0.2, 2}, {100, 0.2, 3}, {100, 0.05, 3}, {1, 0, 3}, {100, 0.01, 1}} {
		for range tt.times {
			times, mean = next(times, mean, tt.part)
		}
		if times != tt.want {
			t.Errorf("after %d collections that are %v of the work: %d times, want %d", tt.times, tt.part, times, tt.want)
		}
	}
}

// left is by how many bytes the heap may grow until it is collected.
func left(t *testing.T) int {
	t.Helper()
	s := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64()) - int(s[1].Value.Uint64())
}
