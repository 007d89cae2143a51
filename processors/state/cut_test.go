package state

import (
	"testing"

	"github.com/flowd-io/flowd/engine"
	"github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/internal/state/waits"
)

// TestACutDoesNotHideThoseBefore lets one of several messages stop waiting. The messages that waited for it still wait for those before
// it, and the graph knows that, so that it detects circles through them.
func TestACutDoesNotHideThoseBefore(t *testing.T) {
	roots := enginetest.Origins(t, 4)
	graph := waits.New()
	c := &chain{book: &book{graph: graph}}
	var all []*entry
	for i := range roots {
		e := &entry{chain: c, origins: roots[i : i+1], resume: func(func(*engine.Message) error) {}}
		c.log = append(c.log, e)
		if i == 0 {
			e.state = pending
		} else if !c.awaits(e) {
			t.Fatalf("message %d does not wait", i)
		}
		all = append(all, e)
	}
	all[2].cut()
	graph.End(&all[2].wait) // it goes on
	if graph.Begin(&waits.Wait{}, roots[:1], roots[3:], func() {}) {
		t.Error("the first message waits for the last, which waits for it")
	}
}
