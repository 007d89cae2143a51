package engine

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine/expr"
)

// holds keep order while messages fail. A message that waits (for another try, a
// limit, whoever parked it) owns its order key where it is: in the lanes, or at an
// output. What comes behind it there is kept until it has moved on, and what is
// read later stays before the lanes.
type holds struct {
	ordered bool
	by      *expr.Expr // gives messages their order keys; nil: their inputs do
	credits *credits
	lanes   func(*Batch) // takes what goes on there
	any     atomic.Int32 // keys that are held; read without the lock where there is none

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
	out    *place // nil: the lanes
	groups int8   // in the lanes: those that its messages are past
	claims []*claim
}

// claim is a message's place in a line: of one that is away, to be tried again or
// parked, or of one that has come back, or came behind it, and waits.
type claim struct {
	of   *hold
	at   *line // nil: a gap before the lanes
	refs int   // messages that have it: the parts of a merge share that of a key
	x    *held // that waits; nil: it is away, or on its way; the gap itself
}

// held is a message that waits until it is the first in the lines of all its keys.
type held struct {
	m       Message
	out     *place  // where it was caught; nil: in or before the lanes
	batch   *Batch  // like that in which it was caught; nil: none
	blocked []*line // in which others are before it
	gap     bool    // the place of a message that is still in its input's own steps
}

// claimOf is m's claim, or nil.
func claimOf(m *Message) *claim {
	if m.in.Rare == nil {
		return nil
	}
	c, _ := m.in.Rare.Claim.(*claim)
	return c
}

func setClaim(m *Message, c *claim) {
	if m.in.Rare != nil || c != nil {
		m.in.SetRare(func(r *Rare) { r.Claim = slot(c) })
	}
}

// place is where messages may hold their keys beside the lanes: an output or a group.
type place struct {
	push func(*Batch) // takes what goes on there
}

func newHolds(ordered bool, by *expr.Expr, c *credits, lanes func(*Batch)) *holds {
	return &holds{ordered: ordered, by: by, credits: c, lanes: lanes, keys: map[string]*hold{}}
}

