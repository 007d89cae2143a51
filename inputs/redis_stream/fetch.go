package redisstream

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/flowd-io/flowd/internal/network/bounds"
	"github.com/flowd-io/flowd/internal/systems/queue/redis"
	goredis "github.com/redis/go-redis/v9"
)

// maxScanInterval is the longest time between two scans for idle entries.
const maxScanInterval = 5 * time.Second

// readsPerEntry is the number of reads after which the limit on entries per read grows by one again.
const readsPerEntry = 64

// fetch fetches entries: first those that this consumer has not settled, then, at intervals, idle ones, then new ones.
type fetch struct {
	*input
	conn   *conn
	own    map[string]string // streams whose unsettled entries of this consumer are still to be read, with the id to continue after
	cursor map[string]string // of the scan for idle entries of each stream; "" or missing: the scan starts
	due    time.Time         // when the next scan starts
	limit  int               // maximum number of entries per read; 0: as many as there is room for
	reads  int
}

// fetch adds entries to rest. If none arrive within [redis.Block], it adds none. If a reply is larger than max_reply, it asks
// for fewer entries from then on. The server counts the entries of the lost reply as delivered, so they are read again first.
func (f *fetch) fetch(ctx context.Context, room int) error {
	if f.limit > 0 {
		room = min(room, f.limit)
	}
	err := f.read(ctx, room)
	if !errors.Is(err, bounds.ErrTooLarge) || room == 1 {
		if f.reads++; f.limit > 0 && f.reads%readsPerEntry == 0 {
			f.limit++
		}
		return err
	}
	if f.limit == 0 {
		f.log.Warn("a reply is larger than max_reply: fewer entries are read at once")
	}
	f.limit = room / 2
	for _, key := range f.cfg.Key {
		if _, left := f.own[key]; !left {
			f.own[key] = "0"
		}
	}
	return nil
}

// read fetches up to room entries.
func (f *fetch) read(ctx context.Context, room int) error {
	for _, key := range f.cfg.Key {
		if _, left := f.own[key]; left {
			return f.recreating(ctx, key, func() error { return f.readOwn(ctx, key, room) })
		}
	}
	if now := time.Now(); !now.Before(f.due) {
		more := false
		for _, key := range f.cfg.Key {
			if err := f.recreating(ctx, key, func() error { return f.claim(ctx, key, room) }); err != nil {
				return err
			}
			more = more || f.cursor[key] != ""
		}
		if !more {
			f.due = now.Add(min(f.cfg.ClaimAfter/4, maxScanInterval))
		}
		f.mu.Lock()
		found := len(f.rest)
		f.mu.Unlock()
		if found > 0 || more {
			return nil
		}
	}
	return f.recreating(ctx, "", func() error { return f.readNew(ctx, room) })
}

// recreating calls do. If the group is missing, it creates the group if create allows that, and calls do again. The key "" stands for all
// streams.
func (f *fetch) recreating(ctx context.Context, key string, do func() error) error {
	err := do()
	if !redis.HasErrorPrefix(err, "NOGROUP") && !redis.HasErrorPrefix(err, "UNBLOCKED") {
		return redis.Explain(err, "read "+f.name(key))
	}
	if !f.cfg.Create {
		return redis.Explain(err, "read "+f.name(key))
	}
	for _, k := range f.cfg.Key {
		if key != "" && k != key {
			continue
		}
		if err := f.recreate(ctx, k); err != nil {
			return err
		}
	}
	return redis.Explain(do(), "read "+f.name(key))
}

func (f *fetch) name(key string) string {
	return "stream " + cmp.Or(key, strings.Join(f.cfg.Key, ", ")) + " as group " + f.cfg.Group
}

