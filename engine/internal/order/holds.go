package order

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/expr"
	"github.com/flowd-io/flowd/engine/internal/flow"
	"github.com/flowd-io/flowd/engine/internal/inside"
)

// Holds keep order while messages fail. A message that waits (for another attempt, a limit,
// the code that parked it) owns its order key where it is: in the lanes, or at an output.
// Messages that arrive after it there are kept until it has moved on, and what is read
// later stays before the lanes.
type Holds struct {
	ordered bool
	by      *expr.Expr // gives messages their order keys; nil: their inputs do
	credits *flow.Credits
	lanes   func(*engine.Batch) // takes what goes on there
	Any     atomic.Int32        // keys that are held; read without the lock where there is none

	mu   sync.Mutex // guards the fields below, and the order of what is let go
	keys map[string]*hold
}

// hold is one key that is held: in lines, or by gaps in what waits before the lanes.
type hold struct {
	key    string
	lines  []*line
	before []*held // before the lanes, in the order in which it was read
}

// line is a place where a key is held, the lanes or an output, with its claims in
// the order of the messages. Only the first may move on.
type line struct {
	of     *hold
	out    *Place // nil: the lanes
	groups int8   // in the lanes: those that its messages are past
	claims []*Claim
}

// Claim is a message's place in a line: of one that is away, to be tried again or
// parked, or of one that has come back, or came behind it, and waits.
type Claim struct {
	of   *hold
	at   *line // nil: a gap before the lanes
	refs int   // messages that have it: the parts of a merge share that of a key
	x    *held // that waits; nil: it is away, or on its way; the gap itself

	roots []engine.Origin // of its messages
}

// held is a message that waits until it is the first in the lines of all its keys.
type held struct {
	m       engine.Message
	out     *Place        // where it was caught; nil: in or before the lanes
	batch   *engine.Batch // like that in which it was caught; nil: none
	blocked []*line       // in which others are before it
	gap     bool          // the place of a message that is still in its input's own steps
	root    engine.Origin // of that message
}

// ClaimOf is m's claim, or nil.
func ClaimOf(m *engine.Message) *Claim {
	if msg(m).Rare == nil {
		return nil
	}
	c, _ := msg(m).Rare.Claim.(*Claim)
	return c
}

// SetClaim gives m a claim; nil takes it away.
func SetClaim(m *engine.Message, c *Claim) {
	if msg(m).Rare != nil || c != nil {
		msg(m).SetClaim(inside.Slot(c))
	}
}

// Place is where messages may hold their keys beside the lanes: an output or a group.
type Place struct {
	Push func(*engine.Batch) // takes what goes on there
}

// NewHolds makes the holds of a run. by gives messages their order keys, nil: their inputs do; lanes takes what
// continues there.
func NewHolds(ordered bool, by *expr.Expr, c *flow.Credits, lanes func(*engine.Batch)) *Holds {
	return &Holds{ordered: ordered, by: by, credits: c, lanes: lanes, keys: map[string]*hold{}}
}