// own makes m hold its keys at an output, or, with nil, in the lanes.
func (h *holds) own(m *Message, out *place) {
	if !h.ordered || m.in.Dead {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claim(m, out)
}

// claim puts m at the end of the lines of its keys, where it is not in them already,
// and in front of the other parts of the split from which it came; h.mu is held.
func (h *holds) claim(m *Message, out *place) {
	m.eachLeafKey(func(leaf *Message) {
		if claimOf(leaf) != nil {
			m.setApart(claimOf(leaf))
			return
		}
		l := h.line(leaf.Key, out, m.level(out))
		m.eachLeafKey(func(other *Message) {
			if c := claimOf(other); c != nil && c.at == l {
				setClaim(leaf, c)
			}
		})
		if claimOf(leaf) == nil {
			c := &claim{of: l.of, at: l}
			setClaim(leaf, c)
			l.claims = append(l.claims, c)
		}
		claimOf(leaf).refs++
	})
}

// level is how far m has come in the lanes: what is past a group does not wait for what
// is not, nor the other way round.
func (m *Message) level(out *place) int8 {
	if out != nil {
		return 0
	}
	return m.in.Groups
}

// setApart gives m a claim of its own in front of one that it shares with the parts
// behind it.
func (m *Message) setApart(shared *claim) {
	mine := 0
	m.eachLeafKey(func(leaf *Message) {
		if claimOf(leaf) == shared {
			mine++
		}
	})
	if mine == shared.refs {
		return
	}
	own := &claim{of: shared.of, at: shared.at, refs: mine}
	shared.refs -= mine
	if l := shared.at; l != nil {
		at := slices.Index(l.claims, shared)
		l.claims = slices.Insert(l.claims, at, own)
	} else {
		k := shared.of
		own.x = &held{gap: true}
		k.before = slices.Insert(k.before, slices.Index(k.before, shared.x), own.x)
	}
	m.eachLeafKey(func(leaf *Message) {
		if claimOf(leaf) == shared {
			setClaim(leaf, own)
		}
	})
}

// share counts that a part of a split has the claims of what was split.
func (h *holds) share(part *Message) {
	if h.any.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	part.eachLeafKey(func(leaf *Message) {
		if claimOf(leaf) != nil {
			claimOf(leaf).refs++
		}
	})
}

// line finds or begins the line of a key at a place; h.mu is held.
func (h *holds) line(key []byte, out *place, groups int8) *line {
	k := h.hold(key)
	if l := k.line(out, groups); l != nil {
		return l
	}
	l := &line{of: k, out: out, groups: groups}
	k.lines = append(k.lines, l)
	return l
}

// hold finds or makes the hold of a key; h.mu is held.
func (h *holds) hold(key []byte) *hold {
	k := h.keys[string(key)]
	if k == nil {
		k = &hold{key: string(key)}
		h.keys[k.key] = k
		h.any.Add(1)
	}
	return k
}

// leaveGap keeps the place of a message that waits in its input's own steps, before
// it has an order key: by the key that it would have as it is.
func (h *holds) leaveGap(m *Message) {
	key := h.by
	if key == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if claimOf(m) != nil {
		m.setApart(claimOf(m))
		return
	}
	text, ok, err := key.AppendKey(nil, m)
	if err != nil || !ok {
		return
	}
	k := h.hold(text)
	gap := &held{gap: true}
	k.before = append(k.before, gap)
	setClaim(m, &claim{of: k, refs: 1, x: gap})
}

func (k *hold) line(out *place, groups int8) *line {
	i := slices.IndexFunc(k.lines, func(l *line) bool { return l.out == out && l.groups == groups })
	if i < 0 {
		return nil
	}
	return k.lines[i]
}

// eachLeafKey calls f for each message with a key that m stands for.
func (m *Message) eachLeafKey(f func(*Message)) {
	if len(m.in.Of) == 0 {
		if m.Key != nil || claimOf(m) != nil {
			f(m)
		}
		return
	}
	for i := range m.in.Of {
		m.in.Of[i].eachLeafKey(f)
	}
}

// before keeps m, which is about to go to the lanes behind earlier ones, if its key
// is held anywhere. It goes with one of its key: that one has not arrived yet.
func (h *holds) before(earlier []Message, m *Message) bool {
	if h.any.Load() == 0 || m.Key == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.keys[string(m.Key)]
	if k == nil {
		return false
	}
	if !slices.ContainsFunc(k.before, func(x *held) bool { return x.gap }) &&
		slices.ContainsFunc(earlier, func(e Message) bool { return e.in.State == live && bytes.Equal(e.Key, m.Key) }) {
		return false
	}
	at := len(k.before)
	if c := claimOf(m); c != nil && c.of == k { // it has its place
		if at = slices.Index(k.before, c.x); at == 0 && len(k.lines) == 0 {
			return false
		}
	}
	x := h.keep(m, nil)
	setClaim(&x.m, nil) // who calls ends the claim
	k.before = slices.Insert(k.before, at, x)
	return true
}

// comesBy notes that a message has come by a group. What it holds in the lanes it holds
// behind those that have left the group.
func (h *holds) comesBy(m *Message, groups int8) (was []*claim) {
	m.in.Groups = groups
	if h.any.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m.eachLeafKey(func(leaf *Message) { was = h.take(was, leaf) }); len(was) > 0 {
		h.claim(m, nil)
	}
	return was
}

// rejoin has messages that leave a group for the lanes hold their keys there, where
// they no longer go by them, and returns the claims that they had in the group.
func (h *holds) rejoin(b *Batch, groups int8) (was []*claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range b.in.Msgs {
		m := &b.in.Msgs[i]
		if m.in.State != live {
			continue
		}
		m.in.Groups = groups
		m.eachLeafKey(func(leaf *Message) { was = h.take(was, leaf) })
		h.claim(m, nil)
	}
	return was
}

// take takes the claim of one message, to be freed.
func (*holds) take(all []*claim, leaf *Message) []*claim {
	if claimOf(leaf) == nil {
		return all
	}
	all = append(all, claimOf(leaf))
	setClaim(leaf, nil)
	return all
}

// heldAt says whether one of m's keys is held at an output.
func (h *holds) heldAt(m *Message, out *place) (yes bool) {
	if h.any.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m.eachLeafKey(func(leaf *Message) {
		if k := h.keys[string(leaf.Key)]; k != nil && k.line(out, 0) != nil {
			yes = true
		}
	})
	return yes
}

// ahead are the lines in which others are before m; h.mu is held.
func (h *holds) ahead(m *Message, out *place) (all []*line) {
	m.eachLeafKey(func(leaf *Message) {
		k := h.keys[string(leaf.Key)]
		if k == nil {
			return
		}
		if l := k.line(out, m.level(out)); l != nil && !slices.Contains(all, l) && !m.claims(l.claims[0]) {
			all = append(all, l)
		}
	})
	return all
}

// claims says whether a claim is one of m's.
func (m *Message) claims(c *claim) (yes bool) {
	m.eachLeafKey(func(leaf *Message) { yes = yes || claimOf(leaf) == c })
	return yes
}

// keep takes m out of its slab.
func (h *holds) keep(m *Message, out *place) *held {
	m.in.Doc.Detach()
	x := &held{m: *m, out: out}
	if m.in.Batch != nil {
		x.batch = m.in.Batch.in.Like() // that one may be used again
		x.batch.in.Arena, x.m.in.Batch = nil, nil
	}
	x.m.in.CopyOut(nil)
	m.in.State = moved
	n := x.m.weight()
	h.credits.keep(n)
	if out != nil { // what waits for a lane to carry its key's owner can't give credits back
		h.credits.put(0, 0, -n)
	}
	return x
}

// free ends claims. The next message of a line may move on; where there is none, so
// may what is before the lanes.
func (h *holds) free(claims []*claim) {
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
func (h *holds) advance(l *line) {
	x := l.claims[0].x
	if x == nil {
		return
	}
	x.blocked = slices.DeleteFunc(x.blocked, func(b *line) bool { return b == l })
	if len(x.blocked) == 0 {
		x.m.eachLeafKey(func(leaf *Message) { claimOf(leaf).x = nil })
		h.release(x)
	}
}

// dissolve removes a line without claims.
func (h *holds) dissolve(l *line) {
	k := l.of
	k.lines = slices.DeleteFunc(k.lines, func(x *line) bool { return x == l })
	h.goOn(k)
}

// goOn lets what is before the lanes go there, up to the first gap, when no line is
// left.
func (h *holds) goOn(k *hold) {
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
		h.any.Add(-1) // from now on readers pass by: after what was released
	}
}

// release lets a message go on.
func (h *holds) release(x *held) {
	b := slabFor(1)
	if x.batch != nil {
		b = x.batch
	}
	b.in.Stage = x.m.in.Stage
	b.in.Take(&x.m)
	n := b.in.Msgs[0].weight()
	h.credits.keep(-n)
	if x.out == nil {
		h.lanes(b)
		return
	}
	h.credits.put(0, 0, n)
	x.out.push(b)
}