// recreate creates a group that was dropped. It is not an error if the group exists.
func (f *fetch) recreate(ctx context.Context, key string) error {
	from, err := f.resume(ctx, key)
	if err != nil {
		return err
	}
	_, err = f.conn.Ask(ctx, 2, "xgroup", "create", key, f.cfg.Group, from, "mkstream")
	switch {
	case redis.HasErrorPrefix(err, "BUSYGROUP"):
		return nil
	case err == nil:
		f.log.Warn("the group or its stream was missing, and was recreated: entries that other consumers had in flight are "+
			"not redelivered",
			"stream", key, "group", f.cfg.Group, "after", from)
	}
	return redis.Explain(err, "create group "+f.cfg.Group+" of stream "+key)
}

// resume returns the id after which a recreated group begins: before the oldest entry that is not settled here or, if there is
// none, after the last entry that was read. If the stream was recreated as well, it is read from its beginning.
func (f *fetch) resume(ctx context.Context, key string) (string, error) {
	f.mu.Lock()
	from := f.lastRead[key]
	for _, e := range f.held {
		if e.key == key && (from == "" || less(e.ID, from)) {
			from = before(e.ID) // a group begins after the id
		}
	}
	f.mu.Unlock()
	if from == "" {
		return f.cfg.startID(), nil
	}
	answer, err := f.conn.Ask(ctx, 1, "xrevrange", key, "+", "-", "count", 1)
	if err != nil {
		return "", redis.Explain(err, "read stream "+key)
	}
	newest, err := redis.Entries(answer)
	if err != nil {
		return "", err
	}
	if len(newest) == 0 || less(newest[0].ID, from) {
		return "0", nil
	}
	return from, nil
}

// readNew waits for new entries.
func (f *fetch) readNew(ctx context.Context, room int) error {
	args := []any{"xreadgroup", "group", f.cfg.Group, f.consumer, "count", max(1, room/len(f.cfg.Key)), "block",
		redis.Block.Milliseconds(), "streams"}
	key := len(args)
	for _, k := range f.cfg.Key {
		args = append(args, k)
	}
	for range f.cfg.Key {
		args = append(args, ">")
	}
	answer, err := f.conn.Reader.Wait(ctx, key, args...)
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.eachStream(answer, func(key string, all []redis.Entry) error {
		f.mu.Lock()
		f.lastRead[key] = all[len(all)-1].ID
		f.mu.Unlock()
		f.keep(key, all, nil)
		return nil
	})
}

var errAnswer = errors.New("the server's reply is not a valid reply to XREADGROUP or XAUTOCLAIM")

// eachStream calls do with the entries of each stream of an answer.
func (f *fetch) eachStream(answer any, do func(key string, all []redis.Entry) error) error {
	list, ok := answer.([]any)
	if !ok {
		return errAnswer
	}
	for _, x := range list {
		pair, ok := x.([]any)
		if !ok || len(pair) != 2 {
			return errAnswer
		}
		key, ok := pair[0].(string)
		if !ok {
			return errAnswer
		}
		all, err := redis.Entries(pair[1])
		if err != nil {
			return err
		}
		if len(all) == 0 {
			continue
		}
		if err := do(key, all); err != nil {
			return err
		}
	}
	return nil
}

// readOwn reads entries that were delivered to this consumer earlier and are not settled.
func (f *fetch) readOwn(ctx context.Context, key string, room int) error {
	answer, err := f.conn.Ask(ctx, 7, "xreadgroup", "group", f.cfg.Group, f.consumer, "count", room, "streams", key,
		f.own[key])
	if err != nil && !errors.Is(err, goredis.Nil) {
		return err
	}
	last := ""
	if answer != nil {
		err = f.eachStream(answer, func(key string, all []redis.Entry) error {
			last = all[len(all)-1].ID
			return f.keepRedelivered(ctx, key, all)
		})
		if err != nil {
			return err
		}
	}
	if last == "" {
		delete(f.own, key)
		return nil
	}
	f.own[key] = last
	return nil
}