// Own makes m hold its keys at an output, or, with nil, in the lanes.
func (h *Holds) Own(m *engine.Message, out *Place) {
	if !h.ordered || msg(m).Dead {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claim(m, out)
}

// claim puts m at the end of the lines of its keys, where it is not in them already,
// and in front of the other parts of the split from which it came; h.mu is held.
func (h *Holds) claim(m *engine.Message, out *Place) {
	EachLeafKey(m, func(leaf *engine.Message) {
		if ClaimOf(leaf) != nil {
			setApart(m, ClaimOf(leaf))
			return
		}
		l := h.line(leaf.Key, out, level(m, out))
		EachLeafKey(m, func(other *engine.Message) {
			if c := ClaimOf(other); c != nil && c.at == l {
				SetClaim(leaf, c)
			}
		})
		if ClaimOf(leaf) == nil {
			c := &Claim{of: l.of, at: l}
			SetClaim(leaf, c)
			l.claims = append(l.claims, c)
		}
		c := ClaimOf(leaf)
		c.refs++
		if root := leaf.First(inside.Key{}); !slices.Contains(c.roots, root) {
			c.roots = append(c.roots, root)
		}
	})
}

// level is how far m has come in the lanes: what is past a group does not wait for what
// is not, nor the other way round.
func level(m *engine.Message, out *Place) int8 {
	if out != nil {
		return 0
	}
	return msg(m).Groups
}

// setApart gives m a claim of its own in front of one that it shares with the parts
// behind it.
func setApart(m *engine.Message, shared *Claim) {
	mine := 0
	EachLeafKey(m, func(leaf *engine.Message) {
		if ClaimOf(leaf) == shared {
			mine++
		}
	})
	if mine == shared.refs {
		return
	}
	own := &Claim{of: shared.of, at: shared.at, refs: mine, roots: slices.Clone(shared.roots)}
	shared.refs -= mine
	if l := shared.at; l != nil {
		at := slices.Index(l.claims, shared)
		l.claims = slices.Insert(l.claims, at, own)
	} else {
		k := shared.of
		own.x = &held{gap: true, root: shared.x.root}
		k.before = slices.Insert(k.before, slices.Index(k.before, shared.x), own.x)
	}
	EachLeafKey(m, func(leaf *engine.Message) {
		if ClaimOf(leaf) == shared {
			SetClaim(leaf, own)
		}
	})
}

// Share counts that a part of a split has the claims of what was split.
func (h *Holds) Share(part *engine.Message) {
	if h.Any.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	EachLeafKey(part, func(leaf *engine.Message) {
		if ClaimOf(leaf) != nil {
			ClaimOf(leaf).refs++
		}
	})
}

// line finds or begins the line of a key at a place; h.mu is held.
func (h *Holds) line(key []byte, out *Place, groups int8) *line {
	k := h.hold(key)
	if l := k.line(out, groups); l != nil {
		return l
	}
	l := &line{of: k, out: out, groups: groups}
	k.lines = append(k.lines, l)
	return l
}

// hold finds or makes the hold of a key; h.mu is held.
func (h *Holds) hold(key []byte) *hold {
	k := h.keys[string(key)]
	if k == nil {
		k = &hold{key: string(key)}
		h.keys[k.key] = k
		h.Any.Add(1)
	}
	return k
}

// LeaveGap keeps the place of a message that waits in its input's own steps, before
// it has an order key: by the key that it would have as it is.
func (h *Holds) LeaveGap(m *engine.Message) {
	key := h.by
	if key == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ClaimOf(m) != nil {
		setApart(m, ClaimOf(m))
		return
	}
	text, ok, err := key.AppendKey(nil, m)
	if err != nil || !ok {
		return
	}
	k := h.hold(text)
	gap := &held{gap: true, root: m.First(inside.Key{})}
	k.before = append(k.before, gap)
	SetClaim(m, &Claim{of: k, refs: 1, x: gap, roots: []engine.Origin{gap.root}})
}

func (k *hold) line(out *Place, groups int8) *line {
	i := slices.IndexFunc(k.lines, func(l *line) bool { return l.out == out && l.groups == groups })
	if i < 0 {
		return nil
	}
	return k.lines[i]
}

// EachLeafKey calls f for each message with a key that m stands for.
func EachLeafKey(m *engine.Message, f func(*engine.Message)) {
	if len(msg(m).Of) == 0 {
		if m.Key != nil || ClaimOf(m) != nil {
			f(m)
		}
		return
	}
	for i := range msg(m).Of {
		EachLeafKey(&msg(m).Of[i], f)
	}
}

// Before keeps m, which is about to go to the lanes behind earlier ones, if its key
// is held anywhere. It goes with one of its key: that one has not arrived yet.
func (h *Holds) Before(earlier []engine.Message, m *engine.Message) bool {
	if h.Any.Load() == 0 || m.Key == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.keys[string(m.Key)]
	if k == nil {
		return false
	}
	if !slices.ContainsFunc(k.before, func(x *held) bool { return x.gap }) &&
		slices.ContainsFunc(earlier, func(e engine.Message) bool {
			return msg(&e).State == inside.Live && bytes.Equal(e.Key, m.Key)
		}) {
		return false
	}
	at := len(k.before)
	if c := ClaimOf(m); c != nil && c.of == k { // it has its place
		if at = slices.Index(k.before, c.x); at == 0 && len(k.lines) == 0 {
			return false
		}
	}
	x := h.keep(m, nil)
	SetClaim(&x.m, nil) // who calls ends the claim
	k.before = slices.Insert(k.before, at, x)
	return true
}

// ComesBy notes that a message has come by a group. What it holds in the lanes it holds
// behind those that have left the group.
func (h *Holds) ComesBy(m *engine.Message, groups int8) (was []*Claim) {
	msg(m).Groups = groups
	if h.Any.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if EachLeafKey(m, func(leaf *engine.Message) { was = h.take(was, leaf) }); len(was) > 0 {
		h.claim(m, nil)
	}
	return was
}

// Rejoin has messages that leave a group for the lanes hold their keys there, where
// they no longer go by them, and returns the claims that they had in the group.
func (h *Holds) Rejoin(b *engine.Batch, groups int8) (was []*Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).State != inside.Live {
			continue
		}
		msg(m).Groups = groups
		EachLeafKey(m, func(leaf *engine.Message) { was = h.take(was, leaf) })
		h.claim(m, nil)
	}
	return was
}

