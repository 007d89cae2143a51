package order_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/order"
)

func cell(m *engine.Message) *engine.Cell { return m.Inside(inside.Key{}) }

func slab(b *engine.Batch) *engine.Slab { return b.Inside(inside.Key{}) }

// call is a Read that brought a message.
type call struct{ name string }

func (*call) Input() string                                     { return "in" }
func (*call) At() time.Time                                     { return time.Time{} }
func (*call) Counts() *engine.Counters                          { return nil }
func (*call) Number(uint32) uint64                              { return 0 }
func (*call) KeyWaits() engine.KeyWaits                         { return nil }
func (*call) Moved(uint32, []byte, []byte)                      {}
func (*call) Stake(uint32, engine.Settler, uint64, engine.Fate) {}
func (*call) Taken(uint32) bool                                 { return false }
func (*call) Followed() bool                                    { return false }
func (*call) Trace(uint32) *engine.Trace                        { return nil }
func (*call) SetTrace(uint32, *engine.Trace)                    {}

// nameOf returns the name of the message that an origin belongs to.
func nameOf(o engine.Origin) string {
	var c engine.Cell
	c.Origin = o
	read, _ := c.Root()
	return read.(*call).name
}

// rig has messages that are named after their keys: a1 and a2 have the key a, and the merged message a1+b1 has both keys. Tests
// move them with commands, and rig notes the results.
type rig struct {
	t       *testing.T
	h       *order.Holds
	credits flow.Credits
	out     order.Place // an output
	msgs    map[string]*engine.Message
	notes   []string
}

func newRig(t *testing.T, ordered bool) *rig {
	r := &rig{t: t, msgs: map[string]*engine.Message{}}
	r.credits = flow.Credits{Msgs: 1000, Bytes: 1 << 20, Most: 1000, Starved: func() {}, Upstream: func() bool { return true }}
	by := expr.MustCompile("raw()[0:1]")
	r.h = order.NewHolds(ordered, &by, &r.credits, r.releaseTo("to the lanes"))
	r.out.Push = r.releaseTo("to the output")
	return r
}

func (r *rig) releaseTo(place string) func(*engine.Batch) {
	return func(b *engine.Batch) {
		for m := range b.All() {
			r.msgs[string(m.Bytes())] = m
			r.note(string(m.Bytes()), place)
		}
	}
}

func (r *rig) note(name, fate string) { r.notes = append(r.notes, name+" "+fate) }

// message returns the message with a name. It creates new ones.
func (r *rig) message(name string) *engine.Message {
	if m := r.msgs[name]; m != nil {
		return m
	}
	b := engine.NewBatch(4)
	if parts := strings.Split(name, "+"); len(parts) > 1 {
		var of []*engine.Message
		for _, p := range parts {
			of = append(of, r.message(p))
		}
		b.Merge([]byte(name), slices.Values(of))
		r.msgs[name] = slab(b).Merges[0]
		return r.msgs[name]
	}
	m := b.Add([]byte(name))
	m.Key, cell(m).Credits = []byte(`"`+name[:1]+`"`), 1
	cell(m).SetRoot(&call{name}, 0)
	r.msgs[name] = m
	return m
}

// batch moves messages into a batch. The names of messages that have failed end with "!".
func (r *rig) batch(names []string) *engine.Batch {
	b := engine.NewBatch(len(names))
	for _, name := range names {
		name, failed := strings.CutSuffix(name, "!")
		slab(b).Take(r.message(name))
		m := slab(b).Nth(len(slab(b).Msgs) - 1)
		if failed {
			cell(m).State = inside.Waits
		}
		r.msgs[name] = m
	}
	return b
}

// claims removes and returns the claims of a message, to be freed.
func claims(m *engine.Message) (all []*order.Claim) {
	order.EachLeafKey(m, func(leaf *engine.Message) {
		if c := order.ClaimOf(leaf); c != nil {
			all = append(all, c)
			order.SetClaim(leaf, nil)
		}
	})
	return all
}

