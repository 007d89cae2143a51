package rabbitmq

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// settleAll gives each tag a verdict, in this order, and returns the frames.
func (l *ledger) settleAll(what verdict, tags ...uint64) []order {
	for _, tag := range tags {
		l.at(tag).verdict = what
	}
	return l.settle(nil, tags)
}

func TestLedger(t *testing.T) {
	type step struct {
		what verdict
		tags []uint64
		want []order
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"a run from the oldest on is one frame", []step{{accept, []uint64{1, 2, 3}, []order{{3, accept, true}}}}},
		{"one alone is no run", []step{{accept, []uint64{1}, []order{{1, accept, false}}}}},
		{"behind a gap each is told at once", []step{
			{accept, []uint64{3, 4}, []order{{3, accept, false}, {4, accept, false}}},
			{accept, []uint64{2}, []order{{2, accept, false}}},
			{accept, []uint64{1}, []order{{1, accept, false}}},
			{accept, []uint64{5, 6}, []order{{6, accept, true}}},
		}},
		{"a run ends on a tag that is still out", []step{
			{accept, []uint64{3}, []order{{3, accept, false}}},
			{accept, []uint64{1, 2}, []order{{2, accept, true}}},
		}},
		{"what was told does not part a run", []step{
			{sendBack, []uint64{3}, []order{{3, sendBack, false}}},
			{accept, []uint64{1, 2, 4, 5}, []order{{5, accept, true}}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			for range 6 {
				l.add(false, -1)
			}
			for _, s := range tt.steps {
				if diff := cmp.Diff(s.want, l.settleAll(s.what, s.tags...), cmp.AllowUnexported(order{})); diff != "" {
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
	want := []order{{2, accept, true}, {4, sendBack, true}, {5, refuse, false}, {6, accept, false}}
	if diff := cmp.Diff(want, l.settle(nil, []uint64{1, 2, 3, 4, 5, 6}), cmp.AllowUnexported(order{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLedgerTellsEachOnce plays a broker: a frame must be about unacknowledged tags, and
// each delivery must get its own verdict, once.
func TestLedgerTellsEachOnce(t *testing.T) {
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
					l.at(tag).verdict = verdicts[tag]
					tags = append(tags, tag)
				}
			}
			for _, o := range l.settle(nil, tags) {
				apply(t, broker, o)
			}
			for _, tag := range tags {
				if broker[tag] != verdicts[tag] {
					t.Fatalf("tag %d was told %d, want %d, and at once", tag, broker[tag], verdicts[tag])
				}
			}
		}
		if len(l.entries) > 0 && l.entries[0].verdict != open {
			t.Fatalf("the oldest entry is settled and still there")
		}
	})
}

// apply does as a broker does with a frame.
func apply(t *rapid.T, broker map[uint64]verdict, o order) {
	if broker[o.tag] != open {
		t.Fatalf("unknown delivery tag %d", o.tag)
	}
	broker[o.tag] = o.what
	for tag := range broker {
		if o.multiple && tag < o.tag && broker[tag] == open {
			broker[tag] = o.what
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
