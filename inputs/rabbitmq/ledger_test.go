package rabbitmq

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// settleAll sets the verdict of each tag, in this order, and returns the frames.
func (l *ledger) settleAll(what verdict, tags ...uint64) []frame {
	for _, tag := range tags {
		l.entryOf(tag).verdict = what
	}
	return l.settle(nil, tags)
}

func TestLedger(t *testing.T) {
	type step struct {
		what verdict
		tags []uint64
		want []frame
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"a run from the oldest on is one frame", []step{{accept, []uint64{1, 2, 3}, []frame{{3, accept, true}}}}},
		{"a single delivery is not a run", []step{{accept, []uint64{1}, []frame{{1, accept, false}}}}},
		{"behind a gap, each is reported at once", []step{
			{accept, []uint64{3, 4}, []frame{{3, accept, false}, {4, accept, false}}},
			{accept, []uint64{2}, []frame{{2, accept, false}}},
			{accept, []uint64{1}, []frame{{1, accept, false}}},
			{accept, []uint64{5, 6}, []frame{{6, accept, true}}},
		}},
		{"a run ends on a tag that is not reported", []step{
			{accept, []uint64{3}, []frame{{3, accept, false}}},
			{accept, []uint64{1, 2}, []frame{{2, accept, true}}},
		}},
		{"reported deliveries do not split a run", []step{
			{sendBack, []uint64{3}, []frame{{3, sendBack, false}}},
			{accept, []uint64{1, 2, 4, 5}, []frame{{5, accept, true}}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			for range 6 {
				l.add(false, -1)
			}
			for _, s := range tt.steps {
				if diff := cmp.Diff(s.want, l.settleAll(s.what, s.tags...), cmp.AllowUnexported(frame{})); diff != "" {
					t.Errorf("%v (-want +got):\n%s", s.tags, diff)
				}
			}
		})
	}
}

func TestAChangeOfVerdictBeginsANewRun(t *testing.T) {
	l := newLedger()
	for _, v := range []verdict{accept, accept, sendBack, sendBack, refuse, accept} {
		l.add(false, -1)
		l.entries[len(l.entries)-1].verdict = v
	}
	want := []frame{{2, accept, true}, {4, sendBack, true}, {5, refuse, false}, {6, accept, false}}
	if diff := cmp.Diff(want, l.settle(nil, []uint64{1, 2, 3, 4, 5, 6}), cmp.AllowUnexported(frame{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLedgerReportsEachOnce simulates a broker: a frame must be about unacknowledged tags, and each delivery must get its
// own verdict, once.
func TestLedgerReportsEachOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLedger()
		var next uint64
		verdicts, broker := map[uint64]verdict{}, map[uint64]verdict{}
		for range rapid.IntRange(1, 40).Draw(t, "rounds") {
			for range rapid.IntRange(0, 6).Draw(t, "deliveries") {
				next++
				l.add(false, -1)
				broker[next] = open
			}
			var tags []uint64
			for tag := range next {
				if tag++; verdicts[tag] == open && rapid.Bool().Draw(t, "settled") {
					verdicts[tag] = rapid.SampledFrom([]verdict{accept, accept, sendBack, refuse}).Draw(t, "verdict")
					l.entryOf(tag).verdict = verdicts[tag]
					tags = append(tags, tag)
				}
			}
			for _, f := range l.settle(nil, tags) {
				apply(t, broker, f)
			}
			for _, tag := range tags {
				if broker[tag] != verdicts[tag] {
					t.Fatalf("the verdict on tag %d is %d, want %d, at once", tag, broker[tag], verdicts[tag])
				}
			}
		}
		if len(l.entries) > 0 && l.entries[0].verdict != open {
			t.Fatalf("the oldest entry is settled and still there")
		}
	})
}

// apply does what a broker does with a frame.
func apply(t *rapid.T, broker map[uint64]verdict, f frame) {
	if broker[f.tag] != open {
		t.Fatalf("unknown delivery tag %d", f.tag)
	}
	broker[f.tag] = f.verdict
	for tag := range broker {
		if f.multiple && tag < f.tag && broker[tag] == open {
			broker[tag] = f.verdict
		}
	}
}

func TestLedgerKnowsHowFarAStreamIsSettled(t *testing.T) {
	l := newLedger()
	for offset := range 5 {
		l.add(false, 100+offset)
	}
	var got []int
	for _, tags := range [][]uint64{{2, 3}, {1}, {5}, {4}} {
		l.settleAll(accept, tags...)
		got = append(got, l.offset)
	}
	if want := []int{-1, 102, 102, 104}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