// noteKept notes which messages of a batch were kept, and which move on.
func (r *rig) noteKept(b *engine.Batch, names []string, on string) {
	for i, name := range names {
		switch cell(slab(b).Nth(i)).State {
		case inside.Moved:
			r.note(name, "waits")
		case inside.Live:
			r.note(name, on)
		}
	}
}

// run runs commands. A command is a verb and names of messages.
func (r *rig) run(script string) {
	for command := range strings.SplitSeq(script, ", ") {
		verb, rest, _ := strings.Cut(command, " ")
		names := strings.Fields(rest)
		asks := func(_ int, m *engine.Message) order.Role {
			if cell(m).State == inside.Live {
				return order.Asks
			}
			return order.Owns
		}
		switch verb {
		case "read": // from the inputs to the lanes
			b := r.batch(names)
			for i := range names {
				m := slab(b).Nth(i)
				place := order.ClaimOf(m)
				if r.h.Before(slab(b).Msgs[:i], m) {
					r.note(names[i], "waits")
				} else {
					r.note(names[i], "read")
				}
				if place != nil { // it has waited in the steps of its input
					order.SetClaim(m, nil)
					r.h.Free([]*order.Claim{place})
				}
			}
		case "gap": // a message waits in the steps of its input
			r.h.LeaveGap(r.message(names[0]))
		case "leave": // messages leave the lanes
			b := r.batch(names)
			r.h.Admit(b, nil, asks)
			r.noteKept(b, names, "leaves")
		case "behind": // a step in the lanes has failed some messages
			b := r.batch(names)
			r.h.Behind(b, inside.Fresh, nil)
			r.noteKept(b, names, "goes on")
		case "write":
			b := r.batch(names)
			r.h.Admit(b, &r.out, asks)
			r.noteKept(b, names, "written")
		case "alone": // the last message is written after the others of its batch
			b := r.batch(names)
			i := len(names) - 1
			if r.h.Passes(slab(b).Msgs[:i], slab(b).Nth(i), &r.out) {
				r.note(names[i], "written")
			} else {
				r.note(names[i], "waits")
			}
		case "fail": // a message fails in the lanes
			r.h.Own(r.message(names[0]), nil)
		case "refuse": // a message fails at the output
			r.h.Own(r.message(names[0]), &r.out)
		case "end": // a message has left the place where it held its key
			r.h.Free(claims(r.message(names[0])))
		case "split": // the first message is split into the others
			whole := r.message(names[0])
			for _, name := range names[1:] {
				p := r.message(name)
				order.SetClaim(p, order.ClaimOf(whole))
				r.h.Share(p)
			}
			r.h.Free(claims(whole))
		case "pass": // a message passes a group
			r.h.Free(r.h.ComesBy(r.message(names[0]), 1))
		case "rejoin": // messages leave a group
			r.h.Free(r.h.Rejoin(r.batch(names), 1))
		case "dead": // a message becomes a dead letter
			cell(r.message(names[0])).Dead = true
		case "each":
			r.h.Each(func(waits, behind engine.Origin) { r.note(nameOf(waits), "behind "+nameOf(behind)) })
		default:
			r.t.Fatalf("unknown command %q", command)
		}
	}
}

