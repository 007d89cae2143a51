package order_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/internal/inside"
	"github.com/flowd-io/flowd/engine/internal/order"
)

// model simulates a pipeline with an input, lanes and an output. Its messages fail, split and merge at random. It records the
// messages that were read, by key, and checks the messages that are written.
type model struct {
	*rig
	rand    *rand.Rand
	serial  int
	trouble bool // messages may still fail

	lanes, output []*engine.Batch // queues
	away          []func()        // failed messages, to be retried

	read    map[byte][]string // names of messages, by key
	written map[byte][]string
}

func newModel(t *testing.T, seed uint64) *model {
	w := &model{rig: newRig(t, true), rand: rand.New(rand.NewPCG(seed, 1)), trouble: true, //nolint:gosec // repeatable
		read: map[byte][]string{}, written: map[byte][]string{}}
	w.h = order.NewHolds(true, nil, &w.credits, func(b *engine.Batch) { w.lanes = append(w.lanes, b) })
	w.out.Push = func(b *engine.Batch) { w.output = append(w.output, b) }
	return w
}

func (w *model) happens(percent int) bool { return w.trouble && w.rand.IntN(100) < percent }

// live yields the live messages of a batch. It iterates by index, since messages that are kept meanwhile change the batch.
func live(b *engine.Batch, f func(i int, m *engine.Message)) {
	for i := range slab(b).Msgs {
		if m := slab(b).Nth(i); cell(m).State == inside.Live {
			f(i, m)
		}
	}
}

// one moves a message into a new batch.
func one(m *engine.Message) *engine.Batch {
	b := engine.NewBatch(1)
	slab(b).Take(m)
	cell(slab(b).Nth(0)).State = inside.Live
	return b
}

// receive reads messages and hands them to the lanes.
func (w *model) receive() {
	b := engine.NewBatch(5)
	for range 1 + w.rand.IntN(5) {
		w.serial++
		name := fmt.Sprintf("%c%d", 'a'+w.rand.IntN(3), w.serial)
		m := b.Add([]byte(name))
		m.Key = []byte(name[:1])
		cell(m).SetRoot(&call{name}, 0)
		w.read[name[0]] = append(w.read[name[0]], name)
	}
	live(b, func(i int, m *engine.Message) { w.h.Before(slab(b).Msgs[:i], m) })
	w.lanes = append(w.lanes, b)
}

// asks returns the role of a message: live messages ask to move on, and failed ones hold their keys.
func asks(_ int, m *engine.Message) order.Role {
	switch cell(m).State {
	case inside.Live:
		return order.Asks
	case inside.Waits:
		return order.Owns
	}
	return 0
}

// lane runs steps over the first batch of the lanes, and sends it to the output.
func (w *model) lane() {
	b := w.lanes[0]
	w.lanes = w.lanes[1:]
	w.fail(b, nil)
	b = w.split(b)
	w.h.Admit(b, nil, asks)
	next := engine.NewBatch(0)
	var freed []*order.Claim
	for i := range slab(b).Msgs {
		switch m := slab(b).Nth(i); cell(m).State {
		case inside.Live:
			freed = append(freed, claims(m)...)
			slab(next).Take(m)
		case inside.Waits:
			w.h.Own(m, nil)
			again := one(m)
			w.away = append(w.away, func() { w.lanes = append(w.lanes, again) })
		}
	}
	w.output = append(w.output, next)
	w.h.Free(freed)
}

// fail lets a step fail messages at random.
func (w *model) fail(b *engine.Batch, at *order.Place) {
	failed := false
	live(b, func(_ int, m *engine.Message) {
		if w.happens(15) {
			cell(m).State, failed = inside.Waits, true
		}
	})
	if failed {
		w.h.Behind(b, inside.Fresh, at)
	}
}

// split lets a step split messages in two, at random.
func (w *model) split(b *engine.Batch) *engine.Batch {
	parts := engine.NewBatch(2 * len(slab(b).Msgs))
	for i := range slab(b).Msgs {
		m := slab(b).Nth(i)
		switch {
		case cell(m).State == inside.Moved:
		case cell(m).State == inside.Live && cell(m).Part == 0 && w.happens(15):
			for n := range 2 {
				p := parts.Add(fmt.Appendf(nil, "%s.%d", m.Bytes(), n+1))
				p.Key, p.Meta = m.Key, m.Meta
				cell(p).SetPart(m, n+1)
				order.SetClaim(p, order.ClaimOf(m))
				w.h.Share(p)
			}
			w.h.Free(claims(m))
		default:
			state := cell(m).State
			slab(parts).Take(m)
			cell(slab(parts).Nth(len(slab(parts).Msgs) - 1)).State = state
		}
	}
	return parts
}

