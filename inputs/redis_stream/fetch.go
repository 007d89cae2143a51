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

// mostScan is the longest time between two looks for idle entries.
const mostScan = 5 * time.Second

// slowly is after how many reads one entry more is asked for, once there were too many.
const slowly = 64

// fetch brings entries: first what this consumer has not settled, then now and then what is idle, then new ones.
type fetch struct {
	*input
	conn   *conn
	own    map[string]string // streams of which own entries are still to be read, and after which id
	cursor map[string]string // of the look for idle entries; "" or missing: it begins
	due    time.Time         // of the next look
	few    int               // entries that are asked for at once at most; 0: as many as there is room for
	reads  int
}

// some puts entries into rest; there may be none after a while. When as many as there is room for are more than a reply
// may take, it asks for fewer, and for those first that the server has handed out in vain.
func (f *fetch) some(ctx context.Context, room int) error {
	if f.few > 0 {
		room = min(room, f.few)
	}
	err := f.read(ctx, room)
	if !errors.Is(err, bounds.ErrTooLarge) || room == 1 {
		if f.reads++; f.few > 0 && f.reads%slowly == 0 {
			f.few++
		}
		return err
	}
	if f.few == 0 {
		f.log.Warn("the entries that there is room for are more than max_reply together: fewer are read at once")
	}
	f.few = room / 2
	for _, key := range f.cfg.Key {
		if _, left := f.own[key]; !left {
			f.own[key] = "0"
		}
	}
	return nil
}

// read is some for exactly so many entries.
func (f *fetch) read(ctx context.Context, room int) error {
	for _, key := range f.cfg.Key {
		if _, left := f.own[key]; left {
			return f.again(ctx, key, func() error { return f.readOwn(ctx, key, room) })
		}
	}
	if now := time.Now(); !now.Before(f.due) {
		more := false
		for _, key := range f.cfg.Key {
			if err := f.again(ctx, key, func() error { return f.claim(ctx, key, room) }); err != nil {
				return err
			}
			more = more || f.cursor[key] != ""
		}
		if !more {
			f.due = now.Add(min(f.cfg.ClaimAfter/4, mostScan))
		}
		f.mu.Lock()
		found := len(f.rest)
		f.mu.Unlock()
		if found > 0 || more {
			return nil
		}
	}
	return f.again(ctx, "", func() error { return f.readNew(ctx, room) })
}

// again does it once more when the group was missing and could be created. "" stands for all streams.
func (f *fetch) again(ctx context.Context, key string, do func() error) error {
	err := do()
	if !redis.Says(err, "NOGROUP") && !redis.Says(err, "UNBLOCKED") {
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

// recreate creates a group that somebody has dropped, unless it is there.
func (f *fetch) recreate(ctx context.Context, key string) error {
	from, err := f.resume(ctx, key)
	if err != nil {
		return err
	}
	_, err = f.conn.Ask(ctx, 2, "xgroup", "create", key, f.cfg.Group, from, "mkstream")
	switch {
	case redis.Says(err, "BUSYGROUP"):
		return nil
	case err == nil:
		f.log.Warn("the group or its stream was gone, and was created again: what other consumers had in flight is not "+
			"delivered again",
			"stream", key, "group", f.cfg.Group, "after", from)
	}
	return redis.Explain(err, "create group "+f.cfg.Group+" of stream "+key)
}

// resume is the id after which a group goes on that is created again: before what is not settled here, after what is. A
// stream that is new, too, is read from its beginning.
func (f *fetch) resume(ctx context.Context, key string) (string, error) {
	f.mu.Lock()
	from := f.place[key]
	for _, e := range f.held {
		if e.key == key && (from == "" || less(e.ID, from)) {
			from = before(e.ID)
		}
	}
	f.mu.Unlock()
	if from == "" {
		return f.cfg.from(), nil
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
	return f.streams(answer, func(key string, all []redis.Entry) error {
		f.mu.Lock()
		f.place[key] = all[len(all)-1].ID
		f.mu.Unlock()
		f.keep(key, all, nil)
		return nil
	})
}

var errAnswer = errors.New("the server's answer is not one of XREADGROUP or XAUTOCLAIM")

// streams calls do for the entries of each stream of an answer.
func (f *fetch) streams(answer any, do func(key string, all []redis.Entry) error) error {
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

// readOwn reads what this consumer has not settled before.
func (f *fetch) readOwn(ctx context.Context, key string, room int) error {
	answer, err := f.conn.Ask(ctx, 7, "xreadgroup", "group", f.cfg.Group, f.consumer, "count", room, "streams", key,
		f.own[key])
	if err != nil && !errors.Is(err, goredis.Nil) {
		return err
	}
	last := ""
	if answer != nil {
		err = f.streams(answer, func(key string, all []redis.Entry) error {
			last = all[len(all)-1].ID
			return f.redelivered(ctx, key, all)
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

// claim takes over what is idle.
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
			f.trimmed(key, len(gone))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return f.redelivered(ctx, key, all)
}

func (f *fetch) trimmed(key string, n int) {
	f.log.Warn("entries were trimmed or deleted before they were settled", "stream", key, "group", f.cfg.Group,
		"entries", n)
}

// redelivered keeps entries that were delivered before: how often, Redis says.
func (f *fetch) redelivered(ctx context.Context, key string, all []redis.Entry) error {
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
		f.trimmed(key, len(gone))
		if _, err := f.conn.Ask(ctx, 1, append([]any{"xack", key, f.cfg.Group}, gone...)...); err != nil {
			return err
		}
	}
	f.keep(key, left, counts)
	return nil
}

// owned is what Redis knows of an entry that is not settled.
type owned struct {
	consumer string
	count    int
}

// pending reads an answer of XPENDING.
func pending(answer any) map[string]owned {
	list, _ := answer.([]any)
	all := make(map[string]owned, len(list))
	for _, x := range list {
		if one, ok := x.([]any); ok && len(one) == 4 {
			id, _ := one[0].(string)
			consumer, _ := one[1].(string)
			n, _ := one[3].(int64)
			all[id] = owned{consumer, int(n)}
		}
	}
	return all
}

// keep adds entries to those that Read gives, but for what is in flight here. Without counts it is their first
// delivery.
func (f *fetch) keep(key string, all []redis.Entry, counts map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	waiting := map[spot]bool{}
	for _, e := range f.rest {
		waiting[spot{e.key, e.ID}] = true
	}
	for _, e := range all {
		if waiting[spot{key, e.ID}] {
			continue
		}
		if ref, here := f.refs[spot{key, e.ID}]; here {
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

// parts are the two numbers of an id.
func parts(id string) (ms, n uint64) {
	first, second, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(first, 10, 64)
	n, _ = strconv.ParseUint(second, 10, 64)
	return ms, n
}

func less(a, b string) bool {
	ams, an := parts(a)
	bms, bn := parts(b)
	return ams < bms || ams == bms && an < bn
}

// before is the id before another.
func before(id string) string {
	ms, n := parts(id)
	switch {
	case n > 0:
		n--
	case ms > 0:
		ms, n = ms-1, 1<<64-1
	}
	return strconv.FormatUint(ms, 10) + "-" + strconv.FormatUint(n, 10)
}
