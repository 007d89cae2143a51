package engine

import (
	"context"
	"sync"

	"github.com/flowd-io/flowd/engine/doc"
)

// outRun is an output at work: a queue, and writers that take from it.
type outRun struct {
	r    *run
	plan *outputPlan

	mu     sync.Mutex // guards the fields below
	cond   sync.Cond
	ready  slabList
	chains map[string][]*Batch // by key: what is in flight, and what waits behind it
	idle   int                 // writers that wait
	closed bool
}

func newOutRun(r *run, plan *outputPlan) *outRun {
	o := &outRun{r: r, plan: plan}
	o.cond.L = &o.mu
	if plan.concurrency > 1 {
		o.chains = map[string][]*Batch{}
	}
	return o
}

// push queues a batch, or messages that belong to none.
func (o *outRun) push(b *Batch) {
	if o.chains == nil {
		o.mu.Lock()
		o.ready.push(b)
		o.mu.Unlock()
		o.cond.Signal()
		return
	}
	parts := []*Batch{b}
	if o.r.plan.ordered && b.trigger == "" {
		parts = spread(b, o.plan.concurrency)
	}
	o.mu.Lock()
	for _, p := range parts {
		if p != nil && o.chain(p) {
			o.ready.push(p)
		}
	}
	o.mu.Unlock()
	o.cond.Broadcast()
}

// chain queues b behind what has one of its keys; true when there is nothing.
// o.mu is held.
func (o *outRun) chain(b *Batch) bool {
	if b.trigger != "" && len(b.msgs) > 0 && b.msgs[0].batchKey != nil {
		o.link(b, "b"+string(b.msgs[0].batchKey))
	}
	if o.r.plan.ordered {
		for i := range b.msgs {
			if k := b.msgs[i].Key; k != nil {
				o.link(b, "o"+string(k))
			}
		}
	}
	return b.blockers == 0
}

func (o *outRun) link(b *Batch, key string) {
	chain := o.chains[key]
	if n := len(chain); n > 0 {
		if chain[n-1] == b {
			return
		}
		b.blockers++
	}
	o.chains[key] = append(chain, b)
	b.chains = append(b.chains, key)
}

// pop waits for what one write takes: a batch, or the messages that are there.
func (o *outRun) pop() *Batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.ready.head == nil && !o.closed {
		o.idle++
		o.mu.Unlock()
		o.r.relieve()
		o.mu.Lock()
		if o.ready.head == nil && !o.closed {
			o.cond.Wait()
		}
		o.idle--
	}
	if o.closed {
		return nil
	}
	head := o.ready.head
	if head.whole() {
		return o.ready.pop(len(head.msgs))
	}
	want := min(slabSize, (o.ready.msgs+o.plan.concurrency-1)/o.plan.concurrency)
	b := o.ready.pop(want)
	for next := o.ready.head; next != nil && len(b.msgs) < want && !next.whole() && next.batcher == b.batcher; next = o.ready.head {
		if cap(b.msgs) < want {
			b = b.into(newSlab(0))
		}
		o.ready.pop(want - len(b.msgs)).into(b)
	}
	return b
}

// into moves all messages of b to another batch of its batcher.
func (b *Batch) into(to *Batch) *Batch {
	to.batcher = b.batcher
	for i := range b.msgs {
		to.take(&b.msgs[i])
	}
	recycle(b)
	return to
}

// whole says that b must be written as it is.
func (b *Batch) whole() bool { return b.trigger != "" || len(b.chains) > 0 }

// done lets go of the keys of a batch.
func (o *outRun) done(chains []string) {
	if len(chains) == 0 {
		return
	}
	o.mu.Lock()
	for _, key := range chains {
		chain := o.chains[key][1:]
		if len(chain) == 0 {
			delete(o.chains, key)
			continue
		}
		o.chains[key] = chain
		if chain[0].blockers--; chain[0].blockers == 0 {
			o.ready.push(chain[0])
		}
	}
	o.mu.Unlock()
	o.cond.Broadcast()
}

// hungry says whether a writer has nothing to do.
func (o *outRun) hungry() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.idle > 0 && o.ready.head == nil
}

func (o *outRun) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.cond.Broadcast()
}

// writer is one of an output's concurrent writes.
type writer struct {
	out   *outRun
	t     tally
	x     executor
	arena doc.Arena
}

