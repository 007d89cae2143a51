package engine_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/flowd-io/flowd/engine"
)

func TestTakeMovesWhatThereIsRoomFor(t *testing.T) {
	from := engine.NewBatch(4)
	for i := range 4 {
		m := from.Add([]byte{'a' + byte(i)})
		m.Ref, m.Attempt, m.Key = uint64(i), 2, []byte("k")
		if i == 1 {
			m.Fail(errors.New("not decodable"))
		}
	}
	to := engine.NewBatch(3)
	to.Add([]byte("first"))
	if n := to.Take(from, 0); n != 2 || to.Room() != 0 || to.Take(from, 2) != 0 {
		t.Fatalf("%d taken, room for %d", n, to.Room())
	}
	var live, ended []string
	for m := range to.All() {
		live = append(live, string(m.Bytes()))
	}
	for m := range to.Ended() {
		ended = append(ended, string(m.Bytes())+" "+m.Err().Error())
		if m.Ref != 1 || m.Attempt != 2 || string(m.Key) != "k" {
			t.Errorf("not as it was: %d, %d, %q", m.Ref, m.Attempt, m.Key)
		}
	}
	if len(live) != 2 || live[1] != "a" || len(ended) != 1 || ended[0] != "b not decodable" {
		t.Errorf("live %q, ended %q", live, ended)
	}
	left := 0
	for range from.All() {
		left++
	}
	if left != 2 {
		t.Errorf("%d are left, want 2", left)
	}
}

func TestResetMakesAnEmptyBatch(t *testing.T) {
	var none *engine.Batch
	b := none.Reset(3)
	b.Add([]byte("x")).Fail(errors.New("no"))
	for _, room := range []int{2, 3, 9} {
		if b = b.Reset(room); b.Room() != room || b.Len() != 0 {
			t.Errorf("room for %d, %d messages; want room for %d", b.Room(), b.Len(), room)
		}
		for range b.Ended() {
			t.Error("something is left")
		}
	}
}

func TestMetadataOfTheInputsOwn(t *testing.T) {
	var m engine.Meta
	m = m.With("path", "p").Own().With("header", "h").WithOwn("source", "s")
	if got := maps.Collect(m.Added()); len(got) != 1 || got["header"] != "h" {
		t.Errorf("added: %v", got)
	}
	if got := m.Map(); len(got) != 3 || got["source"] != "s" || got["path"] != "p" {
		t.Errorf("all: %v", got)
	}
	m = m.WithOwn("header", "x")
	if got := m.Map(); len(got) != 3 || got["header"] != "x" {
		t.Errorf("replaced: %v", got)
	}
	for name := range m.Added() {
		t.Errorf("%s is added", name)
	}
	m = engine.Meta{}.WithIndex("line").At(7).WithOwn("source", "s")
	if got := m.Map(); got["line"] != 7 || got["source"] != "s" || len(got) != 2 {
		t.Errorf("with an index: %v", got)
	}
}

// The bytes of a Read are charged when it returns, so one Read must not add very many.
func TestLongMessagesLeaveNoRoomForMore(t *testing.T) {
	for _, b := range []*engine.Batch{engine.NewBatch(256), engine.NewBatch(256).Reset(256)} {
		for range 100 {
			b.Add([]byte("short"))
		}
		n := 0
		for ; b.Room() > 0; n++ {
			b.Add(make([]byte, 1<<20))
		}
		if n > 5 || b.Len() != 100+n {
			t.Errorf("%d messages of 1 MiB, %d in all", n, b.Len())
		}
	}
}
