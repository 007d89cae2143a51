package redisstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// mostIDs is how many ids a command has.
const mostIDs = 500

// order is a command about entries of one stream.
type order struct {
	entries []*entry
	cmds    []*goredis.Cmd
}

func (o *order) err() error {
	for _, c := range o.cmds {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// orders makes commands about entries, each about some of one stream.
func orders(all []*entry, of func(key string, ids []any) []*goredis.Cmd) (made []order, cmds []*goredis.Cmd) {
	byKey := map[string][]*entry{}
	var keys []string
	for _, e := range all {
		if byKey[e.key] == nil {
			keys = append(keys, e.key)
		}
		byKey[e.key] = append(byKey[e.key], e)
	}
	for _, key := range keys {
		for some := range slices.Chunk(byKey[key], mostIDs) {
			ids := make([]any, len(some))
			for i, e := range some {
				ids[i] = e.ID
			}
			o := order{some, of(key, ids)}
			made, cmds = append(made, o), append(cmds, o.cmds...)
		}
	}
	return made, cmds
}

// Ack acknowledges what is settled, and hands back the rest.
func (in *input) Ack(ctx context.Context, rs []engine.Result) (again []engine.Result, err error) {
	c := in.Conn()
	byRef := make(map[uint64]engine.Result, len(rs))
	var done, back, failed []*entry
	in.mu.Lock()
	for _, r := range rs {
		e := in.held[r.Ref]
		if e == nil { // lost
			continue
		}
		byRef[r.Ref] = r
		switch {
		case r.Fate != engine.Returned:
			done = append(done, e)
		case r.Err == nil || r.Err.Unfinished() || in.Stopping():
			back = append(back, e)
		default:
			failed = append(failed, e) // it comes again when it has been idle for long enough
		}
	}
	in.mu.Unlock()
	ended := failed
	acked, cmds := orders(done, func(key string, ids []any) []*goredis.Cmd { return in.acknowledge(ctx, key, ids) })
	ctx, cancel := c.Within(ctx)
	defer cancel()
	c.Send(ctx, cmds)
	for _, o := range acked {
		if e := o.err(); e != nil {
			err = redis.Explain(e, "acknowledge entries of stream "+o.entries[0].key)
			again = append(again, resultsOf(o.entries, byRef)...)
			continue
		}
		ended = append(ended, o.entries...)
	}
	gone, kept, backErr := in.handBack(ctx, c, back)
	if backErr != nil {
		err = backErr
	}
	again = append(again, resultsOf(kept, byRef)...)
	in.forget(append(ended, gone...))
	return again, err
}

// acknowledge is what ends entries. They are deleted first: what is left of an entry that is only deleted is found
// again, and one that is only acknowledged would stay.
func (in *input) acknowledge(ctx context.Context, key string, ids []any) (cmds []*goredis.Cmd) {
	if in.cfg.Delete {
		cmds = append(cmds, redis.Cmd(ctx, 1, append([]any{"xdel", key}, ids...)...))
	}
	return append(cmds, redis.Cmd(ctx, 1, append([]any{"xack", key, in.cfg.Group}, ids...)...))
}

func resultsOf(entries []*entry, byRef map[uint64]engine.Result) (rs []engine.Result) {
	for _, e := range entries {
		rs = append(rs, byRef[e.ref])
	}
	return rs
}

// handBack lets any consumer take entries at its next look: they are as idle as that needs. Those for which that did
// not work are kept.
func (in *input) handBack(ctx context.Context, c *conn, all []*entry) (gone, kept []*entry, err error) {
	made, cmds := orders(all, func(key string, ids []any) []*goredis.Cmd {
		return []*goredis.Cmd{in.xclaim(ctx, key, ids, 0, in.cfg.ClaimAfter)}
	})
	ctx, cancel := c.Within(ctx)
	defer cancel()
	c.Send(ctx, cmds)
	for _, o := range made {
		if e := o.err(); e != nil && !redis.Says(e, "NOGROUP") {
			err = redis.Explain(e, "hand back entries of stream "+o.entries[0].key)
			kept = append(kept, o.entries...)
			continue
		}
		gone = append(gone, o.entries...)
	}
	return gone, kept, err
}

// xclaim claims entries that have been idle for long enough, and says since when they are idle then. It is no delivery.
func (in *input) xclaim(ctx context.Context, key string, ids []any, least, idle time.Duration) *goredis.Cmd {
	args := append([]any{"xclaim", key, in.cfg.Group, in.consumer, least.Milliseconds()}, ids...)
	return redis.Cmd(ctx, 1, append(args, "idle", idle.Milliseconds(), "justid")...)
}

// forget ends entries here.
func (in *input) forget(all []*entry) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range all {
		delete(in.held, e.ref)
		delete(in.refs, spot{e.key, e.ID})
	}
}

// Renew keeps entries from being idle. One that another consumer has claimed is lost.
func (in *input) Renew(ctx context.Context, _ []uint64) (lost []uint64, next time.Duration, err error) {
	c := in.Conn()
	next = in.cfg.ClaimAfter / 4
	now := time.Now()
	var fresh, stale []*entry
	in.mu.Lock()
	for _, e := range in.held {
		if now.Sub(e.renewed) < in.cfg.ClaimAfter/2 {
			fresh = append(fresh, e)
		} else {
			stale = append(stale, e)
		}
	}
	in.mu.Unlock()
	made, cmds := orders(fresh, func(key string, ids []any) []*goredis.Cmd {
		return []*goredis.Cmd{in.xclaim(ctx, key, ids, 0, 0)}
	})
	// Who has claimed a stale one has done so claim_after after its renewal or later: it is less idle than this asks for.
	for _, e := range stale {
		least := now.Sub(e.renewed) - in.cfg.ClaimAfter/2
		o := order{[]*entry{e}, []*goredis.Cmd{in.xclaim(ctx, e.key, []any{e.ID}, max(0, least), 0)}}
		made, cmds = append(made, o), append(cmds, o.cmds...)
	}
	ctx, cancel := c.Within(ctx)
	defer cancel()
	c.Send(ctx, cmds)
	var missing []*entry
	for _, o := range made {
		if e := o.err(); e != nil {
			if !redis.Says(e, "NOGROUP") {
				err = redis.Explain(e, "renew entries of stream "+o.entries[0].key)
				next = in.cfg.ClaimAfter / 16
			}
			continue
		}
		missing = append(missing, in.renewed(o, now)...)
	}
	lost, e := in.taken(ctx, c, missing)
	return lost, next, errors.Join(err, e)
}

// renewed notes what a command has claimed, and gives the others.
func (in *input) renewed(o order, now time.Time) (missing []*entry) {
	ids, _ := o.cmds[0].StringSlice()
	claimed := make(map[string]bool, len(ids))
	for _, id := range ids {
		claimed[id] = true
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range o.entries {
		switch {
		case in.held[e.ref] != e: // settled meanwhile
		case claimed[e.ID]:
			e.renewed = now
		default:
			missing = append(missing, e)
		}
	}
	return missing
}

// taken are those that another consumer has. One that nobody has was trimmed, or the group was dropped: it goes on
// here.
func (in *input) taken(ctx context.Context, c *conn, missing []*entry) (lost []uint64, err error) {
	cmds := make([]*goredis.Cmd, len(missing))
	for i, e := range missing {
		cmds[i] = redis.Cmd(ctx, 1, "xpending", e.key, in.cfg.Group, e.ID, e.ID, 1)
	}
	c.Send(ctx, cmds)
	var gone []*entry
	for i, e := range missing {
		answer, err := cmds[i].Result()
		if err != nil {
			return lost, redis.Explain(err, "ask for entries of stream "+e.key)
		}
		if o, ok := pending(answer)[e.ID]; ok && o.consumer != in.consumer {
			lost, gone = append(lost, e.ref), append(gone, e)
		}
	}
	in.forget(gone)
	return lost, nil
}
