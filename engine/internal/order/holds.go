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

// Holds keep the order of keys while messages fail. A message that waits (for another attempt, a rate limit, or the code
// that parked it) holds its order key at its place: in the lanes, or at an output. Later messages with this key are kept
// there until it has moved on. Messages that are read later stay before the lanes. All methods are safe for concurrent
// use.
type Holds struct {
	ordered bool
	by      *expr.Expr // computes order keys; nil: the inputs set them
	credits *flow.Credits
	lanes   func(*engine.Batch) // takes messages that continue in the lanes
	Any     atomic.Int32        // how many keys are held: if it is 0, nobody takes the lock

	mu   sync.Mutex // guards the fields below, and keeps released messages in order
	keys map[string]*hold
}

// hold is a key that is held in lines, or by gaps before the lanes.
type hold struct {
	key    string
	lines  []*line
	before []*held // messages and gaps before the lanes, in the order of reading
}

// line is the queue of a key at one place. Only the message at its head may move on.
type line struct {
	of     *hold
	out    *Place   // nil: the lanes
	groups int8     // in the lanes: how many groups its messages have passed
	claims []*Claim // in the order of the messages
}

// Claim is a message's place in a line. The message is away (to be tried again, or parked), or it waits for those
// before it.
type Claim struct {
	of   *hold
	at   *line // nil: a gap before the lanes
	refs int   // how many messages share it, such as the parts of a split
	x    *held // the waiting message, or the gap; nil: the message is away or moving

	roots []engine.Origin // of its messages
}

// held is a message that waits until it is first in the lines of all its keys, or a gap.
type held struct {
	m       engine.Message
	out     *Place        // where it was kept; nil: in or before the lanes
	batch   *engine.Batch // an empty copy of its batch; nil: it had none
	blocked []*line       // the lines in which others are before it
	gap     bool          // it is a gap, and m is not set
	root    engine.Origin // of a gap's message
}

// ClaimOf is m's claim, or nil.
func ClaimOf(m *engine.Message) *Claim {
	if msg(m).Rare == nil {
		return nil
	}
	c, _ := msg(m).Rare.Claim.(*Claim)
	return c
}

// SetClaim sets the claim of m; nil removes it.
func SetClaim(m *engine.Message, c *Claim) {
	switch {
	case c != nil:
		msg(m).SetClaim(c)
	case msg(m).Rare != nil:
		msg(m).SetClaim(nil)
	}
}

// IsClaim makes a Claim what a message keeps.
func (*Claim) IsClaim(inside.Key) {}

// Place is a place other than the lanes where messages hold their keys: an output or a group.
type Place struct {
	Push func(*engine.Batch) // takes messages that continue there; called under the lock of the holds
}

// NewHolds makes the holds of a run. by computes the order keys of messages; if it is nil, the inputs set them. lanes
// takes messages that continue in the lanes; it is called under the lock of the holds.
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

// claim puts m at the end of the lines of its keys. In lines where it has a claim already it keeps its place; if it
// shares the claim with later parts of a split, it gets its own in front of them. h.mu is held.
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
		if root := msg(leaf).First().Origin; !slices.Contains(c.roots, root) {
			c.roots = append(c.roots, root)
		}
	})
}

// level is how many groups m has passed in the lanes. Messages on different levels do not wait for each other.
func level(m *engine.Message, out *Place) int8 {
	if out != nil {
		return 0
	}
	return msg(m).Groups
}

// setApart gives m a claim of its own in front of the one that it shares with later parts of a split.
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

// Share counts that part, a new part of a split, shares the claims of the whole.
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

// line returns the line of a key at a place, and makes it if there is none. h.mu is held.
func (h *Holds) line(key []byte, out *Place, groups int8) *line {
	k := h.hold(key)
	if l := k.line(out, groups); l != nil {
		return l
	}
	l := &line{of: k, out: out, groups: groups}
	k.lines = append(k.lines, l)
	return l
}

// hold returns the hold of a key, and makes it if there is none. h.mu is held.
func (h *Holds) hold(key []byte) *hold {
	k := h.keys[string(key)]
	if k == nil {
		k = &hold{key: string(key)}
		h.keys[k.key] = k
		h.Any.Add(1)
	}
	return k
}