// claim claims entries that have been idle for claim_after.
func (f *fetch) claim(ctx context.Context, key string, room int) error {
	answer, err := f.conn.Ask(ctx, 1, "xautoclaim", key, f.cfg.Group, f.consumer, f.cfg.ClaimAfter.Milliseconds(),
		cmp.Or(f.cursor[key], "0-0"), "count", room)
	if err != nil {
		return err
	}
	list, ok := answer.([]any)
	if !ok || len(list) < 2 {
		return errAnswer
	}
	cursor, ok := list[0].(string)
	if !ok {
		return errAnswer
	}
	if f.cursor[key] = cursor; cursor == "0-0" {
		f.cursor[key] = ""
	}
	all, err := redis.Entries(list[1])
	if err != nil {
		return err
	}
	if len(list) > 2 {
		if gone, _ := list[2].([]any); len(gone) > 0 {
			f.logTrimmed(key, len(gone))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return f.keepRedelivered(ctx, key, all)
}

// logTrimmed logs that n entries of a stream no longer exist.
func (f *fetch) logTrimmed(key string, n int) {
	f.log.Warn("entries were trimmed or deleted before they were settled", "stream", key, "group", f.cfg.Group,
		"entries", n)
}

// keepRedelivered keeps entries that were delivered before, with the delivery counts that Redis has. Entries that were
// trimmed or deleted are acknowledged.
func (f *fetch) keepRedelivered(ctx context.Context, key string, all []redis.Entry) error {
	f.mu.Lock()
	most := len(all) + len(f.held) + len(f.rest)
	f.mu.Unlock()
	answer, err := f.conn.Ask(ctx, 1, "xpending", key, f.cfg.Group, all[0].ID, all[len(all)-1].ID, most, f.consumer)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	for id, p := range pending(answer) {
		counts[id] = p.count
	}
	var gone []any
	left := all[:0]
	for _, e := range all {
		if e.Fields == nil {
			gone = append(gone, e.ID)
			continue
		}
		left = append(left, e)
	}
	if len(gone) > 0 {
		f.logTrimmed(key, len(gone))
		if _, err := f.conn.Ask(ctx, 1, append([]any{"xack", key, f.cfg.Group}, gone...)...); err != nil {
			return err
		}
	}
	f.keep(key, left, counts)
	return nil
}

// pendingEntry is what Redis knows about an entry that is not settled.
type pendingEntry struct {
	consumer string
	count    int
}

// pending returns the entries of an answer to XPENDING, by id.
func pending(answer any) map[string]pendingEntry {
	list, _ := answer.([]any)
	all := make(map[string]pendingEntry, len(list))
	for _, x := range list {
		if one, ok := x.([]any); ok && len(one) == 4 {
			id, _ := one[0].(string)
			consumer, _ := one[1].(string)
			n, _ := one[3].(int64)
			all[id] = pendingEntry{consumer, int(n)}
		}
	}
	return all
}

// keep adds entries to rest, except those that are already in rest or in flight here. Nil counts say that this is their
// first delivery.
func (f *fetch) keep(key string, all []redis.Entry, counts map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	waiting := map[entryKey]bool{}
	for _, e := range f.rest {
		waiting[entryKey{e.key, e.ID}] = true
	}
	for _, e := range all {
		if waiting[entryKey{key, e.ID}] {
			continue
		}
		if ref, here := f.refs[entryKey{key, e.ID}]; here {
			f.held[ref].renewed = now
			continue
		}
		n := 1
		if counts != nil {
			n = max(2, counts[e.ID])
		}
		f.rest = append(f.rest, &entry{Entry: e, key: key, count: n, renewed: now})
	}
}

// splitID returns the two numbers of an id.
func splitID(id string) (ms, n uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	n, _ = strconv.ParseUint(second, 10, 64)
	return ms, n
}

// less reports whether id a is before id b in a stream.
func less(a, b string) bool {
	ams, an := splitID(a)
	bms, bn := splitID(b)
	return ams < bms || ams == bms && an < bn
}

// before returns the greatest id that is less than id.
func before(id string) string {
	ms, n := splitID(id)
	switch {
	case n > 0:
		n--
	case ms > 0:
		ms, n = ms-1, 1<<64-1
	}
	return strconv.FormatUint(ms, 10) + "-" + strconv.FormatUint(n, 10)
}
