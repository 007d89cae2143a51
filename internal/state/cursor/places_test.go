package cursor

import (
	"log/slog"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/state/checkpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle(t *testing.T, p *Places[int], fate engine.Fate, refs ...uint64) {
	t.Helper()
	var rs []engine.Result
	for _, ref := range refs {
		rs = append(rs, engine.Result{Ref: ref, Fate: fate})
	}
	if _, err := p.Ack(t.Context(), rs); err != nil {
		t.Fatal(err)
	}
}

// kept opens a checkpoint and gives the state in it; 0: there is none.
func kept(t *testing.T, p *Places[int], path string) int {
	t.Helper()
	first, err := p.Keep(checkpoint.Config[int]{Path: path, Kind: "test", Owner: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if first == nil {
		return 0
	}
	return *first
}

func left(t *testing.T, p *Places[int]) {
	t.Helper()
	if err := p.Leave(); err != nil {
		t.Fatal(err)
	}
}

func TestAStateIsSavedOnceAllBeforeItAreSettled(t *testing.T) {
	tests := []struct {
		name             string
		settled, goBacks []uint64 // of ten messages, with a state after every second one
		want             int
	}{
		{"nothing is settled", nil, nil, 0},
		{"half of what comes before", []uint64{0}, nil, 0},
		{"all that comes before", []uint64{0, 1}, nil, 1},
		{"a gap", []uint64{0, 1, 3, 4, 5}, nil, 1},
		{"in any order", []uint64{5, 4, 3, 1, 2, 0}, nil, 3},
		{"what was returned is not settled", []uint64{0, 1, 3}, []uint64{2}, 1},
		{"all", []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, nil, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c")
			var p, again Places[int]
			kept(t, &p, path)
			for i := range 5 {
				p.Read(2)
				p.Mark(i + 1)
			}
			settle(t, &p, engine.Delivered, tt.settled...)
			settle(t, &p, engine.Returned, tt.goBacks...)
			left(t, &p)
			if got := kept(t, &again, path); got != tt.want {
				t.Errorf("got state %d, want %d", got, tt.want)
			}
			left(t, &again)
		})
	}
}

func TestAStateWithoutMessagesIsSavedAfterWhatCameBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	var p Places[int]
	kept(t, &p, path)
	p.Mark(1)
	first := p.Read(1)
	p.Mark(2)
	p.Mark(3)
	left(t, &p)
	var again Places[int]
	if got := kept(t, &again, path); got != 1 {
		t.Errorf("got state %d, want 1", got)
	}
	left(t, &again)

	// Opened again, the process knows more than the file.
	if got := kept(t, &p, path); got != 0 {
		t.Errorf("got state %d of the file", got)
	}
	settle(t, &p, engine.Delivered, first)
	left(t, &p)
	if got := kept(t, &again, path); got != 0 {
		t.Errorf("got state %d, want that of the process", got)
	}
	left(t, &again)
	var third Places[int]
	if got := kept(t, &third, path); got != 1 { // again had 1, and saved it
		t.Errorf("got state %d, want 1", got)
	}
	left(t, &third)
}