func TestMessagesWaitBehindThoseOfTheirKey(t *testing.T) {
	tests := []struct{ name, script, want string }{
		// In the lanes.
		{"a message that failed holds its key alone", "fail a1, leave a2 b1, end a1", "a2 waits, b1 leaves, a2 to the lanes"},
		{"nothing has failed", "leave a1 a2 b1", "a1 leaves, a2 leaves, b1 leaves"},
		{"those that wait go on one by one", "fail a1, leave a2 a3, end a1, leave a2, end a2",
			"a2 waits, a3 waits, a2 to the lanes, a2 leaves, a3 to the lanes"},
		{"one that comes back passes those that wait", "fail a1, leave a2, leave a1, end a1",
			"a2 waits, a1 leaves, a2 to the lanes"},
		{"one that fails again keeps its place", "fail a1, leave a2, fail a1, end a1", "a2 waits, a2 to the lanes"},
		{"one in the same slab fails", "leave a1! a2 b1, end a1", "a2 waits, b1 leaves, a2 to the lanes"},
		{"one in the same slab fails later", "leave a1 a2! a3", "a1 leaves, a3 waits"},
		{"a step has failed one", "behind a1! a2 b1, end a1", "a2 waits, b1 goes on, a2 to the lanes"},
		{"those before the failed one hold the key first", "behind a1 a2! a3, end a2, end a1",
			"a1 goes on, a3 waits, a3 to the lanes"},

		// Before the lanes.
		{"messages that are read later stay before the lanes", "fail a1, read a2 b1 a3, end a1",
			"a2 waits, b1 read, a3 waits, a2 to the lanes, a3 to the lanes"},
		{"also if the key is held at an output", "refuse a1, read a2, end a1", "a2 waits, a2 to the lanes"},
		{"until the last line of the key has gone", "fail a1, refuse a0, read a2, end a1, end a0",
			"a2 waits, a2 to the lanes"},
		{"behind what waits in the lanes", "fail a1, leave a2, read a3, end a1, end a2",
			"a2 waits, a3 waits, a2 to the lanes, a3 to the lanes"},
		{"a key that is not held", "fail a1, read a2 b1, read b2", "a2 waits, b1 read, b2 read"},

		// In the steps of an input.
		{"a gap keeps the place of a message", "gap a1, read a2 b1, read a1", "a2 waits, b1 read, a1 read, a2 to the lanes"},
		{"only behind the gap", "fail a0, read a1, gap a2, read a3, end a0, read a2",
			"a1 waits, a3 waits, a1 to the lanes, a2 read, a3 to the lanes"},
		{"a gap ends without its message", "gap a1, read a2, end a1", "a2 waits, a2 to the lanes"},
		{"a message comes back when its key is held", "gap a1, read a2, fail a0, read a1, end a0",
			"a2 waits, a1 waits, a1 to the lanes, a2 to the lanes"},

		// At an output.
		{"an output has lines of its own", "refuse a1, leave a2 b1, write a2 b1, end a1",
			"a2 leaves, b1 leaves, a2 waits, b1 written, a2 to the output"},
		{"behind others of its batch", "refuse a1, alone b1 a2, end a1", "a2 waits, a2 to the output"},
		{"of a key that is not held", "refuse a1, alone a2 b1", "b1 written"},
		{"nothing is held", "alone a1", "a1 written"},

		// Several keys.
		{"a merge waits for all of its keys", "refuse a1, refuse b1, write a2+b2, end a1, end b1",
			"a2+b2 waits, a2+b2 to the output"},
		{"a merge that failed holds all of its keys", "refuse a1+b1, write a2 b2 c2, end a1+b1",
			"a2 waits, b2 waits, c2 written, a2 to the output, b2 to the output"},
		{"a merge of one key has one place", "refuse a1+a2, write a3, end a1+a2", "a3 waits, a3 to the output"},
		{"a merge that waits holds its other key", "refuse a1, write a2+b2 b3, end a1, end a2+b2",
			"a2+b2 waits, b3 waits, a2+b2 to the output, b3 to the output"},
		{"and does not overtake a merge before it there", "refuse a1, write b2+c2 a3+b3, end a1, end b2+c2",
			"b2+c2 written, a3+b3 waits, a3+b3 to the output"},
		{"a merge of two parts that share a failed key", "behind a1! a2+b2 b3, end a1, end a2+b2",
			"a2+b2 waits, b3 waits, a2+b2 to the lanes, b3 to the lanes"},

		// Splits.
		{"all parts hold the key of the whole", "fail a1, leave a2, split a1 a11 a12, end a11, end a12",
			"a2 waits, a2 to the lanes"},
		{"a part that fails is before the later parts", "fail a1, split a1 a11 a12, fail a11, leave a12, end a11",
			"a12 waits, a12 to the lanes"},
		{"the whole does not hold it any more", "fail a1, split a1 a11, leave a11 a2", "a11 leaves, a2 waits"},
		{"the parts of a gap keep its place", "gap a1, read a2, split a1 a11 a12, gap a11, read a12, read a11",
			"a2 waits, a12 waits, a11 read, a12 to the lanes, a2 to the lanes"},

		// Groups.
		{"past a group nothing waits for what is not", "fail a1, pass a2, leave a2", "a2 leaves"},
		{"what leaves a group holds its keys", "rejoin a1, leave a2, pass a3, leave a3", "a2 leaves, a3 waits"},
		{"a claim from before the group is let go", "fail a1, leave a2, pass a1, pass a3, leave a3",
			"a2 waits, a2 to the lanes, a3 waits"},

		// Dead letters.
		{"a dead letter holds nothing", "dead a1, refuse a1, write a2", "a2 written"},
		{"a dead letter waits for nothing", "refuse a1, dead a2, alone a2, write a2", "a2 written, a2 written"},

		// What snapshots show.
		{"who waits for whom", "fail a1, leave a2 a3, read a4, read a5, each",
			"a2 waits, a3 waits, a4 waits, a5 waits, a2 behind a1, a3 behind a2, a4 behind a3, a5 behind a4"},
		{"behind all parts of a merge", "refuse a1+b1, write b2, each", "b2 waits, b2 behind b1"},
		{"behind several that are away", "fail a1, fail a2, leave a3, each", "a3 waits, a3 behind a2, a3 behind a1"},
		{"behind a message in its input's steps", "gap a1, read a2, each", "a2 waits, a2 behind a1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, true)
			r.run(tt.script)
			if got := strings.Join(r.notes, ", "); got != tt.want {
				t.Errorf("%s:\n got %s\nwant %s", tt.script, got, tt.want)
			}
		})
	}
}

