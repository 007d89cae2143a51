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

// losing is the URL of a way to a Redis that loses something of the next removal.
func losing(t *testing.T, url string, next *atomic.Int32) string {
	t.Helper()
	return "redis://" + servertest.Losing(t, strings.TrimPrefix(url, "redis://"), func(request []byte) servertest.Loss {
		if !bytes.Contains(request, []byte("lrem")) {
			return servertest.Nothing
		}
		return servertest.Loss(next.Swap(int32(servertest.Nothing)))
	})
}

// The answer to a removal may be lost, or the removal itself. It takes effect once, so that an equal element in flight
// stays there.
func TestALostAnswerRemovesNoOtherElement(t *testing.T) {
	back := (&engine.Error{Class: engine.Transient, Err: errors.New("a stop")}).HandedBack()
	for _, tt := range []struct {
		name string
		lost servertest.Loss
		end  engine.Result
		list string // afterwards
	}{
		{"an answer, of what is delivered", servertest.Answer, engine.Result{Fate: engine.Delivered}, ""},
		{"a request, of what is delivered", servertest.Request, engine.Result{Fate: engine.Delivered}, ""},
		{"an answer, of what is returned", servertest.Answer, engine.Result{Fate: engine.Returned, Err: back}, "a"},
		{"a request, of what is returned", servertest.Request, engine.Result{Fate: engine.Returned, Err: back}, "a"},
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
				t.Fatalf("nothing is lost: %v, %d again", err, len(again))
			}
			settle(t, in, tt.end.Fate, tt.end.Err, refs[0])
			equal(t, "in flight", list(c, in.processing), "a a")
			equal(t, "in the list", list(c, key), tt.list)
			settle(t, in, engine.Delivered, nil, refs[1])
			equal(t, "in flight", list(c, in.processing), "a")
		})
	}
}

// A server that is out of memory takes removals: they free some.
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
func TestAReplicaRemovesNothing(t *testing.T) {
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
