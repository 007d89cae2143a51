package stage

import (
	"testing"
	"time"
)

func TestLanesThatWorkWithoutAResultAreNoticed(t *testing.T) {
	const s = time.Second
	start := time.Unix(1000, 0)
	type look struct {
		after time.Duration
		mark  int64
		busy  bool
		since time.Duration // age of the stuck call that is reported; negative: none
	}
	tests := []struct {
		name  string
		looks []look
	}{
		{"busy, and messages end", []look{{0, 1, true, -1}, {60 * s, 2, true, -1}, {120 * s, 3, true, -1}, {180 * s, 4, true, -1}}},
		{"idle, and nothing ends", []look{{0, 1, false, -1}, {200 * s, 1, false, -1}, {400 * s, 1, false, -1}}},
		{"busy, and nothing ends", []look{{0, 1, true, -1}, {100 * s, 1, true, -1}, {101 * s, 1, true, 0}, {200 * s, 1, true, 0}}},
		{"a rest in between", []look{{0, 1, true, -1}, {90 * s, 1, false, -1}, {180 * s, 1, true, -1}, {191 * s, 1, true, 90 * s}}},
		{"it goes on in the end", []look{{0, 1, true, -1}, {150 * s, 1, true, 0}, {160 * s, 2, true, -1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := progress{patience: 100 * s}
			for _, l := range tt.looks {
				want := int64(0)
				if l.since >= 0 {
					want = start.Add(l.since).UnixNano()
				}
				if got := p.look(l.mark, l.busy, start.Add(l.after)); got != want {
					t.Errorf("after %v: since %d, want %d", l.after, got, want)
				}
			}
		})
	}
}