// merge lets a step merge the last messages of a batch, at random. The merged message follows them.
func (w *model) merge(b *engine.Batch) {
	from := w.rand.IntN(1 + len(slab(b).Msgs))
	var of []*engine.Message
	live(b, func(i int, m *engine.Message) {
		if i >= from && len(cell(m).Of) == 0 {
			of = append(of, m)
		} else {
			of = nil
		}
	})
	if len(of) < 2 || !w.happens(30) {
		return
	}
	b.Merge([]byte("merge"), slices.Values(of))
	slab(b).Msgs = append(slab(b).Msgs, *slab(b).Merges[0])
	slab(b).Merges = nil
}

// write runs steps over the first batch of the output, and writes its messages one by one.
func (w *model) write() {
	b := w.output[0]
	w.output = w.output[1:]
	w.h.Admit(b, &w.out, func(int, *engine.Message) order.Role { return order.Asks })
	w.merge(b)
	w.fail(b, &w.out)
	troubled := order.Foresee(b)
	for i := range slab(b).Msgs {
		m := slab(b).Nth(i)
		if cell(m).State == inside.Live {
			if !w.h.Passes(slab(b).Msgs[:i], m, &w.out) {
				continue
			}
			if order.HasOne(m, troubled) {
				w.h.Own(m, &w.out)
			}
			if !w.happens(15) {
				order.EachLeafKey(m, func(leaf *engine.Message) {
					w.written[leaf.Key[0]] = append(w.written[leaf.Key[0]], string(leaf.Bytes()))
				})
				cell(m).State = inside.Done
				w.h.Free(claims(m))
				continue
			}
		} else if cell(m).State != inside.Waits {
			continue
		}
		w.h.Own(m, &w.out)
		again := one(m)
		w.away = append(w.away, func() { w.output = append(w.output, again) })
	}
}

// step performs a random action. It reports whether any action other than reading was possible.
func (w *model) step() bool {
	can := []func(){}
	if w.trouble {
		can = append(can, w.receive)
	}
	if len(w.lanes) > 0 {
		can = append(can, w.lane)
	}
	if len(w.output) > 0 {
		can = append(can, w.write, w.write)
	}
	if len(w.away) > 0 {
		can = append(can, func() {
			i := w.rand.IntN(len(w.away))
			again := w.away[i]
			w.away = slices.Delete(w.away, i, i+1)
			again()
		})
	}
	if len(can) == 0 {
		return false
	}
	can[w.rand.IntN(len(can))]()
	return true
}

// Messages fail, split and merge at random. All messages of a key are written in the order in which they were read, and no key is
// held at the end.
func TestEveryKeyKeepsItsOrder(t *testing.T) {
	for seed := range uint64(150) {
		w := newModel(t, seed)
		for range 60 {
			w.step()
		}
		w.trouble = false
		for n := 0; w.step(); n++ {
			if n > 10_000 {
				t.Fatalf("seed %d: it does not come to an end", seed)
			}
		}
		for key, names := range w.read {
			var got []string // names of messages, without the numbers of parts
			for _, name := range w.written[key] {
				whole, part, _ := strings.Cut(name, ".")
				if part != "2" {
					got = append(got, whole)
				} else if len(got) == 0 || got[len(got)-1] != whole {
					t.Errorf("seed %d: %s was written before its first part", seed, name)
				}
			}
			if !slices.Equal(got, names) {
				t.Errorf("seed %d: of key %c, %v were read and %v written", seed, key, names, got)
			}
		}
		if keys, waiting := w.h.Any.Load(), w.credits.Waits(); keys != 0 || waiting != 0 {
			t.Errorf("seed %d: %d keys are held, and %d messages wait, at the end", seed, keys, waiting)
		}
		if t.Failed() {
			return
		}
	}
}