func (w *writer) loop(ctx context.Context) {
	w.t = tally{r: w.out.r, past: true}
	w.x.own = w
	for {
		b := w.out.pop()
		if b == nil {
			return
		}
		chains := b.chains
		w.t.was = b.bytes
		b = w.steps(ctx, b.adopt(&w.arena))
		w.writeAll(ctx, b)
		w.finish(b)
		w.arena.Reset()
		w.out.done(chains)
	}
}

// steps runs the batcher's and the output's own steps over b.
func (w *writer) steps(ctx context.Context, b *Batch) *Batch {
	if b.batcher != nil {
		if b.trigger == "" {
			b.size = len(b.msgs)
		}
		for i := range b.msgs {
			b.msgs[i].batch = b
		}
	}
	if b.batcher != nil && !b.dead() {
		b = w.run(ctx, b, b.batcher.steps)
	}
	return w.run(ctx, b, w.out.plan.steps)
}

func (w *writer) run(ctx context.Context, b *Batch, p *program) *Batch {
	if len(p.ops) == 0 {
		return b
	}
	for i := range b.msgs {
		b.msgs[i].pc = 0
	}
	w.x.prog = p
	b = w.x.exec(ctx, b, 0)
	b.refuseParked("the steps of a batcher or an output")
	return b
}

// dead says that b holds dead letters, which are never in a batch with others.
func (b *Batch) dead() bool { return len(b.msgs) > 0 && b.msgs[0].dead }

func (w *writer) merge(m *Message) { account(&w.t, m) }

func (w *writer) split(_ context.Context, x *executor, b *Batch, pc int32) *Batch {
	same := func(cur *Batch, _ bool) *Batch { return cur }
	out := b.like()
	b.pull(out, &x.prog.ops[pc], same, func(_, p *Message) {
		p.credits, p.charge = 1, len(p.orig)
		w.out.r.credits.charge(1, p.charge)
		w.t.beyond++
		p.eachRoot(func(r root) { r.add(1) })
		w.t.made++
	}, func(m *Message, _ int) { w.t.consume(m) })
	for i := range out.msgs {
		out.msgs[i].batch = out
	}
	recycle(b)
	return out
}

// writeAll writes the live messages of b: at once, or, where the output does not
// keep order within a write, so that no write has an order key twice.
func (w *writer) writeAll(ctx context.Context, b *Batch) {
	if !w.out.r.plan.ordered || w.out.plan.sequential {
		w.write(ctx, b, nil)
		return
	}
	seen := map[string]bool{}
	var sel []int32
	for i := range b.msgs {
		m := &b.msgs[i]
		if m.state != live {
			continue
		}
		twice := false
		m.eachLeaf(func(p *Message) { twice = twice || seen[string(p.Key)] })
		if twice {
			w.write(ctx, b, sel)
			clear(seen)
			sel = sel[:0]
		}
		m.eachLeaf(func(p *Message) {
			if p.Key != nil {
				seen[string(p.Key)] = true
			}
		})
		sel = append(sel, int32(i))
	}
	w.write(ctx, b, sel)
}

// write makes one write and notes in each message what came of it.
func (w *writer) write(ctx context.Context, b *Batch, sel []int32) {
	b.sel = sel
	defer func() { b.sel = nil }()
	any := false
	for range b.All() {
		any = true
		break
	}
	if !any {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, w.out.plan.timeout)
	defer cancel()
	err := w.call(ctx, b)
	w.undo(b)
	for m := range b.All() {
		if err != nil {
			m.Fail(err)
		} else {
			m.state = done
		}
	}
}

// undo fails what a write has split or merged: that is for steps.
func (w *writer) undo(b *Batch) {
	wrong := Errorf(Permanent, "an output can't split or merge messages")
	for _, s := range b.splits {
		b.msgs[s.i].Fail(wrong)
	}
	for _, m := range b.merges {
		account(&w.t, m)
		m.Fail(wrong)
		b.msgs = append(b.msgs, *m)
	}
	b.splits, b.merges = nil, nil
}

func (w *writer) call(ctx context.Context, b *Batch) (err error) {
	defer recovered(&err)
	return w.out.plan.out.Write(ctx, b)
}

// finish ends the messages of b as the steps and the write have left them.
func (w *writer) finish(b *Batch) {
	r := w.out.r
	if !r.enter() {
		return
	}
	defer r.leave()
	for i := range b.msgs {
		w.t.conclude(&b.msgs[i], w.out)
	}
	recycle(b)
	w.t.apply()
}
