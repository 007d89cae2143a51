package runtime_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowd-io/flowd/engine"
	. "github.com/flowd-io/flowd/engine/enginetest"
	"github.com/flowd-io/flowd/schema"
)

// numbering is an output that notes the serials of payloads.
type numbering struct {
	mu      sync.Mutex // guards the fields below
	seen    map[string][]uint32
	hang    string // payload whose first attempt hangs
	hanging chan struct{}
}

func (c *numbering) Write(_ context.Context, b *engine.Batch) error {
	c.mu.Lock()
	hangs := false
	for m := range b.All() {
		body := string(m.Bytes())
		c.seen[body] = append(c.seen[body], m.Serial())
		if again := len(c.seen[body]) > 1; body == c.hang && !again {
			hangs = true
		} else if strings.HasPrefix(body, "bad") && !again {
			m.Fail(engine.Errorf(engine.Transient, "not now"))
		}
	}
	c.mu.Unlock()
	if hangs {
		<-c.hanging
	}
	return nil
}

func TestAMessageKeepsItsSerialAtEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &numbering{seen: map[string][]uint32{}, hang: "late", hanging: make(chan struct{})}
		defer close(out.hanging)
		src := &Source{Payloads: []string{"a", "bad", "late", "b"}, Takes: engine.TakesOne}
		p := pipe(src, &Sink{})
		spec := engine.OutputSpec{Timeout: time.Second, Concurrency: 2,
			Use: engine.Use(func(engine.Env) (engine.Output, error) { return out, nil })}
		p.Outputs = schema.MapOf(entry("out", spec), entry("out2", spec))
		p.Engine.OnFailure.Retry = &engine.Retry{MaxAttempts: 3, Backoff: time.Second}
		p.Batchers = Named("all", engine.BatcherSpec{Output: engine.Names{"out", "out2"}})
		Run(t, p, context.Background())
		all := map[uint32]string{}
		for body, serials := range out.seen {
			distinct := map[uint32]bool{}
			for _, s := range serials {
				distinct[s] = true
				if other, taken := all[s]; s == 0 || taken && other != body {
					t.Errorf("%s has the serial %d of %q", body, s, other)
				}
				all[s] = body
			}
			if len(distinct) != 2 { // one for each output
				t.Errorf("%s came with the serials %d", body, serials)
			}
		}
	})
}
