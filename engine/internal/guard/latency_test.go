package guard

import (
	"math"
	"testing"
	"time"
)

func TestLatenciesAreCountedInBothKindsOfBuckets(t *testing.T) {
	var h Latency
	for _, x := range []struct {
		d time.Duration
		n int
	}{{-time.Second, 1}, {0, 2}, {time.Nanosecond, 3}, {time.Millisecond, 4}, {time.Second, 5}, {1100 * time.Millisecond, 6},
		{1000 * time.Hour, 7}, {math.MaxInt64, 8}} {
		h.Add(x.d, x.n)
	}
	got := h.Read()
	if got.Count != 36 {
		t.Errorf("%d observations, want 36", got.Count)
	}
	for i, want := range map[int]uint64{0: 1 + 2 + 3 + 4, 6: 5, 7: 6, len(got.Counts) - 1: 7 + 8} {
		if got.Counts[i] != want {
			t.Errorf("bucket %d has %d, want %d", i, got.Counts[i], want)
		}
	}
	var sum int64
	for i, n := range got.Native {
		sum += n
		if low, high := math.Exp2(float64(i-1)/8), math.Exp2(float64(i)/8); n == 4 && (low >= 0.001 || high < 0.001) {
			t.Errorf("1 ms is in the bucket from %v to %v", low, high)
		}
	}
	if sum != 36 || got.Native[0] != 5 || got.Native[2] != 6 || got.Native[firstNative] != 6 || got.Native[lastNative] != 8 {
		t.Errorf("native buckets: %v", got.Native)
	}
	if len(got.Counts) != len(got.Bounds)+1 {
		t.Errorf("%d counts for %d bounds", len(got.Counts), len(got.Bounds))
	}
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Second, 1) }); n > 0 {
		t.Errorf("Add allocates %v times", n)
	}
}

func TestNativeBucketsHoldTheirValues(t *testing.T) {
	for d := time.Duration(8_000); d < 1<<53; d += d/97 + 1 {
		v := d.Seconds()
		i := nativeBucket(v)
		if low, high := math.Exp2(float64(i-1)/perDoubling), math.Exp2(float64(i)/perDoubling); v <= low*(1-1e-12) || v > high*(1+1e-12) {
			t.Errorf("%v is in bucket %d, which is for values above %v, up to %v", d, i, low, high)
		}
	}
}
