package redislist

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/internal/testing/redistest"
	"github.com/flowd-io/flowd/internal/testing/servertest"
)

// losing returns the URL of a proxy to Redis that loses the next removal, or the answer to it, as next says.
func losing(t *testing.T, url string, next *atomic.Int32) string {
	t.Helper()
	return "redis://" + servertest.Losing(t, strings.TrimPrefix(url, "redis://"), func(request []byte) servertest.Loss {
		if !bytes.Contains(request, []byte("lrem")) {
			return servertest.Nothing
		}
		return servertest.Loss(next.Swap(int32(servertest.Nothing)))
	})
}

// A removal may be lost, or the answer to it. Either way it takes effect once, and an equal element in flight stays there.
func TestALostAnswerRemovesNoOtherElement(t *testing.T) {
	back := (&engine.Error{Class: engine.Transient, Err: errors.New("a stop")}).HandedBack()
	for _, tt := range []struct {
		name string
		lost servertest.Loss
		end  engine.Result
		list string // afterwards
	}{
		{"the answer to the removal of a delivered element", servertest.Answer, engine.Result{Fate: engine.Delivered}, ""},
		{"the removal of a delivered element", servertest.Request, engine.Result{Fate: engine.Delivered}, ""},
		{"the answer to the removal of a returned element", servertest.Answer, engine.Result{Fate: engine.Returned, Err: back}, "a"},
		{"the removal of a returned element", servertest.Request, engine.Result{Fate: engine.Returned, Err: back}, "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, key := redistest.URL(t), redistest.Key(t)
			c := redistest.Client(t, url)
			c.RPush(t.Context(), key, "a", "a", "a")
			var lost atomic.Int32
			in := opened(t, losing(t, url, &lost), key, "")
			_, refs := read(t, in, 3)
			lost.Store(int32(tt.lost))
			tt.end.Ref = refs[0]
			again, err := in.Ack(t.Context(), []engine.Result{tt.end})
			if err == nil || len(again) != 1 {
				t.Fatalf("got %v and %d results to repeat, want an error and 1", err, len(again))
			}
			settle(t, in, tt.end.Fate, tt.end.Err, refs[0])
			equal(t, "in flight", list(c, in.processing), "a a")
			equal(t, "in the list", list(c, key), tt.list)
			settle(t, in, engine.Delivered, nil, refs[1])
			equal(t, "in flight", list(c, in.processing), "a")
		})
	}
}

// A server that is out of memory accepts removals, since they free memory.
func TestASettledElementIsRemovedWithoutMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	c := redistest.Client(t, "redis://"+server.Address)
	c.RPush(t.Context(), "jobs", "a", "b")
	in := opened(t, "redis://"+server.Address, "jobs", "")
	_, refs := read(t, in, 2)
	c.ConfigSet(t.Context(), "maxmemory", "1")
	settle(t, in, engine.Delivered, nil, refs[0])
	equal(t, "in flight", list(c, in.processing), "b")
}

// A replica refuses a removal: the error says so, and the connection is not used again.
func TestAReplicaRefusesARemoval(t *testing.T) {
	t.Parallel()
	server := redistest.Own(t)
	c := redistest.Client(t, "redis://"+server.Address)
	c.RPush(t.Context(), "jobs", "a")
	in := opened(t, "redis://"+server.Address, "jobs", "")
	_, refs := read(t, in, 1)
	dialed := in.Conn().Client.PoolStats().Misses
	c.Do(t.Context(), "replicaof", "127.0.0.1", "1")
	_, err := in.Ack(t.Context(), []engine.Result{{Ref: refs[0], Fate: engine.Delivered}})
	if e := engine.ErrorOf(err, ""); e == nil || e.Class != engine.Transient || !strings.Contains(err.Error(), "this is a replica") {
		t.Errorf("got %v", err)
	}
	c.Do(t.Context(), "replicaof", "no", "one")
	settle(t, in, engine.Delivered, nil, refs[0])
	equal(t, "in flight", list(c, in.processing), "")
	if in.Conn().Client.PoolStats().Misses == dialed {
		t.Error("the connection to the replica is still in use")
	}
}

// An element is not forgotten when it can't be put back, such as into a key of another type.
func TestAnElementThatCannotBePutBackIsKept(t *testing.T) {
	t.Parallel()
	url, key := redistest.URL(t), redistest.Key(t)
	c := redistest.Client(t, url)
	c.RPush(t.Context(), key, "a")
	in := opened(t, url, key, "")
	_, refs := read(t, in, 1)
	c.Set(t.Context(), key, "text", 0)
	back := engine.Result{Ref: refs[0], Fate: engine.Returned}
	if again, err := in.Ack(t.Context(), []engine.Result{back}); err == nil || len(again) != 1 {
		t.Errorf("the element can't be put back: %v, %d again", err, len(again))
	}
	c.Del(t.Context(), key)
	settle(t, in, back.Fate, nil, refs[0])
	equal(t, "in the list", list(c, key), "a")
}
