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

// maxIDs is the maximum number of ids in a command.
const maxIDs = 500

// request is the commands about some entries of one stream.
type request struct {
	entries []*entry
	cmds    []*goredis.Cmd
}

// err returns the first error of the commands.
func (q *request) err() error {
	for _, c := range q.cmds {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

// requests groups entries by stream, up to maxIDs in each group, and calls commands for each. It also returns all commands.
func requests(all []*entry, commands func(key string, ids []any) []*goredis.Cmd) (rs []request, cmds []*goredis.Cmd) {
	byKey := map[string][]*entry{}
	var keys []string
	for _, e := range all {
		if byKey[e.key] == nil {
			keys = append(keys, e.key)
		}
		byKey[e.key] = append(byKey[e.key], e)
	}
	for _, key := range keys {
		for some := range slices.Chunk(byKey[key], maxIDs) {
			ids := make([]any, len(some))
			for i, e := range some {
				ids[i] = e.ID
			}
			q := request{some, commands(key, ids)}
			rs, cmds = append(rs, q), append(cmds, q.cmds...)
		}
	}
	return rs, cmds
}

// Ack acknowledges settled entries, and hands returned ones back.
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
			failed = append(failed, e) // it is redelivered after claim_after
		}
	}
	in.mu.Unlock()
	ended := failed
	acked, cmds := requests(done, func(key string, ids []any) []*goredis.Cmd { return in.acknowledge(ctx, key, ids) })
	ctx, cancel := c.Within(ctx)
	defer cancel()
	c.Send(ctx, cmds)
	for _, q := range acked {
		if e := q.err(); e != nil {
			err = redis.Explain(e, "acknowledge entries of stream "+q.entries[0].key)
			again = append(again, resultsOf(q.entries, byRef)...)
			continue
		}
		ended = append(ended, q.entries...)
	}
	gone, kept, backErr := in.handBack(ctx, c, back)
	if backErr != nil {
		err = backErr
	}
	again = append(again, resultsOf(kept, byRef)...)
	in.forget(append(ended, gone...))
	return again, err
}

// acknowledge returns the commands that settle entries. It deletes them first: if XACK fails afterwards, the entry is still
// pending and is acknowledged later. An entry that was only acknowledged would stay in the stream.
func (in *input) acknowledge(ctx context.Context, key string, ids []any) (cmds []*goredis.Cmd) {
	if in.cfg.Delete {
		cmds = append(cmds, redis.Cmd(ctx, 1, append([]any{"xdel", key}, ids...)...))
	}
	return append(cmds, redis.Cmd(ctx, 1, append([]any{"xack", key, in.cfg.Group}, ids...)...))
}

// resultsOf returns the results of entries.
func resultsOf(entries []*entry, byRef map[uint64]engine.Result) (rs []engine.Result) {
	for _, e := range entries {
		rs = append(rs, byRef[e.ref])
	}
	return rs
}

// handBack lets any consumer claim the entries at its next scan: it sets their idle time to claim_after. It returns the
// entries that were handed back, and those for which that failed.
func (in *input) handBack(ctx context.Context, c *conn, all []*entry) (gone, kept []*entry, err error) {
	rs, cmds := requests(all, func(key string, ids []any) []*goredis.Cmd {
		return []*goredis.Cmd{in.xclaim(ctx, key, ids, 0, in.cfg.ClaimAfter)}
	})
	ctx, cancel := c.Within(ctx)
	defer cancel()
	c.Send(ctx, cmds)
	for _, q := range rs {
		if e := q.err(); e != nil && !redis.HasErrorPrefix(e, "NOGROUP") {
			err = redis.Explain(e, "hand back entries of stream "+q.entries[0].key)
			kept = append(kept, q.entries...)
			continue
		}
		gone = append(gone, q.entries...)
	}
	return gone, kept, err
}

// xclaim claims entries that have been idle for minIdle, and sets their idle time. It does not count as a delivery.
func (in *input) xclaim(ctx context.Context, key string, ids []any, minIdle, idle time.Duration) *goredis.Cmd {
	args := append([]any{"xclaim", key, in.cfg.Group, in.consumer, minIdle.Milliseconds()}, ids...)
	return redis.Cmd(ctx, 1, append(args, "idle", idle.Milliseconds(), "justid")...)
}

// forget removes entries from held.
func (in *input) forget(all []*entry) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range all {
		delete(in.held, e.ref)
		delete(in.refs, entryKey{e.key, e.ID})
	}
}

// Renew resets the idle time of the entries in flight. Those that another consumer has claimed are lost.
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
	rs, cmds := requests(fresh, func(key string, ids []any) []*goredis.Cmd {
		return []*goredis.Cmd{in.xclaim(ctx, key, ids, 0, 0)}
	})
	// Another consumer can have claimed a stale entry claim_after after its renewal at the earliest. Its idle time is then less
	// than minIdle, and XCLAIM does not take it back.
	for _, e := range stale {
		minIdle := now.Sub(e.renewed) - in.cfg.ClaimAfter/2
		q := request{[]*entry{e}, []*goredis.Cmd{in.xclaim(ctx, e.key, []any{e.ID}, max(0, minIdle), 0)}}
		rs, cmds = append(rs, q), append(cmds, q.cmds...)
	}
	ctx, cancel := c.Within(ctx)
	defer cancel()
	c.Send(ctx, cmds)
	var missing []*entry
	for _, q := range rs {
		if e := q.err(); e != nil {
			if !redis.HasErrorPrefix(e, "NOGROUP") {
				err = redis.Explain(e, "renew entries of stream "+q.entries[0].key)
				next = in.cfg.ClaimAfter / 16
			}
			continue
		}
		missing = append(missing, in.renewed(q, now)...)
	}
	lost, e := in.claimedByOthers(ctx, c, missing)
	return lost, next, errors.Join(err, e)
}

// renewed notes the entries that a command has renewed, and returns the others.
func (in *input) renewed(q request, now time.Time) (missing []*entry) {
	ids, _ := q.cmds[0].StringSlice()
	claimed := make(map[string]bool, len(ids))
	for _, id := range ids {
		claimed[id] = true
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, e := range q.entries {
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

// claimedByOthers returns the Refs of entries that another consumer has claimed, and forgets them. An entry that no consumer has
// was trimmed, or its group was dropped; this input keeps it.
func (in *input) claimedByOthers(ctx context.Context, c *conn, missing []*entry) (lost []uint64, err error) {
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
		if p, ok := pending(answer)[e.ID]; ok && p.consumer != in.consumer {
			lost, gone = append(lost, e.ref), append(gone, e)
		}
	}
	in.forget(gone)
	return lost, nil
}
