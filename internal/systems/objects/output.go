package objects

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/network/call"
	"github.com/flowd-io/flowd/internal/systems/doubt"
)

// Output writes each message as an object.
type Output struct {
	cfg   *Target
	open  func(ctx context.Context) (Store, error)
	store atomic.Pointer[Store]
	mu    sync.Mutex        // one Probe at a time
	doubt doubt.Set[string] // keys of objects, with if_absent
}

var (
	_ engine.Opener = (*Output)(nil)
	_ engine.Closer = (*Output)(nil)
	_ engine.Prober = (*Output)(nil)
)

// NewOutput makes an output. t must not change afterwards. open connects; it is called again when credentials were refused.
func NewOutput(t *Target, open func(ctx context.Context) (Store, error)) *Output {
	return &Output{cfg: t, open: open}
}

// Open connects.
func (o *Output) Open(ctx context.Context) error {
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	o.store.Store(&s)
	return nil
}

// Probe connects again, because the credentials may have changed. Later writes use the new connection.
func (o *Output) Probe(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	if old := o.store.Swap(&s); old != nil {
		(*old).Close()
	}
	return nil
}

// Close closes idle connections.
func (o *Output) Close(context.Context) error {
	if s := o.store.Swap(nil); s != nil {
		(*s).Close()
	}
	return nil
}

// Write writes the batch. Objects with the same key are written in order.
func (o *Output) Write(ctx context.Context, b *engine.Batch) error {
	var keys [][]*object
	index := map[string]int{}
	for m := range b.All() {
		p, err := o.cfg.objectOf(m)
		if err != nil {
			m.Fail(err)
			continue
		}
		i, ok := index[p.Key]
		if !ok {
			i = len(keys)
			index[p.Key] = i
			keys = append(keys, nil)
		}
		keys[i] = append(keys[i], &object{m, p})
	}
	store := *o.store.Load()
	var stop atomic.Pointer[engine.Error]
	call.Beside(o.cfg.Parallel, len(keys), func(i int) { o.write(ctx, store, keys[i], &stop) })
	return nil
}

// object is what a message becomes.
type object struct {
	m   *engine.Message
	put *Put
}

// write writes objects of one key, in order. If one has to be retried, later ones are not written: the retry would replace
// them. No object is written while the store accepts none.
func (o *Output) write(ctx context.Context, s Store, all []*object, stop *atomic.Pointer[engine.Error]) {
	var before error
	for _, x := range all {
		err := before
		if e := stop.Load(); err == nil && e != nil {
			err = e
		}
		if err == nil {
			err = o.put(ctx, s, x.put)
		}
		if err == nil {
			x.m.Done()
			continue
		}
		x.m.Fail(err)
		if e := engine.ErrorOf(err, engine.Transient); e.HoldsOutput() || e.Delay > 0 {
			stop.CompareAndSwap(nil, e)
			before = err
		} else if doubt.MayHaveWritten(err) {
			before = err
		}
	}
}