func TestWithoutOrderNothingIsHeld(t *testing.T) {
	r := newRig(t, false)
	r.run("fail a1, refuse a1, behind a1! a2, leave a2, write a2")
	if got := strings.Join(r.notes, ", "); got != "a2 goes on, a2 leaves, a2 written" || r.h.Any.Load() != 0 {
		t.Errorf("got %s, and %d keys are held", got, r.h.Any.Load())
	}
}

// Another lane may fail a message between the decisions on two messages of one slab. The second follows the first, which
// has not reached a lane yet.
func TestASlabStaysTogetherOnItsWayToTheLanes(t *testing.T) {
	r := newRig(t, true)
	b := r.batch([]string{"a2", "a3"})
	first := r.h.Before(nil, slab(b).Nth(0))
	r.run("fail a1")
	if second := r.h.Before(slab(b).Msgs[:1], slab(b).Nth(1)); first || second {
		t.Errorf("kept %v and %v, want neither", first, second)
	}
}

func TestHeldAtSaysWhereAKeyIsHeld(t *testing.T) {
	r := newRig(t, true)
	r.run("fail a1, refuse b1")
	other := &order.Place{}
	for _, tt := range []struct {
		name string
		at   *order.Place
		want bool
	}{{"a2", &r.out, false}, {"b2", &r.out, true}, {"b2", other, false}, {"a3+b3", &r.out, true}, {"c1", &r.out, false}} {
		if got := r.h.HeldAt(r.message(tt.name), tt.at); got != tt.want {
			t.Errorf("%s is held: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A waiting message counts as kept, so that readers pause when too many messages wait. At an output, it no longer counts as being
// beyond the lanes.
func TestMessagesThatWaitAreCounted(t *testing.T) {
	for _, script := range []string{"fail a1, leave a2", "refuse a1, write a2"} {
		r := newRig(t, true)
		r.run(script)
		kept := r.credits.Waits()
		r.run("end a1")
		if kept != 1 || r.credits.Waits() != 0 {
			t.Errorf("%s: %d wait, and %d at the end, want 1 and 0", script, kept, r.credits.Waits())
		}
	}
}
