package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"time"
)

// reader is one instance of an input: it takes credits, reads, and hands what it
// has read to the lanes.
type reader struct {
	r    *run
	plan *inputPlan
	in   Input
	own  *lane // runs the input's own steps, in reading order
	read uint64
	acks *ackLoop // of the connection that was read last
}

func newReader(r *run, plan *inputPlan, in Input) *reader {
	rd := &reader{r: r, plan: plan, in: in, own: newLane(r, 0, plan.steps)}
	rd.own.deliver, rd.own.reads = rd.dispatch, true
	return rd
}

// loop reads until the input or ctx ends.
func (rd *reader) loop(ctx, work context.Context) error {
	for ctx.Err() == nil {
		room := rd.r.credits.read(ctx, slabSize)
		if room == 0 {
			continue
		}
		b := newSlab(room).adopt(&rd.own.arena)
		acker, err := rd.call(ctx, b)
		b.room = 0
		n := len(b.msgs)
		if n < room {
			rd.r.credits.put(room-n, 0, 0)
		}
		if n > 0 {
			rd.receive(work, b, acker)
		} else {
			recycle(b)
			runtime.Gosched()
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return nil
		default:
			return fmt.Errorf("input %s: %w", rd.plan.name, err)
		}
	}
	return nil
}

func (rd *reader) call(ctx context.Context, b *Batch) (a Acker, err error) {
	defer recovered(&err)
	a, err = rd.in.Read(ctx, b)
	if a != nil && !reflect.TypeOf(a).Comparable() {
		panic(fmt.Sprintf("engine: Read returned a %T: an Acker is told from others by ==, so it must be a pointer", a))
	}
	return a, err
}

// receive opens a ledger for what was read and starts the messages on their way.
func (rd *reader) receive(ctx context.Context, b *Batch, acker Acker) {
	if !rd.r.enter() {
		return // the run is over, and its source will find out
	}
	n := len(b.msgs)
	led := &ledger{input: rd.plan.name, at: time.Now(), acks: rd.acksOf(acker, n), then: rd.plan.then, first: rd.read, roots: make([]rootState, n)}
	led.open.Store(int32(n))
	rd.read += uint64(n)
	for i := range b.msgs {
		m := &b.msgs[i]
		led.roots[i].ref = m.Ref
		led.roots[i].pieces.Store(1)
		m.root = root{led, uint32(i)}
		m.orig = m.Bytes()
		m.credits, m.charge = 1, len(m.orig)
		b.bytes += m.charge
		if m.state == failed { // a record that the framing refuses
			complete(m.err, Decode)
		}
	}
	rd.r.open.add(led)
	rd.r.roots.receive(n)
	rd.r.pieces.receive(n)
	rd.r.credits.charge(0, b.bytes)
	rd.r.leave()
	rd.own.process(ctx, b)
}

// acksOf is the loop for an acker that is going to get n results. A new
// connection has a new one; that of the old ends when its last message has.
func (rd *reader) acksOf(acker Acker, n int) *ackLoop {
	if acker == nil {
		return nil
	}
	if rd.acks != nil && rd.acks.to != acker {
		rd.acks.close()
	}
	if rd.acks == nil || rd.acks.to != acker || !rd.acks.owe(n) {
		rd.acks = rd.r.acksOf(acker, rd.plan.name, n)
	}
	return rd.acks
}

// dispatch gives messages their order key and hands them to the lanes.
func (rd *reader) dispatch(b *Batch) {
	t, key := &rd.own.t, rd.r.plan.orderBy
	b.refuseParked("an input's own steps")
	alive := 0
	for i := range b.msgs {
		m := &b.msgs[i]
		if m.state == live && key != nil {
			k, ok, err := key.AppendKey(nil, m)
			switch {
			case err != nil:
				m.failAt("order_by", err)
			case ok:
				m.Key = k
			}
		}
		if m.state != live {
			t.conclude(m, nil)
			continue
		}
		m.pc = 0
		alive++
	}
	if alive == 0 {
		recycle(b)
		t.apply()
		return
	}
	rd.r.upstream.Add(int64(alive))
	b.sweep(alive)
	b.release()
	t.onward = append(t.onward, sending{rd.r.lanes, b}) // not beyond the lanes
	t.apply()
}