// take takes the claim of one message, to be freed.
func (*Holds) take(all []*Claim, leaf *engine.Message) []*Claim {
	if ClaimOf(leaf) == nil {
		return all
	}
	all = append(all, ClaimOf(leaf))
	SetClaim(leaf, nil)
	return all
}

// HeldAt says whether one of m's keys is held at an output.
func (h *Holds) HeldAt(m *engine.Message, out *Place) (yes bool) {
	if h.Any.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	EachLeafKey(m, func(leaf *engine.Message) {
		if k := h.keys[string(leaf.Key)]; k != nil && k.line(out, 0) != nil {
			yes = true
		}
	})
	return yes
}

// ahead are the lines in which others are before m; h.mu is held.
func (h *Holds) ahead(m *engine.Message, out *Place) (all []*line) {
	EachLeafKey(m, func(leaf *engine.Message) {
		k := h.keys[string(leaf.Key)]
		if k == nil {
			return
		}
		if l := k.line(out, level(m, out)); l != nil && !slices.Contains(all, l) && !claims(m, l.claims[0]) {
			all = append(all, l)
		}
	})
	return all
}

// claims says whether a claim is one of m's.
func claims(m *engine.Message, c *Claim) (yes bool) {
	EachLeafKey(m, func(leaf *engine.Message) { yes = yes || ClaimOf(leaf) == c })
	return yes
}

// keep takes m out of its slab.
func (h *Holds) keep(m *engine.Message, out *Place) *held {
	msg(m).Doc.Detach()
	x := &held{m: *m, out: out}
	if msg(m).Batch != nil {
		x.batch = slab(msg(m).Batch).Like() // that one may be used again
		slab(x.batch).Arena, msg(&x.m).Batch = nil, nil
	}
	msg(&x.m).CopyOut(nil)
	msg(m).State = inside.Moved
	n := flow.Weight(&x.m)
	h.credits.Keep(n)
	if out != nil { // what waits for a lane to carry its key's owner can't give credits back
		h.credits.Put(0, 0, -n)
	}
	return x
}

// Free ends claims. The next message of a line may move on; where there is none, so
// may what is before the lanes.
func (h *Holds) Free(claims []*Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range claims {
		if c.refs--; c.refs > 0 {
			continue
		}
		l := c.at
		if l == nil {
			c.of.before = slices.DeleteFunc(c.of.before, func(x *held) bool { return x == c.x })
			h.goOn(c.of)
			continue
		}
		at := slices.Index(l.claims, c)
		l.claims = slices.Delete(l.claims, at, at+1)
		switch {
		case len(l.claims) == 0:
			h.dissolve(l)
		case at == 0:
			h.advance(l)
		}
	}
}

// advance lets the first of a line go on if it waits only for that.
func (h *Holds) advance(l *line) {
	x := l.claims[0].x
	if x == nil {
		return
	}
	x.blocked = slices.DeleteFunc(x.blocked, func(b *line) bool { return b == l })
	if len(x.blocked) == 0 {
		EachLeafKey(&x.m, func(leaf *engine.Message) { ClaimOf(leaf).x = nil })
		h.release(x)
	}
}

// dissolve removes a line without claims.
func (h *Holds) dissolve(l *line) {
	k := l.of
	k.lines = slices.DeleteFunc(k.lines, func(x *line) bool { return x == l })
	h.goOn(k)
}

// goOn lets what is before the lanes go there, up to the first gap, when no line is
// left.
func (h *Holds) goOn(k *hold) {
	if len(k.lines) > 0 {
		return
	}
	n := 0
	for n < len(k.before) && !k.before[n].gap {
		h.release(k.before[n])
		n++
	}
	if k.before = slices.Delete(k.before, 0, n); len(k.before) == 0 {
		delete(h.keys, k.key)
		h.Any.Add(-1) // from now on readers pass by: after what was released
	}
}

// release lets a message continue.
func (h *Holds) release(x *held) {
	b := flow.SlabFor(1)
	if x.batch != nil {
		b = x.batch
	}
	slab(b).Stage = msg(&x.m).Stage
	slab(b).Take(&x.m)
	n := flow.Weight(&slab(b).Msgs[0])
	h.credits.Keep(-n)
	if x.out == nil {
		h.lanes(b)
		return
	}
	h.credits.Put(0, 0, n)
	x.out.Push(b)
}