// LeaveGap keeps the place of a message that waits in its input's own steps, where it has no order key yet. The gap is
// in the line of the key that the message would have with its present payload.
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
	gap := &held{gap: true, root: msg(m).First().Origin}
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

// EachLeafKey calls f for m or, if m is a merge, for each of its parts, unless they have neither a key nor a claim.
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

// Before keeps m, which is about to go to the lanes, if its key is held anywhere. earlier are the messages before it in
// its batch. If one of them with the same key goes to the lanes, m follows it, unless there is a gap.
//
// If m has a claim of its own, from [Holds.LeaveGap], it takes that place. The caller then frees the claim.
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
	if c := ClaimOf(m); c != nil && c.of == k { // m takes the place of its gap
		if at = slices.Index(k.before, c.x); at == 0 && len(k.lines) == 0 {
			return false
		}
	}
	x := h.keep(m, nil)
	SetClaim(&x.m, nil) // the caller frees the claim
	k.before = slices.Insert(k.before, at, x)
	return true
}

// ComesBy notes that m has passed a group without entering it. Keys that it holds in the lanes it now holds behind the
// messages that have left the group. It returns the claims that m had before, for the caller to free.
func (h *Holds) ComesBy(m *engine.Message, groups int8) (was []*Claim) {
	msg(m).Groups = groups
	if h.Any.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if was = takeClaims(was, m); len(was) > 0 {
		h.claim(m, nil)
	}
	return was
}

// Rejoin makes messages that leave a group for the lanes hold their keys there, since the lanes no longer get them in
// the order of their keys. It returns the claims that they had in the group, for the caller to free.
func (h *Holds) Rejoin(b *engine.Batch, groups int8) (was []*Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range slab(b).Msgs {
		m := &slab(b).Msgs[i]
		if msg(m).State != inside.Live {
			continue
		}
		msg(m).Groups = groups
		was = takeClaims(was, m)
		h.claim(m, nil)
	}
	return was
}

// takeClaims removes the claims of m and appends them to all.
func takeClaims(all []*Claim, m *engine.Message) []*Claim {
	EachLeafKey(m, func(leaf *engine.Message) {
		if c := ClaimOf(leaf); c != nil {
			all = append(all, c)
			SetClaim(leaf, nil)
		}
	})
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

// linesAhead are the lines in which others are before m; h.mu is held.
func (h *Holds) linesAhead(m *engine.Message, out *Place) (all []*line) {
	EachLeafKey(m, func(leaf *engine.Message) {
		k := h.keys[string(leaf.Key)]
		if k == nil {
			return
		}
		if l := k.line(out, level(m, out)); l != nil && !slices.Contains(all, l) && !hasClaim(m, l.claims[0]) {
			all = append(all, l)
		}
	})
	return all
}

// hasClaim says whether a claim is one of m's.
func hasClaim(m *engine.Message, c *Claim) (yes bool) {
	EachLeafKey(m, func(leaf *engine.Message) { yes = yes || ClaimOf(leaf) == c })
	return yes
}

// keep takes m out of its slab.
func (h *Holds) keep(m *engine.Message, out *Place) *held {
	msg(m).Doc.Detach()
	x := &held{m: *m, out: out}
	if msg(m).Batch != nil {
		x.batch = slab(msg(m).Batch).Like() // the batch itself may be recycled
		slab(x.batch).Arena, msg(&x.m).Batch = nil, nil
	}
	msg(&x.m).CopyOut(nil)
	msg(m).State = inside.Moved
	n := flow.Weight(&x.m)
	h.credits.Keep(n)
	if out != nil { // x may wait for a message in the lanes, so lanes can't wait for its credits
		h.credits.Put(0, 0, -n)
	}
	return x
}

// Free ends claims. The next message of each line moves on. When the last line of a key is empty, the messages of that
// key before the lanes move on.
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
			h.releaseBefore(c.of)
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

// advance releases the first message of a line if no other line blocks it.
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
	h.releaseBefore(k)
}

// releaseBefore releases the messages of a key before the lanes, up to the first gap, if the key has no line left.
func (h *Holds) releaseBefore(k *hold) {
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
		h.Any.Add(-1) // after the releases: from now on readers pass by without the lock
	}
}

// release sends a message on to the lanes or its place.
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
